"""What must not be lost is known before, and a loss is seen after."""

from __future__ import annotations

import pytest

from contextinfinity.librarian.digest import Digest, Kind, digest, entry
from contextinfinity.librarian.safeguards import holds, missing, must_keep


def notes(*entries: tuple[Kind, str]) -> Digest:
    return digest(filter(None, (entry(kind, text, 1, "user") for kind, text in entries)))


MUST = must_keep(
    notes(
        ("decision", "use Kafka for events"),
        ("fact", "budget is 4,200 €"),
        ("artifact", "src/app.py"),
        ("question", "which region?"),
        ("story", "the user said hello"),
    )
)


def lost(made: Digest, *pins: str) -> list[str]:
    return [kept.entry.text for kept in missing(MUST, made, pins)]


@pytest.mark.req("LIBRARIAN-2")
def test_what_binds_is_known_or_is_named_must_not_be_lost() -> None:
    assert [kept.entry.text for kept in MUST] == ["use Kafka for events", "budget is 4,200 €", "src/app.py"]
    assert lost(Digest()) == ["use Kafka for events", "budget is 4,200 €", "src/app.py"]


@pytest.mark.req("LIBRARIAN-2")
def test_other_words_for_the_same_are_no_loss() -> None:
    said_again = notes(
        ("constraint", "the budget: 4200 €"), ("decision", "using Kafka, events"), ("fact", "see src/app.py")
    )
    assert lost(said_again) == []


@pytest.mark.req("LIBRARIAN-2")
@pytest.mark.parametrize("other", ["budget is 14,200 €", "budget is 4,201 €", "4,200 € were found on the street today"])
def test_another_number_or_another_matter_is_a_loss(other: str) -> None:
    assert "budget is 4,200 €" in lost(notes(("fact", other)))


@pytest.mark.req("LIBRARIAN-2")
def test_the_same_words_with_a_not_are_a_loss() -> None:
    assert "use Kafka for events" in lost(notes(("decision", "never use Kafka for events")))


def test_what_is_hardly_a_fact_may_be_left_out() -> None:
    assert must_keep(notes(("fact", "the coffee got cold again"))) == ()


def test_what_only_the_story_tells_counts_as_lost() -> None:
    assert "use Kafka for events" in lost(notes(("story", "use Kafka for events")))


@pytest.mark.req("LIBRARIAN-2")
def test_what_a_pin_holds_is_not_lost() -> None:
    assert lost(Digest(), "Our budget: 4,200 €", "src/app.py holds all") == ["use Kafka for events"]


def test_a_name_is_found_as_a_whole_only() -> None:
    assert holds("a 30 b", "30")
    assert holds("130 and 30", "30")
    assert not holds("130 301", "30")
