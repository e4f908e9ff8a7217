"""From a message to short entries: sentences, cues, and the telling part."""

from __future__ import annotations

import pytest

from contextinfinity.librarian.cues import kind_of
from contextinfinity.librarian.shorten import TELLING, shortened, width
from contextinfinity.text.sentences import spoken


@pytest.mark.parametrize(
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
    assert spoken(text).sentences == sentences


def test_fences_and_quotes_are_pasted_even_when_they_never_end() -> None:
    parts = spoken("Look:\n```py\nx = 1\n```\n> quoted\nmine\n~~~\nto the end")
    assert parts.sentences == ["Look:", "mine"]
    assert parts.pasted == ["x = 1", "> quoted", "to the end"]


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("We decided to use Go.", "decision"),
        ("Let's go with the blue one.", "decision"),
        ("We haven't decided on the colour yet.", "question"),
        ("The colour is still open.", "question"),
        ("Should we use Go?", None),
        ("If we decided to use Go, it would be late.", None),
        ("It must not take longer than a day.", "constraint"),
        ("Never deploy on a Friday.", "constraint"),
        ("I never liked fish that much.", "fact"),
        ("Never mind.", None),
        ("It must be nice there.", None),
        ("That must've been hard, and it is not always easy.", None),
        ("Agreed, Mel!", None),
        ("All passwords must be hashed.", "constraint"),
        ("I prefer tea.", "preference"),
        ("I'd like to know more about tea.", None),
        ("Call me Ada.", "preference"),
        ("The budget is 4,200 €.", "fact"),
        ("Budget 4,200 €, deadline 3 May", "constraint"),
        ("My name is Ada Lovelace.", "fact"),
        ("That was a nice day.", None),
        ("Tell me about the 30 years war, it was long.", None),
        ("Die Antwort darf nicht länger als 20 Zeilen sein.", "constraint"),
        ("Ich mag keine langen Antworten.", "preference"),
        ("On garde la version 3.", "decision"),
        ("Debe funcionar sin red.", "constraint"),
        ("不要使用全局变量。", "constraint"),
    ],
)
def test_a_cue_says_what_a_sentence_binds_to(sentence: str, kind: str | None) -> None:
    assert kind_of(sentence) == kind


def test_an_assistant_that_explains_requires_nothing() -> None:
    assert kind_of("You must call close() at the end.", assistant=True) is None
    assert kind_of("We agreed on PostgreSQL.", assistant=True) == "decision"


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("Okay, so we decided to use PostgreSQL 16 for the ledger.", "use PostgreSQL 16 for the ledger"),
        ("I prefer short answers.", "short answers"),
        ("The API must answer within 200 ms.", "API must answer within 200 ms"),
        ("We don't use tabs.", "We don't use tabs"),
    ],
)
def test_words_that_say_nothing_beside_a_heading_go(sentence: str, short: str) -> None:
    assert shortened(sentence) == short


def test_shortening_keeps_numbers_names_and_paths() -> None:
    sentence = (
        "We decided after a very long discussion with lots of people from all over the company that the export "
        "service, which nobody loved, will write to /srv/exports/2026 with a retention of 35 days and tell "
        "ops@example.org whenever more than 3% fail"
    )
    short = shortened(sentence)
    assert width(short) <= TELLING + 10
    for name in ("/srv/exports/2026", "35 days", "ops@example.org", "3%"):
        assert name in short
