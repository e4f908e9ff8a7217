"""Every outcome has its form in later prompts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import Message, TextBlock, ToolResultBlock, ToolUseBlock, say
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.prompt.prompt_sections import render_turn
from tests.unit.prompt.material import render

ASKED = Turn(
    id=new_id(),
    session_id=new_id(),
    branch_id=new_id(),
    turn_seq=1,
    phase=Phase.DONE,
    state_before=new_id(),
    user_message=say("user", "Who is Ada?"),
    created_at=now(),
    updated_at=now(),
)
ANSWER = say("assistant", "A mathematician.")
CALL = Message(role="assistant", blocks=(ToolUseBlock(tool_use_id="c1", name="look", input={}),))


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.rendered_text) for message in messages]


@pytest.mark.req("TURN-12")
@pytest.mark.parametrize(
    ("turn", "shown"),
    [
        (replace(ASKED, answer=ANSWER, outcome="completed"), "A mathematician."),
        (replace(ASKED, answer=ANSWER, outcome="incomplete"), "A mathematician."),
        (replace(ASKED, answer=ANSWER, outcome="clarification"), "A mathematician."),
        (replace(ASKED, answer=ANSWER, outcome="cancelled"), "A mathematician.\n[stopped here]"),
        (replace(ASKED, answer=ANSWER, outcome="incomplete", phase=Phase.FAILED), "A mathematician.\n[cut off here]"),
        (replace(ASKED, outcome="failed", phase=Phase.FAILED), "[no answer]"),
        (replace(ASKED, outcome="cancelled"), "[no answer]"),
        (replace(ASKED, answer=say("assistant", ""), outcome="completed"), "[no answer]"),
        (replace(ASKED, answer=Message(role="assistant", blocks=()), outcome="completed"), "[no answer]"),
    ],
)
def test_every_turn_stands_as_a_pair(turn: Turn, shown: str) -> None:
    assert texts(render_turn(turn, None)) == [("user", "Who is Ada?"), ("assistant", shown)]


@pytest.mark.req("TURN-12")
def test_a_turn_without_an_answer_gives_way_to_its_retry_only() -> None:
    failed = replace(ASKED, outcome="failed", phase=Phase.FAILED)
    retry = replace(ASKED, id=new_id(), turn_seq=2, answer=ANSWER, outcome="completed", retry_of=failed.id)
    assert texts(render([failed, retry])) == [("user", "Who is Ada?"), ("assistant", "A mathematician.")]
    other = replace(retry, retry_of=new_id())
    assert len(render([failed, other])) == 4
    partial = replace(failed, answer=ANSWER, outcome="incomplete")
    assert len(render([partial, replace(retry, retry_of=partial.id)])) == 4, "what was said stays"


@pytest.mark.req("TURN-12")
def test_a_message_that_was_too_large_does_not_make_the_next_too_large() -> None:
    huge = replace(
        ASKED,
        user_message=say("user", "x" * 1_000_000),
        phase=Phase.FAILED,
        outcome="failed",
        error=Problem(code="size", message="too large"),
    )
    words, answer = render_turn(huge, None)
    assert words.rendered_text == "x" * 200 + "\n[the rest of this message was too large to be sent]"
    assert answer.rendered_text == "[no answer]"


@pytest.mark.req("BUDGET-11", "CTX-10")
def test_a_short_message_that_failed_for_size_is_shown_whole_and_as_before_in_old_requests() -> None:
    results = tuple(ToolResultBlock(tool_use_id=name, content=(TextBlock(text="ok"),)) for name in "ab")
    short = replace(
        ASKED,
        user_message=Message(role="user", blocks=(*results, TextBlock(text="Go on."))),
        phase=Phase.FAILED,
        outcome="failed",
        error=Problem(code="size", message="too large"),
    )
    assert render_turn(short, None)[0] == short.user_message
    assert "too large to be sent" in render_turn(short, None, layout=1)[0].rendered_text


@pytest.mark.req("TURN-12")
def test_a_tool_call_without_a_result_gets_a_constant_one() -> None:
    paused = replace(ASKED, answer=CALL, outcome="paused")
    went_on = replace(ASKED, id=new_id(), turn_seq=2)
    messages = render_turn(paused, went_on)
    result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="[not run]"),), is_error=True)
    assert messages == (ASKED.user_message, CALL, Message(role="tool", blocks=(result,)))


@pytest.mark.req("TURN-12")
def test_a_result_that_the_next_turn_brings_is_not_made_up() -> None:
    paused = replace(ASKED, answer=CALL, outcome="paused")
    brought = Message(role="user", blocks=(ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="seen"),)),))
    assert render_turn(paused, replace(ASKED, id=new_id(), turn_seq=2, user_message=brought)) == (
        ASKED.user_message,
        CALL,
    )
