"""Messages are split into the sentences of their author; pasted material is apart."""

from __future__ import annotations

from contextinfinity.text.sentences import author_sentences
from tests.cases import each


@each(
    ("text", "sentences"),
    [
        ("Hi Dr. Smith, see e.g. Redis. Then go.", ["Hi Dr. Smith, see e.g. Redis.", "Then go."]),
        ("It takes 5 ms. What now?", ["It takes 5 ms.", "What now?"]),
        ("Version 1.2 is out. No. 5 is next.", ["Version 1.2 is out.", "No. 5 is next."]),
        ("I said no. Stop.", ["I said no.", "Stop."]),
        ("We use Postgres 16. The end is near.", ["We use Postgres 16.", "The end is near."]),
        ("Das war der 2. Versuch. Gut!", ["Das war der 2. Versuch.", "Gut!"]),
        ("Really?!?! Yes...", ["Really?!?!", "Yes..."]),
        ("Am 3. Mai geht es los. Gut!", ["Am 3. Mai geht es los.", "Gut!"]),
        ("一。二！三？", ["一。", "二！", "三？"]),
        ("List:\n- one thing\n* two things\n1. three", ["List:", "one thing", "two things", "three"]),
        (f"{'long ' * 20}line\nin two.", [f"{'long ' * 20}line in two."]),
        ("", []),
    ],
)
def test_a_text_is_parted_into_its_sentences(text: str, sentences: list[str]) -> None:
    assert author_sentences(text).sentences == sentences


def test_fences_and_quotes_are_pasted_even_when_they_never_end() -> None:
    parts = author_sentences("Look:\n```py\nx = 1\n```\n> quoted\nmine\n~~~\nto the end")
    assert parts.sentences == ["Look:", "mine"]
    assert parts.pasted == ["x = 1", "> quoted", "to the end"]
