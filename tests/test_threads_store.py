"""The thread store: what was said stays, in order, in its own thread. On every backend there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contextinfinity.threads import (
    THREADS,
    Thread,
    Turn,
    add_turn,
    clear_thread,
    get_history,
    get_or_create_thread,
    get_thread,
)
from contextinfinity_testing.threads import BACKENDS, unused, using
from tests.postgres import ON_POSTGRES, server_url

pytestmark = pytest.mark.req("CTX-12", "THREAD-11")


@pytest.fixture(params=[*BACKENDS, ON_POSTGRES], autouse=True)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    ledger_url = server_url() if request.param == "postgresql" else None
    with using("ledger" if ledger_url else request.param, tmp_path, ledger_url):
        yield request.param


def pairs(first: int, last: int) -> list[Turn]:
    numbers = range(first, last + 1)
    return [turn for n in numbers for turn in (Turn("user", f"Q{n}"), Turn("assistant", f"A{n}"))]


def say(thread_id: str, turns: list[Turn]) -> None:
    for turn in turns:
        add_turn(thread_id, turn)


@pytest.mark.req("THREAD-1", "THREAD-11")
def test_a_thread_is_the_same_object_on_every_call(backend: str) -> None:
    thread_id = unused()
    registry = THREADS
    thread = get_or_create_thread(thread_id)
    assert isinstance(thread, Thread)
    assert (thread.thread_id, thread.turns) == (thread_id, [])
    say(thread_id, pairs(1, 2))
    assert get_or_create_thread(thread_id) is thread
    assert get_thread(thread_id) is thread
    assert thread.turns == pairs(1, 2)
    if backend == "in_process":
        from contextinfinity.threads import THREADS as NOW

        assert NOW is registry
        assert NOW[thread_id] is thread


@pytest.mark.req("THREAD-2", "THREAD-6")
def test_adding_a_turn_appends_exactly_one_to_the_thread_that_is_there(backend: str) -> None:
    thread_id = unused()
    add_turn(thread_id, Turn(role="user", content="Q1"))  # an unknown thread is made
    thread = get_thread(thread_id)
    assert thread is not None
    turns = thread.turns
    for count, turn in enumerate(pairs(1, 5)[1:], start=2):
        add_turn(thread_id, turn)
        assert len(thread.turns) == count
        assert thread.turns[-1] == turn
        assert get_thread(thread_id) is thread
    assert thread.turns == pairs(1, 5)
    if backend == "in_process":
        assert thread.turns is turns


@pytest.mark.req("THREAD-3", "THREAD-13")
def test_turns_keep_the_order_they_were_said_in() -> None:
    thread_id = unused()
    said = [
        Turn("user", "Who is Donald Trump?"),
        Turn("assistant", "Donald Trump is…"),
        Turn("user", "who are his children"),
        Turn("user", "who are his children"),
        Turn("tool", "a look-up"),
        Turn("assistant", "Five: …"),
        Turn("system", "Be brief."),
        Turn("user", "A"),
    ]
    say(thread_id, said)
    assert get_history(thread_id) == said
    assert get_history(thread_id)[-1] == said[-1]


@pytest.mark.req("THREAD-4")
async def test_a_turn_can_be_read_as_soon_as_it_was_added_from_any_task_and_thread() -> None:
    thread_id = unused()
    with ThreadPoolExecutor(2) as pool:
        for count, turn in enumerate(pairs(1, 4), start=1):
            await asyncio.to_thread(add_turn, thread_id, turn) if count % 2 else add_turn(thread_id, turn)
            assert get_history(thread_id) == pairs(1, 4)[:count]
            assert pool.submit(get_history, thread_id).result() == pairs(1, 4)[:count]
            assert await asyncio.create_task(asyncio.to_thread(get_history, thread_id)) == pairs(1, 4)[:count]


@pytest.mark.req("THREAD-5", "THREAD-9")
def test_reading_makes_no_thread_and_sees_no_other_one() -> None:
    known, unknown = unused(), unused()
    say(known, pairs(1, 1))
    for _ in range(2):
        assert get_thread(unknown) is None
        assert get_history(unknown) == []
    clear_thread(unknown)
    assert get_thread(unknown) is None
    assert unknown not in THREADS
    say(unknown, pairs(2, 2))
    assert get_history(known) == pairs(1, 1)
    assert get_history(unknown) == pairs(2, 2)


@pytest.mark.req("THREAD-7", "THREAD-8")
def test_a_window_is_a_copy_of_the_newest_turns_with_whole_exchanges() -> None:
    thread_id = unused()
    say(thread_id, pairs(1, 15))
    assert get_history(thread_id) == pairs(6, 15)  # 20 by default
    assert get_history(thread_id, max_turns=12) == pairs(10, 15)
    assert get_history(thread_id, max_turns=5) == pairs(13, 15)  # back to a user turn
    for few in (2, 1, 0, -3):
        assert get_history(thread_id, max_turns=few) == pairs(15, 15)
    get_history(thread_id).clear()
    get_history(thread_id, max_turns=2).append(Turn("user", "not said"))
    add_turn(thread_id, Turn("user", "Q16"))
    assert get_history(thread_id, max_turns=2) == [*pairs(15, 15), Turn("user", "Q16")]  # with the last answer
    assert get_history(thread_id, max_turns=100) == [*pairs(1, 15), Turn("user", "Q16")]  # nothing has gone


@pytest.mark.req("THREAD-1", "THREAD-6")
def test_thread_persistence_across_multiple_requests() -> None:
    thread_id, other = unused(), unused()

    async def request(number: int) -> int:
        seen = len(get_history(thread_id, max_turns=1000))
        say(thread_id, pairs(number, number))
        say(other, pairs(number, number))
        return seen

    seen = [asyncio.run(request(number)) for number in range(1, 13)]
    assert seen == list(range(0, 24, 2))  # never fewer than before
    assert get_history(thread_id, max_turns=1000) == pairs(1, 12)
    clear_thread(thread_id)  # turns go only when someone asks for it
    assert get_history(thread_id) == []
    assert get_history(other, max_turns=1000) == pairs(1, 12)
    assert asyncio.run(request(13)) == 0
    assert get_history(thread_id) == pairs(13, 13)
