"""The flusher: who is looked after first, and when it wakes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from contextinfinity.storage.journal.journal_writer import Flusher

FAR = 3600.0


def until(state: Callable[[], bool], pause: float = 0.001) -> None:
    """Wait for a state; the test's time limit is the only other way out."""
    while not state():
        time.sleep(pause)


class Errands:
    """A flusher whose errands say when they ran; the first is held until all others are planned."""

    def __init__(self) -> None:
        self.flusher = Flusher()
        self.flusher.start()
        self.ran: list[str] = []
        self.release = threading.Event()
        held = threading.Event()

        def hold(_: float) -> None:
            held.set()
            self.release.wait()

        self.flusher.plan_sync(0, hold)
        held.wait()

    def named(self, name: str, *again: float | None) -> Callable[[float], float | None]:
        left = list(again)

        def run(_: float) -> float | None:
            self.ran.append(name)
            return left.pop(0) if left else None

        return run

    def order(self, count: int) -> list[str]:
        self.release.set()
        until(lambda: len(self.ran) >= count)
        self.flusher.stop()
        return self.ran


def test_due_flushes_go_before_due_syncs_and_the_oldest_first() -> None:
    errands = Errands()
    errands.flusher.plan_sync(3, errands.named("sync 3"))
    errands.flusher.plan_sync(1, errands.named("sync 1"))
    errands.flusher.plan_flush(4, errands.named("flush 4"))
    errands.flusher.plan_flush(2, errands.named("flush 2"))
    assert errands.order(4) == ["flush 2", "flush 4", "sync 1", "sync 3"]


def test_a_flush_that_becomes_due_during_a_sync_goes_before_the_next_sync() -> None:
    errands = Errands()

    def slow(_: float) -> None:
        errands.ran.append("slow sync")
        errands.flusher.plan_flush(time.monotonic(), errands.named("flush"))

    errands.flusher.plan_sync(1, slow)
    errands.flusher.plan_sync(2, errands.named("next sync"))
    assert errands.order(3) == ["slow sync", "flush", "next sync"]


def test_an_errand_that_asks_for_it_is_run_again() -> None:
    errands = Errands()
    errands.flusher.plan_flush(1, errands.named("flush", 5.0, time.monotonic() + 0.01))
    errands.flusher.plan_flush(3, errands.named("other"))
    assert errands.order(4) == ["flush", "other", "flush", "flush"]


def test_an_earlier_errand_wakes_a_flusher_that_sleeps() -> None:
    errands = Errands()
    errands.flusher.plan_flush(time.monotonic() + FAR, errands.named("never"))
    errands.flusher.plan_sync(time.monotonic() + FAR, errands.named("never"))
    errands.release.set()
    errands.flusher.plan_sync(time.monotonic() + 0.005, errands.named("soon"))
    until(lambda: errands.ran == ["soon"])
    errands.flusher.plan_flush(time.monotonic() + 0.005, errands.named("soon too"))
    assert errands.order(2) == ["soon", "soon too"]
