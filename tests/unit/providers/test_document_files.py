"""Files of one vendor's clients, written for the models of another."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import Json, Message, TextBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, say
from contextinfinity.domain.prompt import Prompt, ProviderRequest
from contextinfinity.providers.anthropic import AnthropicWire
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.wire_values import UNKNOWN_NOTE, unread
from tests.unit.providers.test_wires_alike import ABLE, WIRES

DATA = base64.b64encode(b"%PDF-1.4 not much of a file").decode()
PLAIN = base64.b64encode("Grüße".encode()).decode()
ADDRESS = "https://example.org/a.pdf"

URL = f"data:application/pdf;base64,{DATA}"
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": DATA}

OPENAI_FILE = {"filename": "a.pdf", "file_data": URL}
CLIENTS: dict[str, tuple[str, Json]] = {
    "chat": ("openai_chat", {"type": "file", "file": OPENAI_FILE}),
    "base64 alone": ("openai_chat", {"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}}),
    "responses": ("openai", {"type": "input_file", **OPENAI_FILE}),
    "messages": ("anthropic", {"type": "document", "title": "a.pdf", "source": SOURCE}),
}
WRITTEN: dict[str, Json] = {
    "openai": {"type": "input_file", **OPENAI_FILE},
    "openai_chat": {"type": "file", "file": OPENAI_FILE},
    "anthropic": {
        "type": "document",
        "source": SOURCE,
        "title": "a.pdf",
    },
    "gemini": {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
}


def block(client: str) -> UnknownBlock:
    provider, raw = CLIENTS[client]
    return UnknownBlock(provider=provider, raw=raw)


def parts(name: str, *messages: Message, files: bool = True) -> list[Any]:
    """Write a request, let the fake of the vendor look at it, and return the parts of its last message."""
    wire, model_id, check = WIRES[name]
    request = ProviderRequest(model_id=model_id, prompt=Prompt(system=(), messages=messages))
    body = json.loads(json.dumps(wire.write(request, replace(ABLE, files=files))))
    check(body)
    last = (body.get("input") or body.get("messages") or body.get("contents"))[-1]
    content = last.get("content", last.get("parts", last.get("output")))
    return content if isinstance(content, list) else [content]


def ask(file: UnknownBlock) -> Message:
    return Message(role="user", blocks=(TextBlock(text="What is it?"), file))


@pytest.mark.req("API-12")
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_pdf_reaches_a_model_of_any_vendor_in_its_own_form(client: str, name: str) -> None:
    written = parts(name, ask(block(client)))[-1]
    if block(client).provider == name:
        assert written in (WRITTEN[name], CLIENTS[client][1])
    else:
        assert written == WRITTEN[name]
        assert unread([ask(block(client))], name, "", replace(ABLE, files=True)) == ()


@pytest.mark.req("API-12")
@pytest.mark.parametrize("name", WRITTEN)
def test_a_model_that_reads_no_files_is_told_so_and_the_part_is_named(name: str) -> None:
    foreign = block("chat" if name == "anthropic" else "messages")
    assert UNKNOWN_NOTE in json.dumps(parts(name, ask(foreign), files=False))
    assert unread([ask(foreign)] * 2, name, "", ABLE) == (foreign.raw["type"],)


@pytest.mark.req("API-12")
@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "gemini"])
def test_a_file_of_plain_text_is_sent_as_text_to_every_model(name: str) -> None:
    raw = {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{PLAIN}"}
    file = UnknownBlock(provider="openai", raw=raw)
    written = json.dumps(parts(name, ask(file), files=False), ensure_ascii=False)
    assert "Grüße" in written
    assert "a.txt" in written
    assert PLAIN not in written
    assert unread([ask(file)], name, "", ABLE) == ()


@pytest.mark.req("API-12")
def test_the_url_of_a_file_is_sent_where_the_api_accepts_one() -> None:
    url = UnknownBlock(provider="anthropic", raw={"type": "document", "source": {"type": "url", "url": ADDRESS}})
    assert parts("openai", ask(url))[-1] == {"type": "input_file", "file_url": ADDRESS}
    assert parts("gemini", ask(url))[-1] == {"fileData": {"mimeType": "application/pdf", "fileUri": ADDRESS}}
    assert UNKNOWN_NOTE in json.dumps(parts("openai_chat", ask(url)))
    assert unread([ask(url)], "openai_chat", "chat", replace(ABLE, files=True)) == ("document",)
    given = UnknownBlock(provider="openai", raw={"type": "input_file", "file_url": ADDRESS})
    assert parts("anthropic", ask(given))[-1] == {"type": "document", "source": {"type": "url", "url": ADDRESS}}


@pytest.mark.req("API-12")
def test_a_file_that_another_vendor_stores_or_that_has_no_counterpart_is_named() -> None:
    able = replace(ABLE, files=True)
    for raw in (
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.docx", "file_data": f"data:application/msword;base64,{DATA}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,?"},
    ):
        file = UnknownBlock(provider="openai", raw=raw)
        assert parts("anthropic", ask(file))[-1] == {"type": "text", "text": UNKNOWN_NOTE}
        assert unread([ask(file)], "anthropic", "messages", able) == ("input_file",)
        assert unread([ask(file)], "openai", "", able) == ()


@pytest.mark.req("API-12")
def test_a_file_in_the_result_of_a_tool_is_sent_where_results_may_hold_one() -> None:
    call = Message(role="assistant", blocks=(ToolUseBlock(tool_use_id="a", name="read", input={}),))
    for client, name in (("messages", "openai"), ("responses", "anthropic"), ("messages", "openai_chat")):
        result = Message(role="user", blocks=(ToolResultBlock(tool_use_id="a", content=(block(client),)),))
        written = json.dumps(parts(name, say("user", "Read it."), call, result))
        assert (DATA in written) is (name != "openai_chat")
        form = "chat" if name == "openai_chat" else ""
        assert unread([result], name, form, replace(ABLE, files=True)) == (("document",) if form else ())


@pytest.mark.req("API-12")
@pytest.mark.parametrize(("model_id", "last"), [("claude-sonnet-4-5", "assistant"), ("claude-opus-4-6", "user")])
def test_the_beginning_of_an_answer_goes_to_models_that_continue_it(model_id: str, last: str) -> None:
    messages = (say("user", "Write a haiku."), say("assistant", "An old silent pond \n"))
    request = ProviderRequest(model_id=model_id, prompt=Prompt(system=(), messages=messages))
    written: Any = AnthropicWire().write(request, abilities_of("anthropic", model_id))["messages"]
    assert written[-1]["role"] == last
    assert written[1]["content"][0]["text"].startswith("An old silent pond")
    if last == "assistant":
        assert written[-1]["content"] == [{"type": "text", "text": "An old silent pond"}], "the API rejects white space"
