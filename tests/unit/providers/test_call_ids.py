"""Ids of calls: valid, used once, the same for call and result."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.domain.message import Message, ToolResultBlock, ToolUseBlock, say
from contextinfinity.providers.tool_results import with_safe_ids

PATTERN = r"[A-Za-z0-9_-]+"


def calls(*ids: str) -> Message:
    return Message(role="assistant", blocks=tuple(ToolUseBlock(tool_use_id=each, name="f", input={}) for each in ids))


def results(*ids: str) -> Message:
    return Message(role="tool", blocks=tuple(ToolResultBlock(tool_use_id=each) for each in ids))


def safe(*messages: Message) -> list[str]:
    named = with_safe_ids(messages, pattern=PATTERN, longest=64)
    return [b.tool_use_id for m in named for b in m.blocks if isinstance(b, ToolUseBlock | ToolResultBlock)]


def test_a_good_id_stays_as_it_is_and_so_does_the_message() -> None:
    message = calls("call_1")
    assert with_safe_ids((message,), pattern=PATTERN, longest=64)[0] is message


def test_a_result_has_the_new_id_of_its_call() -> None:
    call, result = safe(calls("functions.f:0"), results("functions.f:0"))
    assert call == result != "functions.f:0"


def test_a_repeated_id_gets_a_new_one_and_results_follow_the_newest_call() -> None:
    first, first_result, second, second_result = safe(calls("a"), results("a"), calls("a"), results("a"))
    assert (first, first_result) == ("a", "a")
    assert second == second_result != "a"


def test_results_of_two_calls_with_one_id_are_told_apart_by_their_order() -> None:
    first, second, first_result, second_result = safe(calls("a", "a"), results("a", "a"))
    assert first != second
    assert (first_result, second_result) == (first, second)


def test_a_call_that_was_never_answered_takes_no_later_result() -> None:
    _, second, result = safe(calls("a"), say("user", "never mind"), calls("a"), results("a"))
    assert result == second


def test_ids_fit_also_where_only_few_do() -> None:
    messages = (calls("a", "a", "call_1", "Ab3456789"), results("a", "a", "call_1", "Ab3456789"))
    named = with_safe_ids(messages, pattern=r"[A-Za-z0-9]{9}", longest=9)
    ids = [b.tool_use_id for m in named for b in m.blocks if isinstance(b, ToolUseBlock | ToolResultBlock)]
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", each) for each in ids)
    assert ids[:4] == ids[4:]
    assert len({*ids}) == 4
    assert ids[3] == "Ab3456789"


IDS = st.one_of(st.sampled_from(["a", "b", "", "a:b", "x" * 65]), st.text(max_size=70))
MESSAGES = st.lists(st.lists(IDS, min_size=1, max_size=3), max_size=8)


@given(MESSAGES)
@pytest.mark.req("PROVIDER-3")
def test_any_ids_come_out_valid_and_used_once(turns: list[list[str]]) -> None:
    messages = [message for ids in turns for message in (calls(*ids), results(*ids))]
    named = safe(*messages)
    assert all(re.fullmatch(PATTERN, each) and len(each) <= 64 for each in named)
    place = 0
    seen: set[str] = set()
    for ids in turns:
        called, answered = named[place : place + len(ids)], named[place + len(ids) : place + 2 * len(ids)]
        assert called == answered
        assert len({*called}) == len(called)
        assert seen.isdisjoint(called)
        seen.update(called)
        place += 2 * len(ids)


@given(MESSAGES, MESSAGES)
def test_a_longer_conversation_begins_with_the_same_ids(turns: list[list[str]], more: list[list[str]]) -> None:
    short = [message for ids in turns for message in (calls(*ids), results(*ids))]
    long = short + [message for ids in more for message in (calls(*ids), results(*ids))]
    assert safe(*long)[: len(safe(*short))] == safe(*short)
