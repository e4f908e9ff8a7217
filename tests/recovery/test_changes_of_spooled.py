"""Changes to a conversation that is spooled come after its spool, or are refused as long as the ledger is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from contextinfinity.engine.engine import Engine
from contextinfinity.errors import LedgerAway, Refused
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.storage.standby.held_branches import Bounds
from tests.recovery.outages import SOON, engine_on, locked, said, until
from tests.recovery.speaker import script

T = TypeVar("T")
NEVER_BACK = Bounds(patience=0.05, first_pause=3600, longest_pause=3600)
"""A process that does not look for its ledger again while the test runs."""


async def rename(engine: Engine, thread_id: str) -> object:
    return await engine.store.sessions.rename((await engine.session(thread_id)).id, "A title")


async def retain(engine: Engine, thread_id: str) -> object:
    return await engine.store.sessions.retain((await engine.session(thread_id)).id, None)


async def unfold(engine: Engine, thread_id: str) -> None:
    with suppress(Refused):  # nothing is folded, which only a conversation that was found can say
        await engine.unfold(thread_id)


async def done(ask: Callable[[], Awaitable[T]], *engines: Engine) -> T:
    """Close the circuit breakers, as a probe does before anything is replayed, and do something.

    It is done again as often as the ledger is away: on a busy machine a slow process may look like that.
    """
    while True:
        for engine in engines:
            for breaker in (engine.store._held.reads, engine.store._held.writes):  # type: ignore[attr-defined]
                breaker.close()
        with suppress(LedgerAway):
            return await ask()


CHANGES: dict[str, Callable[[Engine, str], Awaitable[object]]] = {
    "pin": lambda engine, thread_id: engine.pin(thread_id, "The sky is blue."),
    "fork": lambda engine, thread_id: engine.fork(thread_id),
    "rollback": lambda engine, thread_id: engine.rollback(thread_id, to=1),
    "unfold": unfold,
    "rename": rename,
    "retain": retain,
}


@pytest.mark.req("TURN-13", "CHATMEM-6")
@pytest.mark.parametrize("is_here", [True, False], ids=["here", "elsewhere"])
async def test_a_new_conversation_in_a_spool_is_found_by_every_change(tmp_path: Path, is_here: bool) -> None:
    async with (
        engine_on(tmp_path, bounds=NEVER_BACK) as one,
        engine_on(tmp_path, bounds=NEVER_BACK) as other,
    ):
        changing = one if is_here else other
        for name, change in CHANGES.items():
            with locked(tmp_path):
                made = await one.ask("new", name)
                assert made.durability == "local"
                with pytest.raises(LedgerAway):
                    await change(changing, made.thread_id)
            await done(partial(change, changing, made.thread_id), one, other)
            kept = await done(partial(said, changing, made.thread_id), one, other)
            assert [asked for _, asked, _ in kept] == [name]


@pytest.mark.req("TURN-13")
async def test_a_fork_has_the_turns_that_another_process_had_spooled(tmp_path: Path) -> None:
    async with (
        engine_on(tmp_path, bounds=NEVER_BACK) as one,
        engine_on(tmp_path, ScriptedProvider(script)) as other,
    ):
        thread_id = (await one.ask("new", "before")).thread_id
        with locked(tmp_path):
            assert (await one.ask(thread_id, "held")).durability == "local"
        branch = await done(lambda: other.fork(thread_id), other)
        answer = await other.ask(thread_id, "after", branch_id=branch.id)
        assert answer.text.split(" | ") == ["before", "held", "after"]


@pytest.mark.req("TURN-13")
async def test_a_pin_on_a_spooled_conversation_is_in_the_next_request(tmp_path: Path) -> None:
    async with engine_on(tmp_path, bounds=NEVER_BACK) as engine:
        with locked(tmp_path):
            made = await engine.ask("new", "Hello")
        await done(lambda: engine.pin(made.thread_id, "The sky is blue."), engine)
        head = await engine.store.states.head((await engine.session(made.thread_id)).active_branch)
        assert head.pinned_facts == ("The sky is blue.",)


@pytest.mark.req("CHATMEM-6")
async def test_what_nothing_can_replace_waits_for_another_process(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        asked = await engine.ask("thread", "one")
        with locked(tmp_path):
            waiting = [
                asyncio.ensure_future(each)
                for each in (
                    engine.pin(asked.thread_id, "The sky is blue."),
                    engine.store.contents.keep_blob(b"a picture", "image/png"),
                    engine.store.prefix_hashes.note_broken(asked.turn_id),
                )
            ]
            await until(lambda: engine.store.blocked_seconds() > 4 * SOON.patience)
        await asyncio.gather(*waiting)
