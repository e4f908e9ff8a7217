"""Requests from anywhere: whatever they contain, they are read into what can be kept and written, or refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import dropwhile
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextinfinity.dialects.contract import AnswerView, IncomingRequest
from contextinfinity.dialects.openai_chat import OpenAIChat, read_embeddings
from contextinfinity.dialects.openai_chat.reading import READ
from contextinfinity.domain.message import Message, TextBlock, ToolUseBlock
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.invariants import check_json, check_message
from tests.sizes import sized

pytestmark = pytest.mark.req("API-7")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(max_size=9)
WORDS = st.sampled_from(
    ["auto", "none", "required", "function", "text", "json_schema", "json_object", "low", "https://a/b", "{}", "[1"]
)
ANYTHING = VALUES | TEXTS | WORDS


def holds(**fields: Any) -> st.SearchStrategy[Any]:
    """Make objects that have some of these fields, mostly as they should be."""
    return st.fixed_dictionaries({}, optional={name: right | ANYTHING for name, right in fields.items()})


FUNCTION = holds(name=TEXTS, arguments=TEXTS | WORDS, parameters=VALUES, description=TEXTS)
PARTS = holds(
    type=st.sampled_from(["text", "image_url", "refusal", "input_audio"]),
    text=TEXTS,
    refusal=TEXTS,
    image_url=holds(url=st.sampled_from(["https://a/b", "data:image/png;base64,YQ==", "data:,"]), detail=WORDS),
)
MESSAGES = holds(
    role=st.sampled_from(["user", "assistant", "system", "developer", "tool", "function"]),
    content=TEXTS | st.lists(PARTS, max_size=3),
    name=TEXTS,
    tool_call_id=TEXTS,
    tool_calls=st.lists(holds(id=TEXTS, type=st.just("function"), function=FUNCTION), max_size=2),
    function_call=FUNCTION,
    refusal=TEXTS,
)
USEFUL: dict[str, Any] = {
    "messages": st.lists(MESSAGES, max_size=4),
    "tools": st.lists(holds(type=st.just("function"), function=FUNCTION), max_size=2),
    "metadata": holds(thread_id=TEXTS, user_id=TEXTS),
    "response_format": holds(type=WORDS, json_schema=holds(schema=VALUES)),
    "tool_choice": WORDS | holds(type=st.just("function"), function=FUNCTION),
}
BODIES = holds(model=st.just("m"), **{name: USEFUL.get(name, WORDS) for name in sorted(READ - {"model"})})

PLAIN = st.text(max_size=9).filter(lambda text: "\0" not in text)
NAMES = st.text("abc_", min_size=1, max_size=5)
RIGHT_PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": PLAIN}), max_size=3)
RIGHT_CALLS = st.fixed_dictionaries(
    {
        "id": NAMES,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": NAMES, "arguments": PLAIN | VALUES.map(json.dumps)}),
    }
)
RIGHT_MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"]), "content": PLAIN | RIGHT_PARTS},
        optional={"name": NAMES},
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | PLAIN, "tool_calls": st.lists(RIGHT_CALLS, max_size=2)}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": NAMES, "content": PLAIN | RIGHT_PARTS}),
)
RIGHT = st.fixed_dictionaries({"model": NAMES, "messages": st.lists(RIGHT_MESSAGES, min_size=1, max_size=5)})


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


def check_read(body: bytes) -> None:
    try:
        asked = OpenAIChat().read(body)
    except InvalidInput:
        return
    check_kept(asked)


def check_kept(asked: IncomingRequest) -> None:
    for message in asked.messages:
        check_message(message)
        _check_round(message)
    for schema in (asked.response_format, *(tool.parameters for tool in asked.tools)):
        check_json(schema, "schema")
    msgspec.json.encode(asked)


def _check_round(message: Message) -> None:
    """What is said can be written as an answer, too."""
    assert all(block.text for block in message.blocks if isinstance(block, TextBlock))
    spoken = AnswerView(id="a", model="m", created_at=datetime(2025, 1, 1, tzinfo=UTC), blocks=message.blocks)
    made = OpenAIChat().write_answer(spoken)["choices"][0]["message"]
    calls = [block for block in message.blocks if isinstance(block, ToolUseBlock)]
    assert len(made.get("tool_calls", [])) == len(calls)
    msgspec.json.encode(made)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=sized(80, 1_500))
@given(BODIES | st.tuples(RIGHT, BODIES).map(lambda both: {**both[1], **both[0]}))
def test_whatever_a_request_holds_it_is_read_or_refused(body: Any) -> None:
    check_read(written(body))


@given(RIGHT)
def test_a_request_that_is_right_loses_no_message(body: Any) -> None:
    asked = OpenAIChat().read(written(body))
    check_kept(asked)
    kept = [*dropwhile(lambda message: message["role"] == "system", body["messages"])]
    assert len(asked.messages) == len(kept), "later system messages stay in their places"
    for message, sent in zip(asked.messages, kept, strict=True):
        assert message.role == (sent["role"] if sent["role"] in ("assistant", "system") else "user")
        if isinstance(sent["content"], str) and sent["role"] != "tool":
            assert message.rendered_text == sent["content"]


@given(PLAIN | VALUES.filter(lambda value: value is not None and not isinstance(value, str)) | st.integers().map(str))
def test_arguments_that_were_written_are_read_as_what_they_were(arguments: Any) -> None:
    try:
        check_json(arguments, "input")
    except InvalidInput:
        return  # no number, so never kept
    call = ToolUseBlock(tool_use_id="c", name="f", input=arguments)
    spoken = AnswerView(id="a", model="m", created_at=datetime(2025, 1, 1, tzinfo=UTC), blocks=(call,))
    message = OpenAIChat().write_answer(spoken)["choices"][0]["message"]
    asked = OpenAIChat().read(written({"model": "m", "messages": [message]}))
    assert [(each.role, each.blocks) for each in asked.messages] == [("assistant", (call,))]


@given(VALUES)
def test_whatever_json_comes_it_is_read_or_refused(value: Any) -> None:
    check_read(written(value))
    check_read(written({"model": "m", "messages": [{"role": "user", "content": "a"}], "x": value}))


@given(st.binary(max_size=100))
def test_whatever_bytes_come_they_are_read_or_refused(body: bytes) -> None:
    check_read(body)
    check_read(b'{"model":"m","messages":[{"role":"user","content":"' + body + b'"}]}')


@given(holds(model=TEXTS, input=TEXTS | st.lists(TEXTS, max_size=3), encoding_format=WORDS, dimensions=st.none()))
def test_whatever_texts_are_to_be_placed_they_are_read_or_refused(body: Any) -> None:
    try:
        asked = read_embeddings(written(body))
    except InvalidInput:
        return
    assert all(asked.texts)
