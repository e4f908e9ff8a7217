"""Tests of a backend with concurrent callers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest

from contextinfinity.compat.threads import ThreadLog
from contextinfinity.domain.thread import Thread, Turn
from contextinfinity_testing.threads.backends import unused

WRITERS = 50
EACH = 4


def at_once(work: Callable[[int], Thread | None]) -> list[Thread | None]:
    """Start all writers at the same moment, each on its own OS thread."""
    start = Barrier(WRITERS)

    def begin(writer: int) -> Thread | None:
        start.wait()
        return work(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(begin, range(WRITERS)))


class CrowdPromises:
    """``ThreadLog`` from many OS threads."""

    @pytest.mark.req("THREAD-10", "THREAD-4")
    def test_many_writers_on_one_thread_lose_and_double_nothing(self, log: ThreadLog) -> None:
        thread_id, clock = unused(), count()
        times: dict[str, tuple[int, int]] = {}

        def write(writer: int) -> None:
            for number in range(EACH):
                content, begun = f"{writer}/{number}", next(clock)
                log.add(thread_id, Turn("user", content))
                times[content] = (begun, next(clock))

        at_once(write)
        said = [turn.content for turn in log.history(thread_id, 10_000)]
        assert sorted(said) == sorted(times)
        for place, content in enumerate(said):  # what was acknowledged before it began precedes it
            assert all(times[earlier][0] < times[content][1] for earlier in said[:place])

    @pytest.mark.req("THREAD-10", "THREAD-9")
    def test_as_many_threads_as_writers_keep_to_themselves(self, log: ThreadLog) -> None:
        ids = [unused() for _ in range(WRITERS)]

        def write(writer: int) -> None:
            for number in range(EACH):
                log.add(ids[writer], Turn("user", f"{writer}/{number}"))
                assert log.history(ids[writer], 10_000)[-1].content == f"{writer}/{number}"

        at_once(write)
        for writer, thread_id in enumerate(ids):
            said = [turn.content for turn in log.history(thread_id, 10_000)]
            assert said == [f"{writer}/{number}" for number in range(EACH)]

    @pytest.mark.req("THREAD-1", "THREAD-2")
    def test_a_thread_is_made_once_however_many_ask_for_it(self, log: ThreadLog) -> None:
        thread_id = unused()
        given = at_once(lambda writer: log.get_or_create(thread_id))
        assert {id(thread) for thread in given} == {id(log.get(thread_id))}
