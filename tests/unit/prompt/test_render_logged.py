"""Logged turns of every role appear in later prompts as they were said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import Message, Role, TextBlock, ToolResultBlock, ToolUseBlock, say
from contextinfinity.domain.turn import Phase, Turn
from tests.unit.prompt.material import render

pytestmark = pytest.mark.req("THREAD-13", "TURN-12")

NO_ANSWER = ("assistant", "[no answer]")
CALL = Message(role="assistant", blocks=(ToolUseBlock(tool_use_id="c1", name="look", input={}),))


def logged(said: str | Message, answer: str | Message | None = None) -> Turn:
    """Make a recorded turn; a text begins with its role: ``user Hello``."""
    message, reply = worded(said), None if answer is None else worded(answer)
    moment = now()
    return Turn(
        id=new_id(),
        session_id=new_id(),
        branch_id=new_id(),
        turn_seq=1,
        phase=Phase.DONE,
        outcome=None if reply is None else "completed",
        state_before=new_id(),
        user_message=message,
        answer=reply,
        created_at=moment,
        updated_at=moment,
    )


def worded(said: str | Message) -> Message:
    if isinstance(said, Message):
        return said
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
    role, _, text = said.partition(" ")
    return say(roles[role], text)


ASKED = replace(logged("user now"), phase=Phase.CONTEXT_PREPARED)
"""The turn that the prompt is for."""


def shown(*turns: Turn) -> list[tuple[str, str]]:
    return [(message.role, message.rendered_text) for message in render(turns, ASKED)]


def test_a_question_with_its_answer_is_a_pair() -> None:
    assert shown(logged("user Q", "assistant A"), logged("user R", "assistant B")) == [
        ("user", "Q"),
        ("assistant", "A"),
        ("user", "R"),
        ("assistant", "B"),
    ]


def test_a_question_left_open_is_marked_where_somebody_asks_again() -> None:
    assert shown(logged("user Q")) == [("user", "Q"), NO_ANSWER]
    assert shown(logged("user Q"), logged("user R", "assistant B"))[:2] == [("user", "Q"), NO_ANSWER]
    assert shown(logged("user Q"), logged("system S")) == [("user", "Q"), NO_ANSWER, ("system", "S")]


def test_what_the_assistant_or_the_system_said_stands_alone() -> None:
    assert shown(logged("assistant Welcome.")) == [("assistant", "Welcome.")]
    assert shown(logged("system Be brief."), logged("user Q", "assistant A"))[0] == ("system", "Be brief.")
    assert shown(logged("system Greet.", "assistant Hello.")) == [("system", "Greet."), ("assistant", "Hello.")]


def test_a_question_that_is_answered_in_the_next_turn_is_not_marked() -> None:
    assert shown(logged("user Q"), logged("assistant A")) == [("user", "Q"), ("assistant", "A")]
    assert shown(logged("user Q"), logged("system S", "assistant A")) == [
        ("user", "Q"),
        ("system", "S"),
        ("assistant", "A"),
    ]
    assert shown(logged("user Q"), logged("tool 42"), logged("tool 43", "assistant A")) == [
        ("user", "Q"),
        ("user", "[a tool gave back]\n42"),
        ("user", "[a tool gave back]\n43"),
        ("assistant", "A"),
    ]


def test_a_tools_words_without_a_call_are_no_result_and_not_the_users() -> None:
    assert shown(logged("tool 42")) == [("user", "[a tool gave back]\n42"), NO_ANSWER]
    assert shown(logged("tool 42", "assistant A")) == [("user", "[a tool gave back]\n42"), ("assistant", "A")]


def test_a_tools_result_stays_with_the_call_before_it() -> None:
    result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="seen"),))
    brought = Message(role="tool", blocks=(result,))
    for first in (logged("user Q", CALL), logged(CALL)):
        messages = render([first, logged(brought, "assistant A")], ASKED)
        assert messages[-3:] == (CALL, brought, say("assistant", "A"))


def test_a_call_that_was_logged_without_a_result_gets_a_constant_one() -> None:
    missing = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="[not run]"),), is_error=True)
    assert render([logged(CALL)], ASKED) == (CALL, Message(role="tool", blocks=(missing,)))


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_empty_system_text_is_not_shown(blank: str) -> None:
    assert shown(logged(f"system {blank}")) == []
    assert shown(logged(f"system {blank}", "assistant A")) == [("assistant", "A")]


def test_an_empty_answer_is_none() -> None:
    assert shown(logged("assistant ")) == []
    assert shown(logged("user Q", "assistant ")) == [("user", "Q"), NO_ANSWER]
