"""One measure decides what is sent, what is shrunk and what folds."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.plan import Front
from contextinfinity.prompt.layout import lay_out
from contextinfinity.text.tokens import Counter
from contextinfinity.text.tokens.families import family_of
from contextinfinity.text.tokens.images import rule_of
from tests.unit.prompt.material import FULL, MEASURE, artifact, called, gave, sections, shown

EVERYTHING = sections(
    front=FULL,
    covers=8,
    turns=(shown(9, "Who is Rex?", "A dog. " * 50), shown(10)),
    artifacts=(artifact(1, "Rex lives in the barn. " * 20),),
    contextualised="Where is Rex, Ann's dog, now?",
    rounds=(called("c1", at="barn"), gave("c1", "Empty.")),
)
COUNTER = Counter(family_of("openai", "gpt-5.5"), rule_of("openai", "gpt-5.5"))


@pytest.mark.req("CTX-10")
def test_sections_are_counted_one_by_one_in_the_order_of_the_prompt() -> None:
    counted = MEASURE.sections(EVERYTHING)
    assert [(section.name, section.source) for section in counted] == [
        ("system", None),
        ("pins and memories", None),
        ("tools", None),
        ("summary", 8),
        ("turns", [9, 10]),
        ("message", 11),
        ("steps", None),
    ]
    assert MEASURE.total(EVERYTHING) == sum(section.tokens for section in counted)


@pytest.mark.req("BUDGET-1")
@pytest.mark.parametrize("material", [EVERYTHING, sections(), sections(turns=tuple(shown(seq) for seq in range(1, 9)))])
def test_what_is_measured_is_what_the_whole_request_counts(material: object) -> None:
    prompt = lay_out(material)  # type: ignore[arg-type]
    borders = 4 * len(prompt.system) + 3
    assert 0 <= COUNTER.prompt(prompt) - MEASURE.total(material) <= borders  # type: ignore[arg-type]


def test_a_part_that_is_not_there_is_not_listed() -> None:
    assert [section.name for section in MEASURE.sections(sections())] == ["system", "message"]


def test_artifacts_and_the_explicit_form_count_with_the_message() -> None:
    alone, full = sections(), sections(artifacts=EVERYTHING.artifacts, contextualised="Where is Rex, Ann's dog, now?")
    more = MEASURE.total(full) - MEASURE.total(alone)
    assert more > MEASURE.text("Rex lives in the barn. " * 20) + MEASURE.text("Where is Rex, Ann's dog, now?")


def test_a_form_for_the_answer_counts() -> None:
    asked = sections(front=Front(system="Be brief.", response_format={"type": "object", "properties": {}}))
    assert [section.name for section in MEASURE.sections(asked)] == ["system", "format", "message"]


def test_messages_count_with_their_borders() -> None:
    said = say("user", "one two three")
    assert MEASURE.message(said) == MEASURE.text("one two three") + 4
    assert MEASURE.messages([said, said]) == 2 * MEASURE.message(said)
