"""Anthropic's Messages: content blocks by index, thinking with a signature, caching by markers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Call, Trouble, words
from contextinfinity_testing.vendors.counting import answer_tokens, reported
from contextinfinity_testing.vendors.messages_checks import blocks, check, marked, texts
from contextinfinity_testing.vendors.troubles import anthropic_error
from contextinfinity_testing.vendors.troubles import words as worded
from contextinfinity_testing.vendors.wire import (
    Asked,
    Frame,
    Part,
    Refused,
    Vendor,
    arguments,
    before_error,
    event,
    halves,
    part,
    sign,
)

STOPS = {"length": "max_tokens", "filter": "refusal", "pause": "pause_turn"}


class Messages:
    """``Wire`` of POST /v1/messages."""

    vendor: Vendor = "anthropic"
    late = False

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        check(body)

    def parts(self, body: Json) -> list[Part]:
        """Return tools, system blocks and message blocks, in this order, which is the order of the cache."""
        found = [_tool(tool) for tool in body.get("tools") or []]
        found += [part("system", block["text"], block, _marker(block)) for block in blocks(body.get("system") or [])]
        for message in body["messages"]:
            found += [_part(message["role"], block) for block in blocks(message["content"])]
        if body.get("cache_control") and found:
            last = found[-1]
            found[-1] = Part(role=last.role, said=last.said, form=last.form, marker="ephemeral")
        return found

    def room(self, body: Json) -> int | None:
        """Return how many tokens the answer may have."""
        room: int = body["max_tokens"]
        return room

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        said = f"prompt is too long: {trouble.tokens} tokens > {trouble.limit} maximum"
        return Refused(400, anthropic_error("invalid_request_error", said))

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return the reply in one piece."""
        content = list(_content(asked, answer))
        return {**_shell(asked), "content": content, **_stop(answer), "usage": _usage(asked, answer)}

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream."""
        usage = _usage(asked, answer)
        start = {**_shell(asked), "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
        yield _event("message_start", message={**start, "usage": {**usage, "output_tokens": 1}})
        yield from before_error(_blocks(list(_content(asked, answer)), answer), answer.delivery)
        if answer.delivery.error is not None:
            yield event("error", _error(self, answer.delivery.error))
            return
        counted = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        yield _event("message_delta", delta=_stop(answer), usage={key: usage[key] for key in counted})
        yield _event("message_stop")


def _event(kind: str, *, piece: bool = False, **fields: Json) -> Frame:
    return event(kind, {"type": kind, **fields}, piece=piece)


def _error(wire: Messages, trouble: Trouble) -> Json:
    return worded(wire, trouble, "").body or anthropic_error("api_error", "Internal server error")


def _marker(block: Json) -> str | None:
    marker = block.get("cache_control")
    return None if marker is None else str(marker.get("ttl", "5m"))


def _tool(tool: Json) -> Part:
    made = part("system", "", tool, _marker(tool))
    return Part(role=made.role, said=made.form.decode(), form=made.form, marker=made.marker)


def _part(role: str, block: Json) -> Part:
    by = "tool" if block["type"] == "tool_result" else role
    return part(by, "\n".join(texts(block)), block, _marker(block))


def _shell(asked: Asked) -> dict[str, Any]:
    return {"id": asked.ids.new("msg_"), "type": "message", "role": "assistant", "model": asked.body["model"]}


def _stop(answer: Answer) -> dict[str, Any]:
    reason = "tool_use" if answer.tool_calls else "end_turn"
    if answer.stopped_by is not None:
        reason = "stop_sequence"
    elif answer.refusal is not None:
        reason = "refusal"
    elif answer.stop is not None:
        reason = STOPS.get(answer.stop, answer.stop)
    why = None
    if reason == "refusal":
        why = {"type": "refusal", "category": None, "explanation": answer.refusal}
    return {"stop_reason": reason, "stop_sequence": answer.stopped_by, "stop_details": why}


def _usage(asked: Asked, answer: Answer) -> dict[str, Any]:
    used = reported(asked.tokens, answer.usage)
    read, written = used.cached or 0, used.written or 0
    hour = written if any(_marker(value) == "1h" for value in marked(asked.body)) else 0
    output, thought = answer_tokens(answer)
    usage = {
        "input_tokens": max(0, (used.input or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour},
        "output_tokens": output,
        "service_tier": "standard",
    }
    return {**usage, "output_tokens_details": {"thinking_tokens": thought}} if thought else usage


def _content(asked: Asked, answer: Answer) -> Iterator[Json]:
    thinking = asked.body.get("thinking") or {}
    if answer.reasoning is not None and thinking.get("type") != "disabled":
        shown = "" if thinking.get("display") == "omitted" else answer.reasoning
        signed = {"type": "thinking", "thinking": shown, "signature": sign(answer.reasoning)}
        yield {"type": "redacted_thinking", "data": sign(answer.reasoning)} if answer.redacted else signed
    yield from answer.hosted
    if answer.delivery.unknown:
        yield {"type": "future_block", "note": "nobody knows this block"}
    if answer.said:
        yield {"type": "text", "text": answer.said}
    for call in answer.tool_calls:
        yield _call(asked, call)


def _call(asked: Asked, call: Call) -> Json:
    return {"type": "tool_use", "id": call.id or asked.ids.new("toolu_"), "name": call.name, "input": call.arguments}


def _blocks(content: Sequence[Json], answer: Answer) -> Iterator[Frame]:
    for index, block in enumerate(content):
        yield _event("content_block_start", index=index, content_block=_begun(block))
        if index == 0:
            yield _event("ping")
        if block["type"] == "future_block":
            yield _event("future_event", note="nobody knows this event")
        for delta in _deltas(block, answer):
            yield _event("content_block_delta", piece=delta["type"] != "signature_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)


def _begun(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
    return block


def _deltas(block: Json, answer: Answer) -> Iterator[Json]:
    match block["type"]:
        case "text":
            for piece in answer.pieces if answer.pieces is not None else words(answer.text):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            for piece in words(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            for piece in ["", *halves(arguments(block["input"]))]:
                yield {"type": "input_json_delta", "partial_json": piece}
