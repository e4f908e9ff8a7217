"""Messages by someone who never saw the rules: 80 with a lasting fact, mostly in passing, and 80 without one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contextinfinity.memory.extraction import extract_facts
from contextinfinity.retrieval.dates import dates_mentioned

LINES = (Path(__file__).parents[2] / "samples/strangers/memories.jsonl").read_text("utf-8").splitlines()
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)


@pytest.mark.req("MEMORY-7")
def test_hardly_anything_is_remembered_that_is_no_lasting_fact() -> None:
    messages = [one for one in map(json.loads, LINES) if not one["facts"]]
    wrong = [one["message"] for one in messages if extract_facts(one["message"], SAID, dates_mentioned).facts]
    assert len(wrong) <= 0.05 * len(messages), wrong


@pytest.mark.req("MEMORY-7")
@pytest.mark.parametrize(
    ("message", "facts"),
    [
        ("Any idea for a present for my niece and my daughters?", ["The user has daughters."]),
        ("What can I cook for my husband Imre, who eats no fish?", ["The user has a husband named Imre."]),
        ("as someone hard of hearing i need captions, which player has them", ["The user is hard of hearing."]),
        ("Our son Piet starts at the conservatory in June and his bow is broken.",
         ["The user's son Piet starts at the conservatory in June."]),
        ("Ich putze nachts im Museum, gibt es ruhige Cafés?", ["The user said: Ich putze nachts im Museum."]),
        ("me jubilé de Correos, ¿qué hago ahora?", ["The user said: me jubilé de Correos."]),
        ("我有哮喘，可以养猫吗？", ["The user said: 我有哮喘."]),
    ],
)  # fmt: skip
def test_facts_told_in_passing_are_remembered(message: str, facts: list[str]) -> None:
    assert [fact.content for fact in extract_facts(message, SAID, dates_mentioned).facts] == facts


@pytest.mark.req("MEMORY-7")
@pytest.mark.parametrize(
    "message",
    [
        "Remove my dog from the picture.",
        "Imagine my wife were a pilot, what would she fly?",
        "She asked me to water my brother's plants, or so she said about my sister",
        "What is a good frame for my horse painting?",
        "Our neighbour's kid broke a window, who pays?",
        "I haven't had much time lately.",
    ],
)
def test_people_of_others_and_of_suppositions_are_not_remembered(message: str) -> None:
    assert not extract_facts(message, SAID, dates_mentioned).facts
