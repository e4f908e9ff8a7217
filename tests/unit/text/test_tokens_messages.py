"""Counting messages, prompts, tools and pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    blob_source,
    say,
)
from contextinfinity.domain.prompt import Prompt, ToolSpec
from contextinfinity.text.tokens import counter_of
from contextinfinity.text.tokens.pieces import PAGE_TOKENS
from tests.cases import each

GPT = counter_of("openai", "gpt-5")
CLAUDE = counter_of("anthropic", "claude-opus-5-5")
QUESTION = "What is the weather in Paris?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "The city and its country"}}}


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(5)


def data_url(width: int, height: int) -> str:
    return "data:image/png;base64," + base64.b64encode(png(width, height)).decode()


def image(width: int, height: int) -> ImageBlock:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(width, height)).decode()}
    return ImageBlock(media_type="image/png", source=source)


TOOL_USE = ToolUseBlock(tool_use_id="call_1", name="weather", input={"city": "Paris"})
TOOL_RESULT = ToolResultBlock(tool_use_id="call_1", content=(TextBlock(text="18 degrees and rain"),))

FORMS: list[tuple[Message, dict[str, Any]]] = [
    (say("user", QUESTION), {"role": "user", "content": QUESTION}),
    (say("user", QUESTION), {"role": "user", "content": [{"type": "text", "text": QUESTION}]}),
    (say("user", QUESTION), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}),
    (
        Message(role="assistant", blocks=(TextBlock(text="I look."), TOOL_USE)),
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
            ],
        },
    ),
    (
        Message(role="assistant", blocks=(TOOL_USE,)),
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}],
        },
    ),
    (
        Message(role="tool", blocks=(TOOL_RESULT,)),
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees and rain"},
    ),
    (
        Message(role="user", blocks=(TOOL_RESULT,)),
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": [{"type": "text", "text": "18 degrees and rain"}],
                }
            ],
        },
    ),
    (
        Message(role="user", blocks=(image(800, 600),)),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(800, 600)}}]},
    ),
    (
        Message(role="user", blocks=(image(800, 600),)),
        {"role": "user", "content": [{"type": "input_image", "image_url": data_url(800, 600)}]},
    ),
    (
        Message(role="user", blocks=(image(800, 600),)),
        {"role": "user", "content": [{"type": "image", "source": image(800, 600).source}]},
    ),
    (
        Message(role="assistant", blocks=(ReasoningBlock(summary="Paris is in France."),)),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Paris is in France.", "signature": "xx"}]},
    ),
    (
        Message(role="assistant", blocks=(ReasoningBlock(encrypted_content="e" * 400),)),
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "e" * 400}]},
    ),
]


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize("counter", [GPT, CLAUDE])
@pytest.mark.parametrize(("message", "dictionary"), FORMS)
def test_a_dictionary_counts_as_the_message_it_is(counter: Any, message: Message, dictionary: dict[str, Any]) -> None:
    assert counter.count(dictionary) == counter.count(message) > 4


@pytest.mark.req("BUDGET-4")
def test_a_list_counts_as_its_messages_together() -> None:
    messages = [message for message, _ in FORMS]
    dictionaries = [dictionary for _, dictionary in FORMS]
    assert GPT.count(messages) == GPT.count(dictionaries) == sum(map(GPT.count, messages))
    assert GPT.count(["hello world", say("user", "hello world")]) == 2 + 2 + 4
    assert GPT.count([]) == 0


@pytest.mark.req("BUDGET-4")
def test_everything_a_tool_brings_is_counted() -> None:
    nested = ToolResultBlock(tool_use_id="call_2", content=(TOOL_RESULT, image(512, 512)))
    assert GPT.count(TOOL_USE) > GPT.count("weather") + GPT.count('{"city":"Paris"}')
    assert GPT.count(nested) > GPT.count(TOOL_RESULT) + GPT.count(image(512, 512))
    assert GPT.count(UnknownBlock(provider="x", raw={"note": "hello world"})) >= GPT.count("hello world")


def test_tools_count_alike_in_all_their_forms() -> None:
    spec = ToolSpec(name="weather", description="Tells the weather", parameters=SCHEMA)
    plain = {"name": "weather", "description": "Tells the weather"}
    assert (
        GPT.count(spec)
        == GPT.count({"type": "function", "function": {**plain, "parameters": SCHEMA}})
        == GPT.count({"type": "function", **plain, "parameters": SCHEMA})
        == GPT.count({**plain, "input_schema": SCHEMA})
    )


@pytest.mark.req("BUDGET-4")
def test_a_prompt_is_the_sum_of_what_it_holds() -> None:
    message = say("user", QUESTION)
    spec = ToolSpec(name="weather", description="Tells the weather", parameters=SCHEMA)
    bare = GPT.prompt(Prompt(system=(), messages=(message,)))
    assert bare == GPT.count(message) + 3
    assert GPT.prompt(Prompt(system=("Be brief.",), messages=(message,))) == bare + 4 + GPT.count("Be brief.")
    assert GPT.prompt(Prompt(system=(), messages=(message,), tools=(spec,))) == bare + GPT.count(spec)
    assert GPT.prompt(Prompt(system=(), messages=(message,), response_format=SCHEMA)) > bare + 20


def test_anthropic_adds_a_text_of_its_own_where_tools_are_offered() -> None:
    spec = ToolSpec(name="weather", description="Tells the weather", parameters=SCHEMA)
    message = say("user", QUESTION)
    with_tools = CLAUDE.prompt(Prompt(system=(), messages=(message,), tools=(spec,)))
    assert with_tools > CLAUDE.prompt(Prompt(system=(), messages=(message,))) + 300


@each(
    ("provider", "model_id", "size", "tokens"),
    [
        ("openai", "gpt-4o", (1024, 1024), 765),
        ("openai", "gpt-4o", (2048, 4096), 1105),
        ("openai", "gpt-5", (1024, 1024), 70 + 4 * 140),
        ("openai", "o1", (512, 512), 75 + 150),
        ("openai", "gpt-4.1-mini", (1024, 1024), 1659),
        ("openai", "gpt-4.1-mini", (1800, 2400), 2489),
        ("openai", "gpt-5.5", (1024, 1024), 1229),
        ("openai", "gpt-6-astra", (4032, 3024), 14364),
        ("anthropic", "claude-sonnet-4-5", (1024, 1024), 1369 + 4),
        ("anthropic", "claude-sonnet-4-5", (1920, 1080), 1568 + 4),
        ("anthropic", "claude-opus-5-5", (1920, 1080), 2691 + 4),
        ("vllm", "Qwen/Qwen3-VL", (280, 280), 100),
    ],
)
def test_a_picture_costs_what_its_vendor_says(provider: str, model_id: str, size: tuple[int, int], tokens: int) -> None:
    assert counter_of(provider, model_id).count(image(*size)) == tokens


@pytest.mark.parametrize("model_id", ["gpt-4o", "gpt-5.4", "gpt-6", "claude-opus-5", "claude-3-haiku", "other"])
@pytest.mark.parametrize("size", [(1, 1), (1, 100_000), (100_000, 1), (4_294_967_295, 4_294_967_295)])
def test_a_picture_of_any_shape_has_a_bounded_cost(model_id: str, size: tuple[int, int]) -> None:
    assert 0 < counter_of("x", model_id).count(image(*size)) <= 20_000


@pytest.mark.parametrize(
    "source",
    [
        blob_source("ab" * 32),
        {"type": "url", "url": "https://example.org/cat.png"},
        {"type": "base64", "data": "not base64 at all!"},
        {"type": "base64", "data": None},
        "data:image/png;base64,",
        None,
        7,
    ],
)
def test_a_picture_of_unknown_size_is_taken_as_a_large_one(source: Any) -> None:
    block = ImageBlock(media_type="image/png", source=source)
    assert GPT.count(block) == GPT.count(image(2048, 2048))


def test_a_size_that_stands_beside_the_source_is_used() -> None:
    block = ImageBlock(media_type="image/png", source={**blob_source("ab" * 32), "width": 800, "height": 600})
    assert CLAUDE.count(block) == CLAUDE.count(image(800, 600))


def test_low_detail_is_the_base_price_where_there_is_one() -> None:
    part = {"type": "image_url", "image_url": {"url": data_url(2048, 2048), "detail": "low"}}
    assert GPT.count(part) == 70


def test_the_bytes_of_a_picture_are_not_counted_as_text() -> None:
    data = base64.b64encode(png(64, 64) + bytes(3_000_000)).decode()
    block = ImageBlock(media_type="image/png", source={"type": "base64", "data": data})
    assert CLAUDE.count(block) == CLAUDE.count(image(64, 64)) < 20


def nested(depth: int) -> list[Any]:
    value: list[Any] = ["x" * 400]
    for _ in range(depth):
        value = [value]
    return value


def ring() -> list[Any]:
    value: list[Any] = ["x" * 400]
    value.append(value)
    return value


@pytest.mark.req("BUDGET-4")
@pytest.mark.parametrize(
    "value",
    [
        nested(100_000),
        ring(),
        {"role": "assistant", "tool_calls": 5, "content": "x" * 400},
        {"role": "assistant", "tool_calls": ["call"], "content": "x" * 400},
    ],
    ids=["deep", "ring", "no list", "no dictionary"],
)
def test_what_cannot_be_taken_apart_is_about_four_characters_a_token(value: Any) -> None:
    assert 100 <= GPT.count(value) <= 104


@pytest.mark.parametrize("value", [None, 7, 3.5, True, b"bytes", object(), {"a": object()}, {1: 2}, {"role": None}])
def test_no_value_is_an_error(value: Any) -> None:
    assert GPT.count(value) >= 0


def pdf(pages: int, *, compressed: bool = False, filler: int = 0) -> str:
    """Return a PDF with that many page objects, which newer files keep in a compressed stream."""
    objects = b"".join(b"%d 0 obj << /Type /Page /Parent 1 0 R >> endobj\n" % number for number in range(pages))
    tree = b"%%PDF-1.7\n1 0 obj << /Type /Pages /Count %d >> endobj\n" % pages
    if compressed:
        packed = zlib.compress(objects)
        objects = b"9 0 obj << /Type /ObjStm /Length %d >>\nstream\n%b\nendstream\n" % (len(packed), packed)
    return base64.b64encode(tree + objects + bytes(filler)).decode()


@pytest.mark.req("API-12")
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("counter", [GPT, CLAUDE])
def test_a_pdf_is_counted_by_its_pages_and_not_by_its_bytes(counter: Any, compressed: bool) -> None:
    counts: list[int] = []
    for pages, filler in ((3, 0), (3, 600_000), (12, 0)):
        data = pdf(pages, compressed=compressed, filler=filler)
        source = {"type": "base64", "media_type": "application/pdf", "data": data}
        file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}
        forms = ({"type": "document", "source": source}, {"type": "file", "file": file}, {"type": "input_file", **file})
        of_forms = {counter.count(UnknownBlock(provider="x", raw=raw)) for raw in forms}
        assert len(of_forms | {counter.count(raw) for raw in forms}) == 1, "whoever sends it"
        counts += of_forms
    assert counts == [3 * PAGE_TOKENS, 3 * PAGE_TOKENS, 12 * PAGE_TOKENS]


@pytest.mark.req("API-12")
def test_files_whose_pages_are_unknown_are_estimated() -> None:
    def count(**source: str) -> int:
        return GPT.count({"type": "document", "source": source})

    assert count(type="url", url="https://example.org/a.pdf") == count(type="file", file_id="f") == 10 * PAGE_TOKENS
    data = base64.b64encode(b"%PDF-1.4 " + bytes(120_000)).decode()
    assert count(type="base64", data=data) == 3 * PAGE_TOKENS
    text = {"type": "input_file", "file_data": "data:text/plain;base64," + base64.b64encode(b"Hello there.").decode()}
    assert GPT.count(text) == GPT.count("Hello there.")
