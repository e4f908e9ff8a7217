"""Who speaks, as far as that is known."""

from __future__ import annotations

from contextinfinity.retrieval.speakers import speakers_of, with_speakers
from tests.unit.retrieval.findings import Line, entries_of

CALLS = [
    Line("user", "Hey Ben! How are you?"),
    Line("assistant", "Hi, all good. And you?"),
    Line("user", "Fine, Ben. I paint a lot."),
    Line("assistant", "Great! I met Ben Nevis people."),
    Line("user", "Thanks, Ben!"),
    Line("assistant", "Bye."),
]


def names(lines: list[Line], question: str = "") -> list[str]:
    return [entry.speaker for entry in with_speakers(entries_of(lines), question)]


def test_names_that_were_kept_stay() -> None:
    lines = [Line("user", "Ben: hello", "Ann"), Line("assistant", "Hi.", "Ben")]
    assert names(lines, "What did Ben say?") == ["Ann", "Ben"]
    assert speakers_of(entries_of(lines)) == {"Ann", "Ben"}


def test_a_front_is_a_name_where_it_comes_often() -> None:
    lines = [Line("user", "Ann: hello"), Line("assistant", "Ben: hi")] * 3
    assert names(lines) == ["Ann", "Ben"] * 3
    assert names([Line("user", "Note: this is one"), Line("assistant", "Hi.")]) == ["", ""]


def test_whom_one_side_calls_is_the_other_side() -> None:
    assert names(CALLS, "What does Ben do?") == ["", "Ben"] * 3
    assert names(CALLS, "What does Tom do?") == [""] * 6


def test_whom_both_call_is_neither() -> None:
    both = [*CALLS, *(Line(line.side, "Ask her, Ben!") for line in CALLS)]
    assert names(both, "What does Ben do?") == [""] * 12
