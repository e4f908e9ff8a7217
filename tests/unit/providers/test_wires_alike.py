"""What the wires do alike: whatever a conversation holds becomes a request that the vendor takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    say,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.providers.anthropic import AnthropicWire
from contextinfinity.providers.contract import Wire
from contextinfinity.providers.gemini import GeminiWire
from contextinfinity.providers.openai_chat import ChatWire
from contextinfinity.providers.openai_responses import ResponsesWire
from contextinfinity.providers.wire_values import IMAGE_NOTE
from contextinfinity_testing.vendors import chat_checks, gemini_checks, messages_checks, responses_checks

ABLE = Abilities(max_output_tokens=2_000, images=True, known=True)
TOOL = ToolSpec(name="weather", description="Tells the weather.", parameters={"type": "object", "properties": {}})
NO_CALL = "[result of a tool call that is no longer shown] "

WIRES: dict[str, tuple[Wire, str, Callable[[Json], None]]] = {
    "openai": (ResponsesWire(), "gpt-4o", lambda body: responses_checks.check(body, responses_checks.Issued())),
    "openai_chat": (ChatWire(), "gpt-4o", chat_checks.check),
    "mistral": (ChatWire(), "mistral-large-latest", chat_checks.check_compatible),
    "perplexity": (ChatWire(vendor="perplexity"), "sonar-pro", chat_checks.check_perplexity),
    "anthropic": (AnthropicWire(), "claude-opus-5", messages_checks.check),
    "gemini": (GeminiWire(), "gemini-2.5-flash", gemini_checks.check),
}
ALL = pytest.mark.parametrize("name", WIRES)
WITH_TOOLS = pytest.mark.parametrize("name", [name for name in WIRES if name != "perplexity"])


def write(name: str, *messages: Message) -> Any:
    """Write a request, and let the fake of the vendor look at it."""
    wire, model_id, check = WIRES[name]
    prompt = Prompt(system=("Be kind.",), messages=messages, tools=(TOOL,))
    body = json.loads(json.dumps(wire.write(ProviderRequest(model_id=model_id, prompt=prompt), ABLE)))
    check(body)
    return body


def call(call_id: str, name: str = "weather", given: Json = None) -> ToolUseBlock:
    return ToolUseBlock(tool_use_id=call_id, name=name, input=given)


def result(call_id: str, *content: ContentBlock, is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call_id, content=content or (TextBlock(text="sunny"),), is_error=is_error)


def said(role: Any, *blocks: ContentBlock) -> Message:
    return Message(role=role, blocks=blocks)


def calls(body: Any) -> list[tuple[str, Any]]:
    """Read the calls of a body back: their names and arguments."""
    found = [each for each in body.get("input", ()) if each["type"] == "function_call"]
    found += [each["function"] for message in body.get("messages", ()) for each in message.get("tool_calls", ())]
    made = [(each["name"], json.loads(each["arguments"])) for each in found]
    parts = [each for content in body.get("contents", ()) for each in content["parts"] if "functionCall" in each]
    made += [(each["functionCall"]["name"], each["functionCall"]["args"]) for each in parts]
    blocks = [each for message in body.get("messages", ()) for each in message["content"] or () if type(each) is dict]
    return made + [(each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"]


@ALL
@pytest.mark.req("PROVIDER-3", "TOOLS-2", "LEDGER-2")
def test_a_result_whose_call_is_not_shown_is_told_in_words_of_the_user(name: str) -> None:
    hi, both = say("user", "hi"), (result("b", TextBlock(text="rain")), result("z"))
    late = said("user", result("a"), TextBlock(text="and now?"))
    for messages in (
        (hi, say("assistant", "ho"), said("user", result("gone"))),
        (hi, said("assistant", call("a")), say("user", "wait"), say("assistant", "yes"), late),
        (hi, said("assistant", call("b")), said("tool", *both)),
        (said("tool", result("first")), hi),
    ):
        written = json.dumps(write(name, *messages))
        assert written.count(NO_CALL + "sunny") == 1
        assert "[go on]" not in written
    failed = write(name, said("user", result("gone", TextBlock(text="no"), is_error=True), TextBlock(text="so?")))
    assert NO_CALL + "[error] no" in json.dumps(failed)


@WITH_TOOLS
@pytest.mark.req("PROVIDER-3", "TOOLS-2")
def test_a_call_whose_result_did_not_come_gets_a_constant_one(name: str) -> None:
    asked = said("assistant", call("a"), call("b"))
    for after in ((), (say("user", "never mind"),), (said("tool", result("b")),), (say("assistant", "well"),)):
        body = write(name, say("user", "hi"), asked, *after)
        missing = 1 if after and after[0].role == "tool" else 2
        assert json.dumps(body).count("[not run]") == missing


@WITH_TOOLS
@pytest.mark.req("PROVIDER-3")
@pytest.mark.parametrize("invented", ["functions.weather", "weather in paris", "n" * 200, "", "wetter-für_heute"])
def test_a_name_that_a_model_invented_is_made_to_fit(name: str, invented: str) -> None:
    ((sent, _),) = calls(
        write(name, say("user", "hi"), said("assistant", call("a", invented)), said("tool", result("a")))
    )
    assert sent


@WITH_TOOLS
@pytest.mark.req("PROVIDER-3")
@pytest.mark.parametrize(
    ("given_as", "sent_as"),
    [
        ("not json {", {"arguments": "not json {"}),
        ([1, "x"], {"arguments": [1, "x"]}),
        (7, {"arguments": 7}),
        (None, {}),
        ({"city": "Rome"}, {"city": "Rome"}),
    ],
)
def test_arguments_go_back_as_an_object(name: str, given_as: Any, sent_as: Any) -> None:
    body = write(name, say("user", "hi"), said("assistant", call("a", given=given_as)), said("tool", result("a")))
    assert calls(body) == [("weather", sent_as)]


PNG = {"type": "base64", "data": "aGk="}
PICTURES: list[tuple[str, Json, bool]] = [
    ("image/png", PNG, True),
    ("image/jpeg", {"type": "base64", "data": "aG\nk="}, True),
    ("image/png", {"type": "url", "url": "https://example.org/a.png"}, True),
    ("image/png", {"type": "url", "url": "data:image/webp;base64,aGk="}, True),
    ("image/svg+xml", PNG, False),
    ("image/tiff", PNG, False),
    ("image/png", {"type": "base64", "data": "%%%"}, False),
    ("image/png", {"type": "base64", "data": "aGk"}, False),
    ("image/png", {"type": "base64", "data": ""}, False),
    ("image/png", {"type": "url", "url": "data:image/svg+xml;base64,aGk="}, False),
    ("image/png", {"type": "url", "url": ""}, False),
    ("image/png", None, False),
]


@ALL
@pytest.mark.req("PROVIDER-3", "LEDGER-2")
@pytest.mark.parametrize(("media_type", "source", "shown"), PICTURES)
def test_a_picture_that_a_vendor_would_refuse_is_named_instead(
    name: str, media_type: str, source: Json, shown: bool
) -> None:
    body = write(name, said("user", TextBlock(text="look"), ImageBlock(media_type=media_type, source=source)))
    assert (IMAGE_NOTE in json.dumps(body)) is not shown
    given_back = result("a", ImageBlock(media_type=media_type, source=source))
    write(name, say("user", "hi"), said("assistant", call("a")), said("tool", given_back))


BLOCKS = st.one_of(
    st.builds(TextBlock, text=st.sampled_from(["", " ", "a", "b\n"])),
    st.builds(call, st.sampled_from(["1", "2", "a b"]), st.sampled_from(["t", "ü.x", ""]), st.sampled_from([None, 1])),
    st.builds(result, st.sampled_from(["1", "2", "a b", "9"]), is_error=st.booleans()),
    st.builds(UnknownBlock, provider=st.sampled_from(["openai", "anthropic", "x"]), raw=st.sampled_from([3, {}])),
    st.builds(ImageBlock, media_type=st.sampled_from(["image/png", "x"]), source=st.sampled_from([None, PNG])),
)
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
MESSAGES = st.lists(st.builds(Message, role=ROLES, blocks=st.lists(BLOCKS, max_size=4).map(tuple)), max_size=8)


@WITH_TOOLS
@pytest.mark.req("PROVIDER-3", "TOOLS-2", "LEDGER-2")
@settings(deadline=None)
@given(messages=MESSAGES)
def test_any_conversation_is_taken_and_no_result_is_lost(name: str, messages: list[Message]) -> None:
    written = json.dumps(write(name, say("user", "begin"), *messages, say("user", "go")))
    results = sum(isinstance(block, ToolResultBlock) for message in messages for block in message.blocks)
    assert written.count("sunny") == results
