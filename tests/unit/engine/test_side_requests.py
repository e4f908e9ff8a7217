"""Side requests are recognised by their instruction; what people write is a conversation."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import say
from contextinfinity.engine.sent_conversation import side_request_of

REST = " Keep to the rules that follow." * 20


@pytest.mark.req("API-16")
@pytest.mark.parametrize(
    ("instruction", "purpose"),
    [
        ("Read the conversation so far and update the memory files of this project." + REST, "summary"),
        ("Write a summary of the conversation." + REST, "summary"),
        ("Generate a title for this chat." + REST, "title"),
        ("Generate a title for this chat.", None),
        ("Explain how a cache updates its memory." + REST, None),
    ],
)
def test_a_long_last_message_is_read_as_an_instruction(instruction: str, purpose: str | None) -> None:
    found = side_request_of("You are an agent.", [say("user", instruction)], has_tools=True)
    assert (None if found is None else found.purpose) == purpose
