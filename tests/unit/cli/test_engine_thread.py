"""The main thread beside the engine's thread: a signal reaches it wherever it waits."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from errno import EMFILE
from types import FrameType

import pytest

from contextinfinity.cli.engine_thread import Events, LoopInThread


class Wished(Exception):
    """What the handler of these tests raises."""


@pytest.fixture
def unnoticed() -> Iterator[threading.Thread]:
    """A signal that wakes no wait of the main thread: another thread gets it once the main one waits."""

    def wish(number: int, frame: FrameType | None) -> None:
        raise Wished

    before = signal.signal(signal.SIGUSR1, wish)
    may_end = threading.Event()

    def send() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        may_end.wait()

    sender = threading.Thread(target=send, daemon=True)
    yield sender
    may_end.set()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.req("CLI-1")
@pytest.mark.timeout(20)
def test_a_signal_that_wakes_nobody_is_noticed_by_who_waits_for_the_engine(unnoticed: threading.Thread) -> None:
    async def for_ever() -> None:
        unnoticed.start()
        await asyncio.Event().wait()

    with LoopInThread() as loop, pytest.raises(Wished):
        loop.do(for_ever())


@pytest.mark.req("CLI-1")
@pytest.mark.timeout(20)
def test_a_signal_that_wakes_nobody_is_noticed_by_who_listens(unnoticed: threading.Thread) -> None:
    has_heard = threading.Event()

    async def nothing_more() -> AsyncIterator[str]:
        yield "one"
        await asyncio.to_thread(has_heard.wait)
        unnoticed.start()
        await asyncio.Event().wait()

    with LoopInThread() as loop:
        events = Events(loop, nothing_more())
        assert next(events) == "one"

        def hear() -> str:
            has_heard.set()
            return next(events)

        with pytest.raises(Wished):
            hear()


@pytest.mark.timeout(20)
def test_a_loop_that_cannot_be_opened_is_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"), LoopInThread():
        pass
