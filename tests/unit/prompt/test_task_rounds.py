"""Where a task begins, which messages open it, and the lines that replace its rounds when they left the prompt."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import Message, say
from contextinfinity.prompt.prompt_sections import Shown
from contextinfinity.prompt.tasks import bridge, running_from, words_of
from tests.unit.prompt.material import called, gave

pytestmark = pytest.mark.req("CTX-13")

REMINDER = say("user", "<system-reminder>Two todos are open.</system-reminder>")


def asks(seq: int, text: str = "Rename it.") -> Shown:
    """A turn in which a person asks and a tool is called."""
    return Shown(turn_seq=seq, messages=(say("user", text), called(f"c{seq}", at="barn")))


def brings(seq: int) -> Shown:
    """A turn with the result of the call before, and the next call."""
    return Shown(turn_seq=seq, messages=(gave(f"c{seq - 1}", "Found.", role="user"), called(f"c{seq}", at="barn")))


TURNS = (asks(1), brings(2), asks(3), brings(4), Shown(turn_seq=5, messages=(REMINDER, called("c5", at="barn"))))


def test_the_running_task_begins_with_the_last_message_that_a_person_wrote() -> None:
    assert running_from(TURNS, gave("c5", "Found.", role="user")) == 2
    assert running_from(TURNS, REMINDER) == 2
    assert running_from(TURNS[:2], gave("c2", "Found.", role="user")) == 0
    assert running_from(TURNS[1:2], gave("c2", "Found.", role="user")) == 0, "its opening is not among the turns"


def test_a_message_by_a_person_begins_a_task_so_that_all_turns_are_older() -> None:
    assert running_from(TURNS, say("user", "Now the next one.")) == len(TURNS)
    assert running_from((), say("user", "The first one.")) == 0


def test_an_empty_answer_is_none_so_that_the_words_after_it_still_open_the_task() -> None:
    empty = Message(role="assistant", blocks=())
    said = (say("user", "Hello?"), empty, say("user", "Rename it, please."))
    turn = Shown(turn_seq=1, messages=(*said, called("c1", at="barn")))
    assert words_of(turn) == said
    stands = bridge([turn, brings(2)])
    assert stands is not None
    assert stands.messages == (*said, called("c2", at="barn"))
