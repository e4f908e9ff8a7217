from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contextinfinity.memory.extraction import extract_facts
from contextinfinity.memory.rendering import as_said
from contextinfinity.retrieval.dates import dates_mentioned
from tests.cases import each

SAID = datetime(2026, 11, 16, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("The user lives in Oslo.", "I live in Oslo."),
        ("The user is a nurse.", "I am a nurse."),
        ("The user has two cats.", "I have two cats."),
        ("The user no longer watches football.", "I no longer watch football."),
        ("The user studies law.", "I study law."),
        ("The user's name is Ann.", "My name is Ann."),
        ("the user doesn't drink milk", "I don't drink milk"),
        ("Ann likes tea.", "Ann likes tea."),
        ("I live in Oslo.", "I live in Oslo."),
        ("The user", "The user"),
    ],
)
def test_a_fact_is_put_as_its_user_would_say_it(fact: str, said: str) -> None:
    assert as_said(fact) == said


@pytest.mark.req("MEMORY-4", "MEMORY-5")
@each(
    "said",
    [
        "My flight to Lisbon is on December 3.",
        "My flight to Lisbon is on December 3 at 9:30.",
        "My holiday is from December 3 to December 9.",
        "My thesis is due on January 15.",
        "I'm flying to Athens next week.",
        "Remember that my locker code is 4711.",
        "Remember that I take my coffee black.",
        "I prefer answers in German.",
        "I like short answers.",
        "I no longer eat meat.",
        "My sister is a vet.",
        "I work as a nurse at Siemens.",
    ],
)
def test_a_fact_that_is_written_as_it_is_shown_is_about_the_same_for_as_long(said: str) -> None:
    for fact in extract_facts(said, SAID, dates_mentioned).facts:
        (again,) = extract_facts(as_said(fact.content), SAID, dates_mentioned).facts
        assert (again.about, again.valid_to, again.kind) == (fact.about, fact.valid_to, fact.kind)
