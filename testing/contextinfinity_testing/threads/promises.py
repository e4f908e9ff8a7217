"""Tests of a backend with a single caller."""

from __future__ import annotations

from itertools import product

import pytest

from contextinfinity.compat.threads import ThreadLog
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.thread import LONGEST_ID, ROLES, Turn
from contextinfinity_testing.threads.backends import unused

MANY = 10_000


def user(content: str) -> Turn:
    """Make a user turn."""
    return Turn(role="user", content=content)


def assistant(content: str) -> Turn:
    """Make an assistant turn."""
    return Turn(role="assistant", content=content)


def conversation(pairs: int) -> list[Turn]:
    """Return this many questions with their answers."""
    return [turn for number in range(1, pairs + 1) for turn in (user(f"Q{number}"), assistant(f"A{number}"))]


def filled(log: ThreadLog, turns: list[Turn]) -> str:
    """Create a thread with these turns and return its id."""
    thread_id = unused()
    for turn in turns:
        log.add(thread_id, turn)
    return thread_id


class LogPromises:
    """``ThreadLog``."""

    @pytest.mark.req("THREAD-1", "THREAD-2", "THREAD-11")
    def test_a_thread_is_one_object_that_goes_on(self, log: ThreadLog) -> None:
        thread_id = unused()
        thread = log.get_or_create(thread_id)
        assert (thread.thread_id, thread.turns) == (thread_id, [])
        log.add(thread_id, user("one"))
        log.add(thread_id, assistant("two"))
        assert log.get_or_create(thread_id) is thread
        assert log.get(thread_id) is thread
        assert thread.turns == [user("one"), assistant("two")]

    @pytest.mark.req("THREAD-2", "THREAD-3")
    def test_adding_appends_one_turn_and_makes_the_thread(self, log: ThreadLog) -> None:
        thread_id, said = unused(), conversation(3)
        for count, turn in enumerate(said, start=1):
            log.add(thread_id, turn)
            assert log.history(thread_id, MANY) == said[:count]

    @pytest.mark.req("THREAD-5")
    def test_reading_makes_nothing(self, log: ThreadLog) -> None:
        for thread_id in (unused(), new_id()):
            for _ in range(2):
                assert log.get(thread_id) is None
                assert log.history(thread_id, 20) == []
                assert log.identity(thread_id) is None
            log.clear(thread_id)
            assert log.get(thread_id) is None

    @pytest.mark.req("THREAD-6", "THREAD-7", "CTX-8")
    def test_what_is_read_is_a_copy(self, log: ThreadLog) -> None:
        thread_id = filled(log, conversation(2))
        log.history(thread_id, MANY).clear()
        log.history(thread_id, 2).append(user("not said"))
        assert log.history(thread_id, MANY) == conversation(2)

    @pytest.mark.req("THREAD-7")
    def test_a_window_is_the_newest_turns(self, log: ThreadLog) -> None:
        thread_id = filled(log, conversation(15))
        for most in (2, 4, 12, 20, 30, MANY):
            assert log.history(thread_id, most) == conversation(15)[-most:]
        assert log.history(thread_id, MANY) == conversation(15)

    @pytest.mark.req("THREAD-7")
    @pytest.mark.parametrize("most", [1, 0, -1, -MANY])
    def test_fewer_than_two_are_two(self, log: ThreadLog, most: int) -> None:
        assert log.history(filled(log, conversation(3)), most) == conversation(3)[-2:]

    @pytest.mark.req("THREAD-8")
    def test_a_window_begins_with_a_user_turn_and_holds_the_last_exchange(self, log: ThreadLog) -> None:
        steps = [Turn("tool", f"step {number}") for number in range(40)]
        said = [*conversation(2), user("Do it."), *steps, assistant("Done."), user("Thanks."), user("Bye.")]
        thread_id = filled(log, said)
        for most in (2, 3, 5, 20, 43):
            assert log.history(thread_id, most) == said[4:]
        for most in (45, 46):
            assert log.history(thread_id, most) == said[2:]

    @pytest.mark.req("THREAD-8")
    def test_a_window_goes_back_for_the_last_answer_there_was(self, log: ThreadLog) -> None:
        said = [*conversation(2), *(user(f"Hello? {number}") for number in range(70))]
        assert log.history(filled(log, said), 3) == said[2:]

    @pytest.mark.req("THREAD-8")
    def test_without_a_user_turn_to_begin_with_a_window_is_just_the_newest(self, log: ThreadLog) -> None:
        said = [Turn("system", str(number)) for number in range(30)]
        assert log.history(filled(log, said), 20) == said[-20:]

    @pytest.mark.req("THREAD-9")
    def test_threads_do_not_see_each_other(self, log: ThreadLog) -> None:
        one, two = filled(log, [user("one")]), filled(log, [user("two"), assistant("three")])
        log.clear(two)
        log.add(two, user("four"))
        assert log.history(one, MANY) == [user("one")]
        assert log.history(two, MANY) == [user("four")]

    @pytest.mark.req("THREAD-6")
    def test_a_cleared_thread_begins_anew(self, log: ThreadLog) -> None:
        thread_id = filled(log, conversation(2))
        thread = log.get(thread_id)
        for _ in range(2):
            log.clear(thread_id)
            assert log.history(thread_id, MANY) == []
        assert log.get(thread_id) is thread
        log.add(thread_id, user("again"))
        assert log.history(thread_id, MANY) == [user("again")]

    @pytest.mark.req("THREAD-13")
    @pytest.mark.parametrize("pair", list(product(ROLES, ROLES)), ids="-".join)
    def test_roles_come_back_in_any_order(self, log: ThreadLog, pair: tuple[str, str]) -> None:
        said = [Turn(role, f"{role} {place}") for place, role in enumerate([*pair, *pair, *reversed(ROLES)])]
        assert log.history(filled(log, said), MANY) == said

    @pytest.mark.req("THREAD-13")
    @pytest.mark.parametrize("content", ["", " ", "\n\n", "a\0b", "שלום 👩‍👩‍👧", "e\u0301", "\r\n", "x" * 300_000])
    def test_words_come_back_exactly(self, log: ThreadLog, content: str) -> None:
        said = [Turn(role, content) for role in ROLES]
        assert log.history(filled(log, said), MANY) == said

    def test_any_id_up_to_the_longest_is_a_thread(self, log: ThreadLog) -> None:
        for thread_id in (unused().ljust(LONGEST_ID, "x"), f"{unused()} 'ü/../\" 🧵", new_id(), unused().upper()):
            log.add(thread_id, user(thread_id))
            assert log.history(thread_id, MANY) == [user(thread_id)]

    @pytest.mark.req("CTX-9")
    def test_its_identity_stays_while_it_goes_on(self, log: ThreadLog) -> None:
        one, two = filled(log, [user("one")]), filled(log, [user("two")])
        before = log.identity(one)
        log.add(one, assistant("three"))
        assert before is not None
        assert log.identity(one) == before
        assert log.identity(two) not in (None, before)

    async def test_it_works_where_an_event_loop_runs(self, log: ThreadLog) -> None:
        assert log.history(filled(log, conversation(2)), MANY) == conversation(2)
