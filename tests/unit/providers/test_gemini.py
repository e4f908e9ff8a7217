"""The Gemini wire: contents, signatures, options, replies in pieces and whole, blocked prompts, errors."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain.message import (
    AssistantItem,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolResultBlock,
    ToolUseBlock,
    UnknownItem,
    blocks_of,
    say,
)
from contextinfinity.domain.prompt import (
    Abilities,
    Finished,
    Prompt,
    ProviderRequest,
    RequestOptions,
    TextDelta,
    ToolSpec,
)
from contextinfinity.domain.turn import Completed, Incomplete, Paused
from contextinfinity.errors import ProviderError
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.failures import failure
from contextinfinity.providers.gemini import GeminiWire
from contextinfinity.providers.gemini.request import NO_SIGNATURE
from contextinfinity.text.tokens.images import rule_of
from contextinfinity_testing.vendors import gemini_checks

WIRE = GeminiWire()
NEW, OLD = "gemini-3-flash-preview", "gemini-2.5-flash"
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {"at": {}}})
WAIT = ToolSpec(name="wait", description="Wait.", parameters={"type": "object", "properties": {}})


def body(*messages: Message, model: str = NEW, options: Json = None, **more: Any) -> dict[str, Any]:
    """Write a request, and let the fake check it."""
    prompt = Prompt(**{"system": ("Be kind.", "Pins."), "messages": messages, "tools": (LOOK,), **more})
    request = ProviderRequest(model_id=model, prompt=prompt, max_output_tokens=100, options=options)
    written: dict[str, Any] = json.loads(json.dumps(WIRE.write(request, abilities_of("gemini", model))))
    gemini_checks.check(written, model)
    return written


def said(role: Any, *blocks: Any) -> Message:
    return Message(role=role, blocks=blocks)


def call(call_id: str) -> ToolUseBlock:
    return ToolUseBlock(tool_use_id=call_id, name="look", input={"at": "sky"})


def result(call_id: str, *content: Any, is_error: bool = False) -> Message:
    inside = content or (TextBlock(text="blue"),)
    return said("tool", ToolResultBlock(tool_use_id=call_id, content=inside, is_error=is_error))


def streamed(*events: Json) -> tuple[str, Finished]:
    """Read a reply in pieces; return the text shown, and the whole."""
    reply = WIRE.accumulate()
    pieces = [piece for event in events for piece in reply.feed("", event)]
    shown = "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))
    return shown, WIRE.read(reply.assembled(), Abilities())


def event(*parts: Json, **candidate: Json) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}]}


# --- requests


@pytest.mark.req("PROVIDER-1", "PROVIDER-3")
def test_a_conversation_alternates_and_the_system_texts_stand_apart() -> None:
    written = body(say("user", "one"), say("user", "two"), say("assistant", "three"), say("system", "four"))
    assert written["systemInstruction"] == {"parts": [{"text": "Be kind."}, {"text": "Pins."}]}
    assert written["contents"] == [
        {"role": "user", "parts": [{"text": "one"}, {"text": "two"}]},
        {"role": "model", "parts": [{"text": "three"}]},
        {"role": "user", "parts": [{"text": "four"}]},
    ]
    assert "model" not in written
    assert WIRE.path("tunedModels/mine") == "/tunedModels/mine:streamGenerateContent?alt=sse"
    assert WIRE.path("a b?c") == "/models/a%20b%3Fc:streamGenerateContent?alt=sse"


@pytest.mark.req("TOOLS-2")
def test_results_come_first_and_together() -> None:
    written = body(
        say("user", "look"),
        said("assistant", TextBlock(text="Yes."), call("a"), call("b")),
        result("b", TextBlock(text="grey"), is_error=True),
        result("a", ImageBlock(media_type="image/png", source={"type": "base64", "data": "aGk="})),
        say("user", "and?"),
    )
    *_, calls, results = written["contents"]
    assert [part["functionCall"]["id"] for part in calls["parts"][1:]] == ["a", "b"]
    assert results["parts"] == [
        {"functionResponse": {"id": "a", "name": "look", "response": {"output": ""}}},
        {"functionResponse": {"id": "b", "name": "look", "response": {"error": "grey"}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "and?"},
    ]


@pytest.mark.req("PROVIDER-5")
def test_a_signature_goes_back_in_the_part_it_came_with() -> None:
    signed = ReasoningBlock(encrypted_content="c2lnbg==", raw={"thoughtSignature": "c2lnbg=="})
    thought = ReasoningBlock(raw={"text": "Hm.", "thought": True})
    running = (say("user", "look"), said("assistant", thought, signed, call("a"), call("b")))
    _, answer, _ = body(*running, result("a"), result("b"))["contents"]
    assert ["thoughtSignature" in part for part in answer["parts"]] == [True, False]
    _, answer, _ = body(say("user", "x"), said("assistant", signed, TextBlock(text="y")), say("user", "z"))["contents"]
    assert answer["parts"] == [{"text": "y", "thoughtSignature": "c2lnbg=="}]


@pytest.mark.req("PROVIDER-3", "PROVIDER-5")
def test_calls_that_another_model_made_are_sent_without_a_signature_where_one_is_demanded() -> None:
    loop = (say("user", "look"), said("assistant", call("a"), call("b")), result("a"), result("b"))
    (_, answer, _) = body(*loop)["contents"]
    assert [part.get("thoughtSignature") for part in answer["parts"]] == [NO_SIGNATURE, None]
    assert NO_SIGNATURE not in json.dumps(body(*loop, model=OLD)), "older models demand none"
    assert NO_SIGNATURE not in json.dumps(body(*loop, say("user", "thanks"))), "nor is one needed for earlier turns"


def test_pictures_that_gemini_does_not_take_are_named() -> None:
    gif = ImageBlock(media_type="image/gif", source={"type": "base64", "data": "aGk="})
    assert "[an image" in json.dumps(body(said("user", gif)))


def test_a_tool_without_arguments_and_an_answer_by_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    written = body(say("user", "x"), tools=(LOOK, WAIT), response_format=schema)
    look, wait = written["tools"][0]["functionDeclarations"]
    assert ("parametersJsonSchema" in look, "parametersJsonSchema" in wait) == (True, False)
    config = written["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", schema)


@pytest.mark.req("PROVIDER-8")
def test_options_reach_their_place_and_lower_the_limit() -> None:
    options = {"temperature": 0.5, "generationConfig": {"topK": 3, "maxOutputTokens": 50}, "safetySettings": []}
    written = body(say("user", "x"), options=options)
    assert written["generationConfig"] == {"maxOutputTokens": 50, "topK": 3, "temperature": 0.5}
    assert written["safetySettings"] == []
    assert body(say("user", "x"), options={"maxOutputTokens": 900})["generationConfig"] == {"maxOutputTokens": 100}
    for name in ("contents", "cachedContent", "tools", "model"):
        with pytest.raises(ProviderError, match=name):
            body(say("user", "x"), options={name: "mine"})


@pytest.mark.parametrize(
    ("model", "request_options", "thinking"),
    [
        (NEW, {"effort": "high"}, {"thinkingLevel": "high"}),
        (NEW, {"effort": "none"}, {"thinkingLevel": "minimal"}),
        (NEW, {"effort": "max"}, {"thinkingLevel": "high"}),
        ("gemini-3-pro-preview", {"effort": "minimal"}, {"thinkingLevel": "low"}),
        (OLD, {"effort": "none"}, {"thinkingBudget": 0}),
        (OLD, {"thinking_tokens": 3000}, {"thinkingBudget": 3000}),
        ("gemini-2.5-pro", {"effort": "none"}, {"thinkingBudget": 512}),
        ("gemini-2.0-flash", {"effort": "high"}, None),
    ],
)
def test_how_much_to_think_is_told_as_each_model_takes_it(model: str, request_options: Any, thinking: Json) -> None:
    options, left_out = WIRE.convert_options(RequestOptions(**request_options), abilities_of("gemini", model))
    assert options.get("thinkingConfig") == thinking
    assert bool(left_out) == (thinking is None)
    body(say("user", "x"), model=model, options=options)


def test_other_wishes_are_met_or_named() -> None:
    able = abilities_of("gemini", NEW)
    request_options = RequestOptions(tool_choice=":look", parallel_tools=False, stop=tuple("abcdef"), seed=1, top_p=0.5)
    request_options = replace(request_options, effort="low", reasoning_summary="auto")
    options, left_out = WIRE.convert_options(request_options, able)
    assert options["thinkingConfig"] == {"thinkingLevel": "low", "includeThoughts": True}
    calling = {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert options["toolConfig"] == {"functionCallingConfig": calling}
    assert (options["stopSequences"], options["seed"], options["topP"]) == (list("abcde"), 1, 0.5)
    assert set(left_out) == {"parallel_tools", "stop"}
    assert "toolConfig" in body(say("user", "x"), options=options)
    assert "toolConfig" not in body(say("user", "x"), options=options, tools=())


# --- replies


@pytest.mark.req("PROVIDER-1", "PROVIDER-2")
def test_pieces_are_put_together() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "cachedContentTokenCount": 5}
    shown, finished = streamed(
        event({"text": "Let me ", "thought": True}),
        event({"text": "see.", "thought": True}),
        event({"text": "One "}),
        event({"text": "two"}, {"text": ".", "thoughtSignature": "c2ln"}),
        {**event({"text": ""}, finishReason="STOP"), "usageMetadata": usage, "modelVersion": NEW, "responseId": "r"},
    )
    thought, *answer = [item for item in finished.items if not isinstance(item, UnknownItem)]
    assert (shown, finished.outcome) == ("One two.", Completed())
    assert isinstance(thought, ReasoningItem)
    assert thought.raw == {"text": "Let me see.", "thought": True}
    assert "".join(block.text for block in blocks_of(answer) if isinstance(block, TextBlock)) == "One two."
    assert (finished.usage.input_tokens, finished.usage.output_tokens, finished.usage.cached_tokens) == (9, 7, 5)


@pytest.mark.req("TOOLS-2", "PROVIDER-5")
def test_calls_keep_their_signature_and_get_an_id() -> None:
    first = {"functionCall": {"name": "look", "args": {"at": "sky"}}, "thoughtSignature": "c2ln"}
    _, finished = streamed(event(first), event({"functionCall": {"name": "look"}}, finishReason="STOP"))
    signature, one, two = finished.items[:3]
    assert finished.outcome == Paused(reason="tool_use")
    assert signature == ReasoningItem(encrypted_content="c2ln", raw={"thoughtSignature": "c2ln"})
    assert isinstance(one, ToolCallItem)
    assert isinstance(two, ToolCallItem)
    assert (one.arguments, two.arguments) == ({"at": "sky"}, {})
    assert one.call_id
    assert one.call_id != two.call_id


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("MAX_TOKENS", Incomplete(reason="length")),
        ("SAFETY", Incomplete(reason="filter")),
        ("RECITATION", Incomplete(reason="filter")),
        ("MALFORMED_FUNCTION_CALL", Incomplete(reason="malformed_function_call")),
        ("STOP", Completed()),
    ],
)
def test_why_an_answer_ended_is_told(reason: str, outcome: Any) -> None:
    assert streamed(event({"text": "Half"}, finishReason=reason))[1].outcome == outcome


def test_a_stream_that_comes_as_one_array_is_read_too() -> None:
    whole = [event({"text": "One "}), event({"text": "two."}, finishReason="STOP")]
    assert WIRE.read(whole, Abilities()) == streamed(*whole)[1]
    with pytest.raises(ProviderError) as caught:
        WIRE.read([{"error": {"code": 503, "status": "UNAVAILABLE"}}], Abilities())
    assert caught.value.kind == "overloaded"


def test_a_blocked_prompt_is_a_failure_of_the_filter() -> None:
    reply = WIRE.accumulate()
    reply.feed("", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert reply.ended
    with pytest.raises(ProviderError, match="PROHIBITED_CONTENT") as caught:
        WIRE.read(reply.assembled(), Abilities())
    assert (caught.value.kind, caught.value.retryable) == ("filter", False)


def test_other_parts_are_kept_and_sources_named() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    sources = {"groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}]}
    finished = streamed(event(code, {"text": "1"}, finishReason="STOP", groundingMetadata=sources))[1]
    assert UnknownItem(provider="gemini", raw=code) in finished.items
    (words,) = [item for item in finished.items if isinstance(item, AssistantItem)]
    assert isinstance(words.blocks[0], TextBlock)
    assert words.blocks[0].annotations == ({"type": "citation", "url": "https://a.example", "title": "A"},)


NAMES = "candidates content parts text thought functionCall name args finishReason promptFeedback blockReason error"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "STOP", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(VALUES, max_size=4))
def test_any_reply_is_read_or_refused_in_words(events: list[Json]) -> None:
    with suppress(ProviderError):
        streamed(*events)


# --- errors and figures


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}, "authentication"),
        (403, {"status": "PERMISSION_DENIED"}, "authentication"),
        (429, {"status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota."}, "rate_limit"),
        (429, {"status": "RESOURCE_EXHAUSTED", "message": "Your prepayment credits are depleted."}, "quota"),
        (503, {"status": "UNAVAILABLE"}, "overloaded"),
        (504, {"status": "DEADLINE_EXCEEDED"}, "time_out"),
        (500, {"status": "INTERNAL"}, "server"),
        (404, {"status": "NOT_FOUND"}, "not_found"),
    ],
)
def test_failures_are_told_apart(status: int, error: dict[str, Json], kind: str) -> None:
    assert failure("gemini", status, {"error": {"code": status, **error}}).kind == kind


def test_the_wait_and_the_window_are_read_from_the_error() -> None:
    details = [{"@type": "google.rpc.Help"}, {"@type": "google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    limited = failure("gemini", 429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}})
    assert limited.retry_after == 34.5
    said = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    size = failure("gemini", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": said}})
    assert (size.kind, size.window) == ("size", 1_048_576)


def test_pictures_are_counted_as_google_does() -> None:
    old, new = rule_of("gemini", OLD), rule_of("gemini", NEW)
    assert [old.tokens(size, False) for size in ((384, 384), (1024, 1024), (769, 100))] == [258, 4 * 258, 2 * 258]
    assert new.tokens((4000, 3000), False) == 1120
