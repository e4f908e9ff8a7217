from __future__ import annotations

import asyncio
import threading

import pytest

from contextinfinity.errors import LedgerClosed
from contextinfinity.storage.loop_thread import LoopThread


async def nothing() -> None:
    """Do nothing."""


async def fails() -> None:
    raise ValueError("no")


async def test_a_caller_with_a_running_loop_can_wait_too() -> None:
    loop = LoopThread("test")

    async def where() -> str:
        return threading.current_thread().name

    assert loop.wait(where) == "test"
    with pytest.raises(ValueError, match="no"):
        loop.wait(fails)
    loop.close(nothing)


def test_whoever_waits_while_it_is_closed_gets_an_end() -> None:
    loop, begun, gate, results = LoopThread("test"), threading.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        begun.set()
        await gate.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        return "done"

    async def last() -> None:
        gate.set()

    caller = threading.Thread(target=lambda: results.append(loop.wait(work)), daemon=True)
    caller.start()
    assert begun.wait(30)
    loop.close(last)
    caller.join(10)
    assert results == ["done"]


def test_it_is_closed_once_and_for_all_even_when_the_last_thing_fails() -> None:
    loop = LoopThread("closing")
    with pytest.raises(ValueError, match="no"):
        loop.close(fails)
    loop.close(fails)
    with pytest.raises(LedgerClosed):
        loop.wait(nothing)
    assert "closing" not in [thread.name for thread in threading.enumerate()]
