"""Bodies from anywhere: a request of Anthropic's clients is read or refused, and what is read can be kept."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.invariants import check_message

pytestmark = pytest.mark.req("API-7")

DIALECT = AnthropicMessages()
KINDS = (
    *("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"),
    *("base64", "url", "content", "file", "custom", "web_search_20250305", "auto", "any", "tool", "none", "enabled"),
    *("disabled", "adaptive", "json_schema", "create", "continue", "user", "assistant", "system"),
)
FIELDS = (
    *("type", "text", "source", "content", "id", "name", "input", "tool_use_id", "is_error", "thinking", "signature"),
    *("data", "media_type", "url", "citations", "cache_control", "input_schema", "schema", "format", "effort"),
    *("budget_tokens", "user_id", "thread_id", "role", "display", "title", "disable_parallel_tool_use"),
)
PARAMETERS = (
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stop_sequences", "temperature", "top_p"),
    *("top_k", "thinking", "output_config", "output_format", "metadata", "stream", "thread", "service_tier", "new"),
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-2, 2000) | st.integers() | st.floats(allow_nan=False)
    | st.text(max_size=6) | st.sampled_from(KINDS)
)  # fmt: skip


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    told = st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    typed = st.builds(lambda kind, rest: {**rest, "type": kind}, st.sampled_from(KINDS), told)
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2) | typed


JSON = st.recursive(LEAVES, nested, max_leaves=10)
BLOCKS = st.lists(JSON, max_size=3)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(("user", "assistant", "system")), "content": st.text() | BLOCKS}),
    min_size=1,
    max_size=4,
)
REQUESTS = st.builds(
    lambda least, more: {**least, **more},
    st.fixed_dictionaries({"model": st.just("m"), "max_tokens": st.just(9), "messages": MESSAGES}),
    st.dictionaries(st.sampled_from(PARAMETERS[3:]), JSON, max_size=3),
)


def read(body: bytes) -> IncomingRequest | None:
    """Read a body; None where it is refused in words."""
    try:
        return DIALECT.read(body)
    except InvalidInput:
        return None


def check(body: bytes) -> None:
    incoming = read(body)
    if incoming is not None:
        for message in incoming.messages:
            assert message.role in ("user", "assistant", "system")
            check_message(message)
        assert msgspec.json.decode(msgspec.json.encode(incoming), type=IncomingRequest).messages == incoming.messages


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    check(body)


@given(JSON | st.dictionaries(st.sampled_from(PARAMETERS), JSON, max_size=6))
def test_any_json_is_read_or_refused(value: Any) -> None:
    check(json.dumps(value).encode())


@given(REQUESTS)
def test_anything_within_a_request_is_read_or_refused(value: dict[str, Any]) -> None:
    check(json.dumps(value).encode())


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=5))
def test_words_stay_as_they_were_said(texts: list[str]) -> None:
    messages = [{"role": "user", "content": text} for text in texts]
    body = msgspec.json.encode({"model": "m", "max_tokens": 1, "messages": messages})
    incoming = read(body)
    assert incoming is not None
    assert [message.rendered_text for message in incoming.messages] == texts
