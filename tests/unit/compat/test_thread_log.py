from __future__ import annotations

import pytest

from contextinfinity.compat.threads import IN_PROCESS, TURN_CHARACTERS, InProcessThreads
from contextinfinity.errors import Refused
from contextinfinity.threads import THREADS, Thread, Turn

HELLO = Turn("user", "hello")
SIZE = len(HELLO.content) + TURN_CHARACTERS


def small(*, threads: int = 3, turns: int = 100) -> tuple[InProcessThreads, dict[str, Thread]]:
    registry: dict[str, Thread] = {}
    return InProcessThreads(registry, most_threads=threads, most_characters=turns * SIZE), registry


@pytest.mark.req("THREAD-11")
def test_the_registry_is_the_one_everybody_sees() -> None:
    IN_PROCESS.add("a thread of test_in_process", HELLO)
    assert THREADS["a thread of test_in_process"] is IN_PROCESS.get("a thread of test_in_process")


@pytest.mark.req("THREAD-2", "THREAD-6")
def test_a_list_of_turns_cannot_be_replaced() -> None:
    log, registry = small()
    log.add("a", HELLO)
    with pytest.raises(AttributeError):
        registry["a"].turns = []  # type: ignore[misc]
    with pytest.raises(AttributeError):
        registry["a"].thread_id = "b"  # type: ignore[misc]
    turns = registry["a"].turns
    log.clear("a")
    log.add("a", HELLO)
    assert registry["a"].turns is turns


@pytest.mark.req("THREAD-14")
def test_at_the_bound_a_new_thread_is_refused_and_nothing_is_lost() -> None:
    log, registry = small(threads=3)
    for name in "abc":
        log.add(name, HELLO)
    with pytest.raises(Refused, match=r"3 threads already.*ledger"):
        log.add("d", HELLO)
    with pytest.raises(Refused):
        log.get_or_create("d")
    assert list(registry) == ["a", "b", "c"]
    log.add("a", HELLO)  # those that are there go on
    assert [log.history(name, 20) for name in "abcd"] == [[HELLO, HELLO], [HELLO], [HELLO], []]


@pytest.mark.req("THREAD-14")
def test_threads_without_turns_make_room_the_longest_unused_first() -> None:
    log, registry = small(threads=3)
    for name in "abc":
        log.get_or_create(name)
    log.get("a")
    log.get_or_create("d")
    assert set(registry) == {"a", "c", "d"}
    log.add("c", HELLO)
    log.add("e", HELLO)
    log.add("f", HELLO)
    assert set(registry) == {"c", "e", "f"}
    with pytest.raises(Refused):
        log.get_or_create("g")


@pytest.mark.req("THREAD-14")
def test_a_cleared_thread_makes_room_again() -> None:
    log, registry = small(threads=2, turns=4)
    for name in "aab":
        log.add(name, HELLO)
    log.clear("a")
    log.add("c", HELLO)
    assert set(registry) == {"b", "c"}
    log.add("c", HELLO)
    log.add("c", HELLO)
    assert [len(log.history(name, 20)) for name in "bc"] == [1, 3]


@pytest.mark.req("THREAD-14")
def test_at_the_bound_a_turn_is_refused_and_nothing_is_lost() -> None:
    log, registry = small(turns=3)
    for _ in range(3):
        log.add("a", HELLO)
    for name in ("a", "b"):
        with pytest.raises(Refused, match="characters already"):
            log.add(name, Turn("user", ""))
    assert list(registry) == ["a"]
    assert log.history("a", 20) == [HELLO] * 3
    log.clear("a")
    log.clear("a")
    for _ in range(3):
        log.add("b", HELLO)
    with pytest.raises(Refused):
        log.add("b", HELLO)


def test_closing_leaves_the_registry_as_it_is() -> None:
    log, _ = small()
    log.add("a", HELLO)
    log.close()
    log.close()
    assert log.history("a", 20) == [HELLO]
