"""The order of a prompt, and that nothing in its front changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import Message, TextBlock, say
from contextinfinity.domain.prompt import Abilities, WorkspaceText
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.assemble import Frame, assemble, check_pins
from contextinfinity.prompt.layout import (
    CONTEXTUALISED,
    MEMORIES,
    MOST_MARKERS,
    PINS,
    RULE,
    SUMMARY,
    UNDERSTOOD,
    artifact_text,
    lay_out,
    markers,
    tools_json,
    tools_of,
)
from contextinfinity.prompt.measure import Ceilings, divide_window
from tests.unit.prompt.material import FRONT, FULL, MEASURE, QUESTION, artifact, called, gave, sections, shown

TURNS = (shown(9, "Who is Rex?", "A dog."), shown(10, "Whose?", "Ann's."))
EVERYTHING = sections(
    front=FULL,
    turns=TURNS,
    artifacts=(artifact(1, "Rex lives in the barn."), artifact(2, "He moved in May.")),
    contextualised="Where is Rex, Ann's dog, now?",
    rounds=(called("c1", at="barn"), gave("c1", "Empty.")),
)


@pytest.mark.req("CTX-2")
def test_the_order_is_the_one_that_was_agreed() -> None:
    prompt = lay_out(EVERYTHING)
    assert prompt.system == (
        f"Be brief.\n\n{RULE}",
        f"{PINS}\n- The dog is called Rex.\n- Answers are in metres.\n\n{MEMORIES}\nAnn likes coffee.",
    )
    texts = [(message.role, message.rendered_text) for message in prompt.messages]
    assert texts[:6] == [
        ("user", f"{SUMMARY}\nThey looked for the café."),
        ("assistant", UNDERSTOOD),
        ("user", "Who is Rex?"),
        ("assistant", "A dog."),
        ("user", "Whose?"),
        ("assistant", "Ann's."),
    ]
    role, current = texts[6]
    assert role == "user"
    stands = ["Rex lives in the barn.", "He moved in May.", "Where is he now?", CONTEXTUALISED, "Where is Rex, Ann's"]
    assert [current.index(part) for part in stands] == sorted(current.index(part) for part in stands)
    assert prompt.messages[7:] == EVERYTHING.rounds
    assert [tool.name for tool in prompt.tools] == ["look"]


@pytest.mark.req("CTX-2")
def test_what_is_not_there_leaves_no_trace() -> None:
    prompt = lay_out(sections())
    assert prompt.system == (f"Be brief.\n\n{RULE}",)
    assert prompt.messages == (QUESTION,), "the message is as it was said, to the block"
    assert prompt.tools == ()


@pytest.mark.req("CTX-2")
def test_the_summary_is_never_in_the_system_role() -> None:
    prompt = lay_out(EVERYTHING)
    assert not any("café" in text for text in prompt.system), "it is made of what people typed"
    assert not any(message.role == "system" for message in prompt.messages)


@pytest.mark.req("CTX-4")
@pytest.mark.parametrize("explicit", [None, "Where is Rex now?"])
@pytest.mark.parametrize("pieces", [(), (artifact(1, "Rex lives in the barn."),)])
def test_the_users_own_words_are_there_as_they_were_said(explicit: str | None, pieces: tuple[object, ...]) -> None:
    said = Message(role="user", blocks=(TextBlock(text="Where "), TextBlock(text="is he?  \n")))
    (current,) = lay_out(sections(message=said, contextualised=explicit, artifacts=pieces)).messages
    place = current.blocks.index(said.blocks[0])
    assert current.blocks[place : place + 2] == said.blocks
    assert current.role == "user"
    if explicit is not None:
        assert current.rendered_text.endswith(f"is he?  \n\n\n{CONTEXTUALISED}\n{explicit}"), "beside them, not instead"


@pytest.mark.req("CTX-2", "CTX-4")
def test_results_of_tools_come_before_artifacts_and_words() -> None:
    brought = gave("c1", "Empty.", TextBlock(text="And now?"), role="user")
    (current,) = lay_out(sections(message=brought, artifacts=(artifact(1, "A barn."),))).messages
    assert [block.__class__.__name__ for block in current.blocks] == ["ToolResultBlock", "TextBlock", "TextBlock"]
    assert current.rendered_text.index("A barn.") < current.rendered_text.index("And now?")


@pytest.mark.req("RETRIEVE-8")
def test_an_artifact_says_who_said_it_when_and_where() -> None:
    piece = artifact(1, "Rex lives\nin the barn.")
    said_at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    told = artifact_text(replace(piece, said_at=said_at, turn_seq=7, speaker='Ann "Annie" <O\'Hara>'))
    assert told == (
        '<artifact said-by="user" name="Ann Annie O\'Hara" on="2023-05-08" turn="7">\n'
        "| Rex lives\n| in the barn.\n</artifact>"
    )
    indexed = piece.said_at.date().isoformat()
    assert artifact_text(piece).startswith(f'<artifact said-by="user" on="{indexed}">\n'), (
        "what is not known is not said"
    )


@pytest.mark.req("FILES-5")
def test_nothing_that_changes_stands_in_front() -> None:
    other = replace(
        EVERYTHING,
        turn_seq=812,
        covers=8,
        artifacts=(artifact(7, "Something else.", score=0.4),),
        contextualised=None,
        message=say("user", "Next?"),
        rounds=(),
    )
    first, second = lay_out(EVERYTHING), lay_out(other)
    assert first.system == second.system
    assert first.messages[:6] == second.messages[:6]


def test_tools_come_back_from_a_front_as_they_went_in() -> None:
    assert tools_json(tools_of(FULL)) == FULL.tools
    assert tools_of(FRONT) == ()
    assert tools_json(()) is None


# --- what is worth caching ---


def test_markers_stand_where_the_table_says() -> None:
    resting = replace(EVERYTHING, rounds=())
    assert markers(resting, lay_out(resting)) == (1, 3, 5, 7), "pins and memories, the summary, the last two turns"
    assert markers(EVERYTHING, lay_out(EVERYTHING)) == (1, 3, 7, 10), "while tools run, they count as the last turn"
    assert markers(sections(), lay_out(sections())) == (0,)
    empty = replace(resting, turns=(*TURNS, shown(10)))
    assert len(markers(empty, lay_out(empty))) <= MOST_MARKERS


def test_a_prefix_too_short_to_be_cached_gets_no_marker() -> None:
    material = replace(EVERYTHING, turns=(shown(9, "Who is Rex? " * 200), *TURNS), rounds=())
    frame = Frame(budget=divide_window(128_000, Ceilings()), abilities=Abilities(min_cache_tokens=400))
    prompt = assemble(material, frame, MEASURE).prompt
    assert prompt.markers == (7, 9), "what stands before the long turn is too short"
    eager = replace(frame, abilities=Abilities(min_cache_tokens=0))
    assert assemble(material, eager, MEASURE).prompt.markers == (1, 3, 7, 9)


@pytest.mark.req("FILES-3")
def test_tiers_are_marked_first_and_a_marker_left_over_stands_after_the_last_turn() -> None:
    pair = (say("user", "tier"), say("assistant", "read"))
    frame = Frame(budget=divide_window(128_000, Ceilings()), abilities=Abilities(min_cache_tokens=0))
    there = WorkspaceText(system="map", tiers=((), pair, pair), context=pair, history_to=9)
    resting = sections(turns=TURNS, workspace=there)
    assert assemble(resting, frame, MEASURE).prompt.markers == (1, 3, 7, 11), "L0, L2, L3 with turn 9, turn 10"
    tools = replace(resting, rounds=EVERYTHING.rounds)
    assert assemble(tools, frame, MEASURE).prompt.markers == (1, 3, 7, 14), "while tools run, they count as a turn"
    full = replace(resting, workspace=replace(there, tiers=(pair, pair, pair)))
    assert assemble(full, frame, MEASURE).prompt.markers == (1, 3, 5, 9)


# --- pins ---


def test_a_prompt_without_a_pin_is_not_sent() -> None:
    prompt = lay_out(EVERYTHING)
    check_pins(prompt, EVERYTHING)
    lost = replace(prompt, system=(prompt.system[0], prompt.system[1].replace("metres", "feet")))
    with pytest.raises(ContextInfinityError, match=r"fact is missing from the prompt: 'Answers are in metres\.'"):
        check_pins(lost, EVERYTHING)
    with pytest.raises(ContextInfinityError):
        check_pins(replace(prompt, system=prompt.system[:1]), EVERYTHING)


@pytest.mark.req("CTX-10")
def test_a_request_of_an_older_layout_is_worded_as_it_was_sent() -> None:
    old = lay_out(replace(sections(contextualised="Who are Ann's children?"), layout=3))
    assert "Lines behind a bar (|) inside <artifact>" in old.system[0]
    assert "[The same, made explicit]" in old.messages[-1].rendered_text
    assert CONTEXTUALISED in lay_out(sections(contextualised="Who are Ann's children?")).messages[-1].rendered_text


@pytest.mark.req("CTX-10")
def test_memories_are_headed_as_their_layout_did() -> None:
    remembering = sections(front=replace(EVERYTHING.front, memories="- The user's name is Ada."))
    assert "What is known from this and other conversations:\n- The user's" in lay_out(remembering).system[-1]
    old = lay_out(replace(remembering, layout=4))
    assert "What is known from earlier conversations:\n- The user's" in old.system[-1]
    assert "every quoted line begins" in old.system[0]
