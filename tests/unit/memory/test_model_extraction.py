"""A model that draws memories: only what rests on the user's own words counts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from contextinfinity.domain.turn import Problem
from contextinfinity.memory.model_extraction import ModelExtractor
from contextinfinity.providers.auxiliary_model import AuxiliaryModel
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.retrieval.dates import dates_mentioned
from contextinfinity.text.polarity import opposed

AWAY = Problem(code="server", message="Away.")
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)
MESSAGE = "I live in Oslo. Weekends are for my allotment in Nittedal. I never touch gin. Does gin keep?"
RULES = ["The user lives in Oslo.", "The user never touches gin."]


async def drawn(
    *claims: tuple[str, str], answer: ScriptedReply | str | None = None, message: str = MESSAGE
) -> list[str]:
    said = json.dumps({"memories": [{"fact": fact, "quote": quote, "kind": "self"} for fact, quote in claims]})
    adviser = AuxiliaryModel(provider=ScriptedProvider([said if answer is None else answer]), model_id="m", seconds=5)
    found = await ModelExtractor(adviser, dates_mentioned, opposed).extract(message, SAID)
    assert all(message[fact.start : fact.end].strip() for fact in found.facts)
    return [fact.content for fact in found.facts]


@pytest.mark.req("MEMORY-4", "CONFIG-2")
async def test_what_a_model_finds_is_added_to_what_rules_find() -> None:
    found = await drawn(("The user has an allotment in Nittedal.", "my allotment in Nittedal"))
    assert found == [*RULES, "The user has an allotment in Nittedal."]


@pytest.mark.req("MEMORY-4")
@pytest.mark.parametrize(
    ("fact", "quote"),
    [
        ("The user has a boat in Nittedal.", "my allotment in Nittedal"),  # names what no one said
        ("The user has an allotment in Nittedal.", "my allotment in Bergen"),  # no such words
        ("The user touches gin.", "I never touch gin"),  # turned round
        ("The user asks whether gin keeps.", "Does gin keep"),  # a question
        ("The assistant is in Nittedal.", "Nittedal"),
        ("The user lives in Oslo.", "I live in Oslo"),  # known by its phrase
    ],
)
async def test_what_does_not_rest_on_a_quotation_is_dropped(fact: str, quote: str) -> None:
    assert await drawn((fact, quote)) == RULES


@pytest.mark.req("MEMORY-4")
@pytest.mark.parametrize(
    ("message", "fact", "quote"),
    [
        ("I visited Oslo.", "The user lives in Oslo.", "I visited Oslo"),
        ("My brother lives in Oslo.", "The user lives in Oslo.", "lives in Oslo"),
        ("My boss is allergic to nuts.", "The user is allergic to nuts.", "allergic to nuts"),
        ("I met a nurse from Siemens.", "The user works as a nurse at Siemens.", "a nurse from Siemens"),
        ("Bob divorced Ann.", "The user is divorced.", "divorced Ann"),
        ("I am not tired of Oslo.", "The user is tired of Oslo.", "tired of Oslo"),
        ("I might keep bees.", "The user keeps bees.", "keep bees"),
        ("If I kept bees I would sing.", "The user keeps bees.", "kept bees"),
        ("People think I keep bees.", "The user keeps bees.", "I keep bees"),
        ("I kept bees.", "The user keeps bees.", "I kept bees"),
    ],
)
async def test_a_quotation_of_something_else_proves_nothing(message: str, fact: str, quote: str) -> None:
    assert fact not in await drawn((fact, quote), message=message)


@pytest.mark.req("MEMORY-4")
@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("As you know, I keep bees on the roof.", "The user keeps bees on the roof."),
        ("I'm scared of spiders, always was.", "The user is scared of spiders."),
        ("My moped is from 1974.", "The user's moped is from 1974."),
        ("I never touch gin.", "The user never touches gin."),
    ],
)
async def test_what_somebody_says_of_themselves_is_believed(message: str, fact: str) -> None:
    assert await drawn((fact, message[-16:-1]), message=message) == [fact]


@pytest.mark.req("MEMORY-4")
async def test_a_models_fact_is_about_what_its_phrase_would_be() -> None:
    said = json.dumps({"memories": [{"fact": "The user lives in Bonn.", "quote": "live in bonn", "kind": "self"}]})
    adviser = AuxiliaryModel(provider=ScriptedProvider([said]), model_id="m", seconds=5)
    message = "You know, Tom, I live in bonn."
    assert await drawn(answer="{}", message=message) == []
    assert {
        fact.about for fact in (await ModelExtractor(adviser, dates_mentioned, opposed).extract(message, SAID)).facts
    } == {"home"}


@pytest.mark.req("MEMORY-4")
@pytest.mark.parametrize("answer", ["no JSON", '{"memories": 3}', "{}", ScriptedReply(error=AWAY)])
async def test_a_model_that_fails_takes_nothing_away(answer: ScriptedReply | str) -> None:
    assert await drawn(answer=answer) == RULES


async def test_a_model_is_not_asked_about_what_nobody_states() -> None:
    assert await drawn(answer=ScriptedReply(error=AWAY), message="Where is Oslo?") == []


@pytest.mark.req("MEMORY-4")
async def test_a_model_adds_nothing_to_what_is_not_to_be_kept() -> None:
    claim = ("The user keeps bees on the roof.", "keep bees on the roof")
    assert await drawn(claim, message="I keep bees on the roof.") == [claim[0]]
    assert await drawn(claim, message="Off the record, I keep bees on the roof.") == []
