from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from contextinfinity.domain.prompt import Finished, ProviderEvent, Retry, TextDelta
from contextinfinity.domain.turn import Completed
from contextinfinity.errors import ProviderError
from contextinfinity.providers.transport import RetryPolicy, retrying

END = Finished(outcome=Completed())
POLICY = RetryPolicy(attempts=4, first_wait=1.0, longest_wait=60.0)


def busy(after: float | None = None) -> ProviderError:
    return ProviderError("acme: it is overloaded.", kind="overloaded", hint="Wait.", retryable=True, retry_after=after)


class Attempts:
    """Gives each attempt its events or error, and remembers the waits and what was closed."""

    def __init__(self, *scripts: Sequence[ProviderEvent | Exception]) -> None:
        self.scripts = list(scripts)
        self.begun = 0
        self.closed = 0
        self.waits: list[float] = []

    def __call__(self) -> AsyncIterator[ProviderEvent]:
        script = self.scripts[min(self.begun, len(self.scripts) - 1)]
        self.begun += 1
        return self._stream(script)

    async def _stream(self, script: Sequence[ProviderEvent | Exception]) -> AsyncIterator[ProviderEvent]:
        try:
            for each in script:
                if isinstance(each, Exception):
                    raise each
                yield each
        finally:
            self.closed += 1

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    def run(self, policy: RetryPolicy = POLICY, random: float = 1.0) -> AsyncIterator[ProviderEvent]:
        return retrying(self, policy, sleep=self.wait, random=lambda: random)


async def all_of(stream: AsyncIterator[ProviderEvent]) -> list[ProviderEvent]:
    return [event async for event in stream]


async def test_an_answer_at_once_is_passed_through() -> None:
    attempts = Attempts([TextDelta(text="a"), END])
    assert await all_of(attempts.run()) == [TextDelta(text="a"), END]
    assert (attempts.begun, attempts.closed, attempts.waits) == (1, 1, [])


async def test_a_busy_provider_is_asked_again_and_the_wait_is_shown_first() -> None:
    attempts = Attempts([busy()], [busy()], [TextDelta(text="a"), END])
    stream = attempts.run()
    first = await anext(stream)
    assert first == Retry(attempt=1, reason="acme: it is overloaded.", wait_seconds=1.0)
    assert attempts.waits == []
    rest = await all_of(stream)
    assert rest == [Retry(attempt=2, reason="acme: it is overloaded.", wait_seconds=2.0), TextDelta(text="a"), END]
    assert attempts.waits == [1.0, 2.0]
    assert attempts.closed == 3


async def test_waits_are_spread_and_bounded() -> None:
    policy = RetryPolicy(attempts=9, first_wait=1.0, longest_wait=5.0)
    attempts = Attempts([busy()])
    with pytest.raises(ProviderError):
        await all_of(attempts.run(policy, random=0.5))
    assert attempts.waits == [0.5, 1.0, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5]


async def test_attempts_are_bounded_and_the_last_failure_is_told() -> None:
    attempts = Attempts([busy()])
    with pytest.raises(ProviderError, match="tried 4 times") as caught:
        await all_of(attempts.run())
    assert caught.value.kind == "overloaded"
    assert caught.value.hint == "Wait."
    assert attempts.begun == attempts.closed == 4


async def test_the_wait_a_vendor_asks_for_is_kept() -> None:
    attempts = Attempts([busy(after=30.0)], [END])
    await all_of(attempts.run())
    assert attempts.waits == [30.0]


async def test_a_wait_that_is_too_long_fails_at_once() -> None:
    attempts = Attempts([busy(after=61.0)], [END])
    with pytest.raises(ProviderError, match="wait 61 seconds; we wait 60 at most"):
        await all_of(attempts.run())
    assert attempts.begun == 1


async def test_a_failure_that_would_come_again_is_not_tried_again() -> None:
    attempts = Attempts([ProviderError("no", kind="authentication")], [END])
    with pytest.raises(ProviderError, match="no"):
        await all_of(attempts.run())
    assert attempts.begun == attempts.closed == 1


async def test_nobody_is_asked_again_once_a_word_was_given() -> None:
    attempts = Attempts([TextDelta(text="a"), busy()], [END])
    with pytest.raises(ProviderError):
        await all_of(attempts.run())
    assert attempts.begun == 1


async def test_an_answer_cut_before_its_first_word_is_asked_for_again() -> None:
    attempts = Attempts([], [TextDelta(text="")], [END])
    events = await all_of(attempts.run())
    assert [type(event) for event in events] == [Retry, TextDelta, Retry, Finished]
    with pytest.raises(ProviderError) as caught:
        await all_of(Attempts([]).run())
    assert caught.value.kind == "connection"


async def test_an_answer_cut_later_ends_as_it_was_cut() -> None:
    attempts = Attempts([TextDelta(text="a")])
    assert await all_of(attempts.run()) == [TextDelta(text="a")]
    assert attempts.begun == 1


async def test_leaving_early_lets_go_of_the_connection() -> None:
    attempts = Attempts([TextDelta(text="a"), TextDelta(text="b"), END])
    stream = attempts.run()
    await anext(stream)
    assert attempts.closed == 0
    await stream.aclose()  # type: ignore[attr-defined]
    assert attempts.closed == 1


async def test_a_cancel_while_waiting_ends_it() -> None:
    attempts = Attempts([busy()], [END])
    waiting = asyncio.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(all_of(retrying(attempts, POLICY, sleep=forever)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert attempts.begun == attempts.closed == 1


async def test_who_was_cut_off_is_named() -> None:
    attempts = Attempts([])
    with pytest.raises(ProviderError, match=r"^acme: .*cut off.*4 times"):
        await all_of(retrying(attempts, POLICY, vendor="acme", sleep=attempts.wait))
    with pytest.raises(ProviderError, match=r"^The provider: "):
        await all_of(attempts.run())
