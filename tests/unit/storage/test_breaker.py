"""The breaker: who waits for a ledger that is away, and who does not."""

from __future__ import annotations

import asyncio

import pytest

from contextinfinity.errors import LedgerAway, LedgerBusy, LedgerError, LedgerFailed, LedgerFull
from contextinfinity.storage.standby.breaker import CircuitBreaker


class Ledger:
    """Answers when it may; ``waited`` is for how long another process has held it."""

    def __init__(self) -> None:
        self.waited = 0.0
        self.is_held = False
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.opened = 0
        self.breaker = CircuitBreaker(self._held_up, self._open, patience=0.01)

    async def answer(self) -> str:
        self.asked += 1
        await self.may_answer.wait()
        return "answer"

    async def ask(self, *, probing: bool = False) -> str:
        return await self.breaker.through(self.answer, probing=probing)

    def _open(self) -> None:
        self.opened += 1

    def _held_up(self) -> float:
        self.waited += self.is_held
        return self.waited


async def fails(error: LedgerError) -> str:
    raise error


@pytest.mark.req("CHATMEM-6")
@pytest.mark.parametrize("error", [LedgerBusy("It is locked."), LedgerFailed("It fails.")])
async def test_after_a_failure_nobody_asks_until_a_probe_comes_through(error: LedgerError) -> None:
    ledger = Ledger()
    with pytest.raises(LedgerAway, match=error.message):
        await ledger.breaker.through(lambda: fails(error))
    for _ in range(3):
        with pytest.raises(LedgerAway, match=error.message):
            await ledger.ask()
    assert (ledger.asked, ledger.opened) == (0, 1)
    ledger.may_answer.set()
    assert await ledger.ask(probing=True) == "answer"
    assert ledger.breaker.is_open, "whoever probes closes it"
    ledger.breaker.close()
    assert await ledger.ask() == "answer"
    assert ledger.breaker.since is None


async def test_a_full_disk_does_not_open_it() -> None:
    ledger = Ledger()
    with pytest.raises(LedgerFull):
        await ledger.breaker.through(lambda: fails(LedgerFull("No room.")))
    assert not ledger.breaker.is_open


@pytest.mark.req("CHATMEM-6")
async def test_all_who_wait_are_told_at_once_when_another_process_holds_the_ledger_for_too_long() -> None:
    ledger = Ledger()
    asked = [asyncio.create_task(ledger.ask()) for _ in range(5)]
    ledger.is_held = True
    async with asyncio.timeout(10):
        told = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, LedgerAway) for each in told)
    assert (ledger.asked, ledger.opened) == (5, 1)


async def test_a_slow_answer_is_no_outage_while_nobody_else_holds_the_ledger() -> None:
    ledger = Ledger()
    ledger.waited = 1.0  # of a wait that is over, which SQLite does not tell at once
    asked = asyncio.create_task(ledger.ask())
    loop = asyncio.get_running_loop()
    looked_often = asyncio.Event()
    loop.call_later(0.05, looked_often.set)  # five times the patience
    await looked_often.wait()
    assert not asked.done()
    ledger.may_answer.set()
    assert await asked == "answer"
    assert not ledger.breaker.is_open
