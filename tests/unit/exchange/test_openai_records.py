"""One record as a message."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    say,
)
from contextinfinity.exchange.openai_messages import ParsedMessage, RejectedRecord, parse_record
from tests.cases import each

PIXELS = b"\x89PNG pixels"
URI = "data:image/png;base64," + base64.b64encode(PIXELS).decode()
SHA256 = hashlib.sha256(PIXELS).hexdigest()


def said(**record: Any) -> ParsedMessage:
    return parse_record(json.dumps(record).encode())


def blocks(**record: Any) -> Any:
    return said(**record).imported.message.blocks


def reason(data: bytes) -> str:
    with pytest.raises(RejectedRecord) as raised:
        parse_record(data)
    return raised.value.reason


def test_a_plain_record_is_a_message_with_its_id_and_time() -> None:
    read = said(role="user", content="Hello", id=7, created_at="2023-05-08T13:56:00Z", thread_id="t", name="Ada")
    assert read.imported.message == say("user", "Hello")
    assert (read.imported.external_id, read.session) == ("7", "t")
    assert read.imported.created_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert read.imported.details == {"name": "Ada"}


@pytest.mark.parametrize(("given_role", "role"), [("developer", "system"), ("function", "tool"), ("tool", "tool")])
def test_roles_are_those_of_the_ledger(given_role: str, role: str) -> None:
    assert said(role=given_role, content="x").imported.message.role == role


@pytest.mark.parametrize("field", ["thread_id", "session_id", "conversation_id"])
def test_a_record_may_name_its_conversation(field: str) -> None:
    assert said(role="user", content="x", **{field: 12}).session == "12"
    assert said(role="user", content="x", **{field: ""}).session is None


def test_fields_nobody_knows_are_kept_as_details() -> None:
    read = said(role="assistant", content="x", model="gpt", likes=[1, {"a": None}], refusal=None, created_at="soon")
    assert read.imported.details == {"model": "gpt", "likes": [1, {"a": None}], "created_at": "soon"}
    assert (read.imported.model, read.imported.created_at) == ("gpt", None)


def test_parts_become_blocks_and_strange_ones_stay_as_they_are() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    parts = [{"type": "text", "text": "a"}, "b", {"type": "refusal", "refusal": "no"}, audio]
    assert blocks(role="user", content=parts) == (
        TextBlock(text="a"),
        TextBlock(text="b"),
        TextBlock(text="no"),
        UnknownBlock(provider="openai", raw=audio),
    )


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": URI, "detail": "low"}},
        {"type": "input_image", "image_url": URI, "detail": "low"},
    ],
)
def test_a_picture_in_a_data_uri_becomes_a_blob(part: dict[str, Any]) -> None:
    read = said(role="user", content=[part])
    source = {"type": "blob", "sha256": SHA256, "detail": "low"}
    assert read.imported.message.blocks == (ImageBlock(media_type="image/png", source=source),)
    assert read.blobs == {SHA256: (PIXELS, "image/png")}


def test_a_picture_elsewhere_stays_an_address_and_no_other_address_is_one() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert blocks(role="user", content=[part]) == (
        ImageBlock(media_type="", source={"type": "url", "url": "https://example.org/a.png"}),
    )
    for url in ("file:///etc/passwd", "data:text/html;base64,AAAA", "data:image/png,raw", None, 3):
        part = {"type": "image_url", "image_url": {"url": url}}
        assert blocks(role="user", content=[part]) == (UnknownBlock(provider="openai", raw=part),)


def test_calls_and_results_are_kept_as_blocks() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}]
    assert blocks(role="assistant", content=None, tool_calls=calls) == (
        ToolUseBlock(tool_use_id="c1", name="look", input={"at": 1}),
    )
    calls[0]["function"] = {"name": "look", "arguments": "{broken"}
    assert blocks(role="assistant", content="", tool_calls=calls)[0].input == "{broken"
    assert said(role="tool", content="Seen.", tool_call_id="c1").imported.message == Message(
        role="tool", blocks=(ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="Seen."),)),)
    )
    old = {"name": "look", "arguments": "{}"}
    assert blocks(role="assistant", content=None, function_call=old)[0].tool_use_id == "look"
    assert blocks(role="function", name="look", content="Seen.")[0].tool_use_id == "look"
    assert blocks(role="tool", content="Seen.") == (TextBlock(text="Seen."),)


@each(
    ("record", "words"),
    [
        ({}, "it has no role"),
        ({"role": "robot", "content": "x"}, "its role is 'robot'"),
        ({"role": ["user"], "content": "x"}, "its role is a list"),
        ({"role": "user"}, "it has no content"),
        ({"role": "user", "content": []}, "it has no content"),
        ({"role": "user", "content": 5}, "its content is a number"),
        ({"role": "user", "content": {"text": "x"}}, "its content is an object"),
        ({"role": "user", "content": [5]}, "a part of its content is a number"),
        ({"role": "user", "content": [{"type": "text"}]}, "the text of a part of its content is nothing"),
        ({"role": "user", "content": "x", "id": ["a"]}, "its id is a list"),
        ({"role": "user", "content": "x", "id": True}, "its id is true or false"),
        ({"role": "user", "content": "x", "id": "x" * 513}, "513 characters"),
        ({"role": "user", "content": "x", "thread_id": "x" * 129}, "its thread_id has 129 characters"),
        ({"role": "user", "content": "x", "n": 2**9999}, "a number of"),
        ({"role": "assistant", "tool_calls": "x"}, "its tool_calls are a string"),
        ({"role": "assistant", "tool_calls": [5]}, "one of its tool_calls is a number"),
        ({"role": "assistant", "function_call": {}}, "names no function"),
    ],
)
def test_a_record_that_is_no_message_says_why(record: dict[str, Any], words: str) -> None:
    assert words in reason(json.dumps(record).encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b'{"role": "user", "content": NaN}', "it is not JSON"),
        (b'{"role": "user", "content": "\\ud800"}', "it is not JSON"),
        (b'{"role": "user", "content": "\xff"}', "it is not JSON"),
        (b"[1]", "it is a list, not an object"),
        (b"null", "it is nothing, not an object"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"role": "user", "content": "x", "n": ' + b"[" * 101 + b"]" * 101 + b"}", "101"),
        (b'{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,?"}]}', "base64"),
    ],
)
def test_bytes_that_are_no_message_say_why(data: bytes, words: str) -> None:
    assert words in reason(data) or (words == "101" and "levels deep" in reason(data))


def test_a_record_may_say_very_much_but_not_hold_a_crowd_of_values() -> None:
    csv = '1,2,"3",' * 500_000
    assert parse_record(json.dumps({"role": "user", "content": csv}).encode()).imported.message.rendered_text == csv
    for crowd in (b"{},", b'"a",'):
        with pytest.raises(RejectedRecord, match="more than 1,000,000 values"):
            parse_record(b'{"role": "user", "content": "x", "y": [' + crowd * 1_200_000 + b"0]}")


def test_what_is_wrong_with_a_record_that_names_its_conversation_is_told_there() -> None:
    with pytest.raises(RejectedRecord) as raised:
        said(role="robot", content="x", thread_id="t")
    assert raised.value.session == "t"
