"""How much of a request repeats the one before it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from contextinfinity.prompt.assemble import shared

ONE, TWO, THREE = ({"role": "user", "content": text} for text in ("one", "two", "three"))
TOOL = {"name": "look"}


def size(*parts: Any) -> int:
    return sum(len(msgspec.json.encode(part, order="deterministic")) for part in parts)


@pytest.mark.req("FILES-5")
@pytest.mark.parametrize("name", ["messages", "input"])
def test_a_longer_conversation_repeats_all_that_was_there(name: str) -> None:
    assert shared({name: [ONE, TWO]}, {name: [ONE, TWO, THREE]}) == (size(ONE, TWO), size(ONE, TWO, THREE))


@pytest.mark.req("FILES-5")
def test_the_first_part_that_differs_ends_what_is_repeated() -> None:
    assert shared({"messages": [ONE, TWO, THREE]}, {"messages": [ONE, THREE, THREE]})[0] == size(ONE)
    assert shared({"messages": [TWO]}, {"messages": [ONE, TWO]})[0] == 0


@pytest.mark.req("FILES-5")
def test_tools_and_system_texts_stand_before_messages() -> None:
    before = {"messages": [ONE], "system": "Be brief.", "tools": [TOOL]}
    after = {"tools": [TOOL], "system": "Be long.", "messages": [ONE]}
    assert shared(before, after)[0] == size(TOOL), "however they stand in the JSON"
    assert shared(before, {**before, "tools": []})[0] == 0
    assert shared(before, {**before, "max_tokens": 7}) == (size(TOOL, "Be brief.", ONE),) * 2, "the rest is no prompt"


@pytest.mark.req("FILES-5")
def test_cache_marks_do_not_count() -> None:
    marked = {**ONE, "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]}
    plain = {**ONE, "content": [{"type": "text", "text": "one"}]}
    assert shared({"messages": [marked]}, {"messages": [plain]}) == (size(plain), size(plain))


def test_without_a_request_before_nothing_is_repeated() -> None:
    assert shared(None, {"messages": [ONE]}) == (0, size(ONE))
    assert shared({"messages": [ONE]}, {}) == (0, 0)


def test_a_request_that_was_never_on_a_wire_is_compared_all_the_same() -> None:
    before = {"prompt": {"system": ["Be brief."], "messages": [ONE]}}
    after = {"prompt": {"system": ["Be brief."], "messages": [ONE, TWO]}}
    assert shared(before, after) == (size("Be brief.", ONE), size("Be brief.", ONE, TWO))
