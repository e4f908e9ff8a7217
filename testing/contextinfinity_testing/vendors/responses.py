"""OpenAI's Responses: typed output items, and a stream of typed events with a running number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Call, Cite, Trouble, token_logprobs, words
from contextinfinity_testing.vendors.counting import answer_tokens, reported
from contextinfinity_testing.vendors.responses_checks import Issued, check, texts
from contextinfinity_testing.vendors.troubles import openai_error, too_long
from contextinfinity_testing.vendors.troubles import words as worded
from contextinfinity_testing.vendors.wire import (
    BORN,
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

TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
STOPS = {"length": "max_output_tokens", "filter": "content_filter"}
UNKNOWN = "future_item"


class Responses:
    """``Wire`` of POST /v1/responses. It remembers which reasoning belongs to which call."""

    vendor: Vendor = "openai"
    late = True

    def __init__(self) -> None:
        self._issued = Issued()

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        check(body, self._issued)

    def parts(self, body: Json) -> list[Part]:
        """Return tools, instructions and items, in this order, which is the order of the cache."""
        found = [part("system", "", tool) for tool in body.get("tools") or []]
        found = [Part(role="system", said=tool.form.decode(), form=tool.form) for tool in found]
        if body.get("instructions"):
            found.append(part("system", body["instructions"], body["instructions"]))
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        return found + [_part(item) for item in items]

    def room(self, body: Json) -> int | None:
        """Return how many tokens the answer may have."""
        room: int | None = body.get("max_output_tokens")
        return room

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        return too_long(TOO_LONG, "input")

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return the reply in one piece: what a stream ends with."""
        return _Reply(asked, answer, self._issued).whole()

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream."""
        for number, told in enumerate(_Reply(asked, answer, self._issued).events()):
            yield event(told.name, {"type": told.name, "sequence_number": number, **told.data}, piece=told.piece)


class _Told(Struct, frozen=True):
    name: str
    data: dict[str, Any]
    piece: bool = False


class _Reply:
    def __init__(self, asked: Asked, answer: Answer, issued: Issued) -> None:
        self._body = asked.body
        self._answer = answer
        self._usage = _usage(asked, answer)
        self._shell = _shell(asked.body, asked.ids.new("resp_"))
        self._ended = _status(answer)
        self._items = self._written(asked, issued)

    def whole(self) -> Json:
        return {**self._shell, **self._ended, "output": self._items, "usage": self._usage, "completed_at": BORN + 1}

    def events(self) -> Iterator[_Told]:
        yield _Told("response.created", {"response": self._shell})
        yield _Told("response.in_progress", {"response": self._shell})
        error = self._answer.delivery.error
        yield from before_error(self._said(), self._answer.delivery)
        if error is not None:
            yield _Told("error", _error(error))
            yield _Told("response.failed", {"response": self._failed(error)})
        else:
            yield _Told(f"response.{self._ended['status']}", {"response": self.whole()})

    def _said(self) -> Iterator[_Told]:
        for index, item in enumerate(self._items):
            if item["type"] == UNKNOWN:
                yield _Told("response.future.happened", {"output_index": index, "note": "nobody knows this event"})
            yield from _item(index, item, self._answer)

    def _failed(self, error: Trouble) -> Json:
        told = _error(error)["error"]
        failure = {"code": told["code"] or "server_error", "message": told["message"]}
        return {**self._shell, "status": "failed", "error": failure}

    def _written(self, asked: Asked, issued: Issued) -> list[Json]:
        answer, items = self._answer, []
        if answer.reasoning is not None:
            items.append(_reasoning(asked, answer.reasoning))
        items.extend(answer.hosted)
        if answer.delivery.unknown:
            items.append({"id": asked.ids.new("fut_"), "type": UNKNOWN, "payload": {"note": "nobody knows this item"}})
        if answer.said or answer.refusal is not None or not answer.tool_calls:
            items.append(_message(asked, answer, self._ended["status"]))
        items.extend(_call(asked, call) for call in answer.tool_calls)
        known = [item for item in items if item["type"] != UNKNOWN]
        issued.remember(known, is_stored=asked.body.get("store") is not False)
        return items


def _error(trouble: Trouble) -> Json:
    told = worded(Responses(), trouble, "").body or openai_error("The server had an error.", kind="server_error")
    return {"error": told["error"]}


def _part(item: Json) -> Part:
    kind = str(item.get("type", "message"))
    role = item.get("role") or ("tool" if kind.endswith("_output") else "assistant")
    return part({"developer": "system"}.get(role, role), "\n".join(texts(item)), item)


def _shell(body: Json, response_id: str) -> dict[str, Any]:
    asked = body.get("reasoning") or {}
    return {
        "id": response_id,
        "object": "response",
        "created_at": BORN,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": asked.get("effort"), "summary": asked.get("summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, **(body.get("text") or {})},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": [{"strict": True, "description": None, **tool} for tool in body.get("tools") or []],
        "top_logprobs": 0,
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": None,
        "user": body.get("user"),
    }


def _status(answer: Answer) -> dict[str, Any]:
    if answer.stop is None:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": STOPS.get(answer.stop, answer.stop)}}


def _usage(asked: Asked, answer: Answer) -> Json:
    used = reported(asked.tokens, answer.usage)
    output, thought = answer_tokens(answer)
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.written or 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": (used.input or 0) + output,
    }


def _reasoning(asked: Asked, thought: str) -> Json:
    item_id = asked.ids.new("rs_")
    shown = (asked.body.get("reasoning") or {}).get("summary") and thought
    item = {"id": item_id, "type": "reasoning", "summary": [{"type": "summary_text", "text": thought}] if shown else []}
    if "reasoning.encrypted_content" in (asked.body.get("include") or []):
        item["encrypted_content"] = sign(thought, item_id)
    return item


def _message(asked: Asked, answer: Answer, status: str) -> Json:
    content: list[Json] = []
    if answer.said or answer.refusal is None:
        cited = [_citation(cite, answer.said) for cite in answer.citations]
        asks = "message.output_text.logprobs" in (asked.body.get("include") or [])
        logprobs = token_logprobs(answer.said, asked.body.get("top_logprobs") or 0) if asks else []
        content.append({"type": "output_text", "annotations": cited, "logprobs": logprobs, "text": answer.said})
    if answer.refusal is not None:
        content.append({"type": "refusal", "refusal": answer.refusal})
    item_id = asked.ids.new("msg_")
    return {"id": item_id, "type": "message", "status": status, "content": content, "role": "assistant"}


def _citation(cite: Cite, said: str) -> Json:
    place = {"start_index": 0, "end_index": len(said)}
    return {"type": "url_citation", **place, "url": cite.url, "title": cite.title}


def _call(asked: Asked, call: Call) -> Json:
    call_id = call.id or asked.ids.new("call_")
    for tool in asked.body.get("tools") or []:
        if tool["type"] == "custom" and tool["name"] == call.name:
            item = {"id": asked.ids.new("ctc_"), "type": "custom_tool_call", "status": "completed"}
            return {**item, "call_id": call_id, "name": call.name, "input": call.arguments["input"]}
    space, _, name = call.name.rpartition("__")
    offered = {tool["name"] for tool in asked.body.get("tools") or [] if tool["type"] == "namespace"}
    inside = {"name": name, "namespace": space} if space in offered else {"name": call.name}
    return {
        "id": asked.ids.new("fc_"),
        "type": "function_call",
        "status": "completed",
        "arguments": arguments(call.arguments),
        "call_id": call_id,
        **inside,
    }


def _item(index: int, item: Json, answer: Answer) -> Iterator[_Told]:
    begun, inner = {
        "reasoning": ({"summary": []}, _summary),
        "message": ({"content": [], "status": "in_progress"}, _content),
        "function_call": ({"arguments": "", "status": "in_progress"}, _arguments),
        "custom_tool_call": ({"input": "", "status": "in_progress"}, _input),
    }.get(item["type"], ({}, lambda *_: iter(())))
    yield _Told("response.output_item.added", {"output_index": index, "item": {**item, **begun}})
    yield from inner(index, item, answer)
    yield _Told("response.output_item.done", {"output_index": index, "item": item})


def _summary(index: int, item: Json, answer: Answer) -> Iterator[_Told]:
    name = "response.reasoning_summary_"
    for place, shown in enumerate(item["summary"]):
        at = {"item_id": item["id"], "output_index": index, "summary_index": place}
        yield _Told(f"{name}part.added", {**at, "part": {**shown, "text": ""}})
        for piece in words(shown["text"]):
            yield _Told(f"{name}text.delta", {**at, "delta": piece}, True)
        yield _Told(f"{name}text.done", {**at, "text": shown["text"]})
        yield _Told(f"{name}part.done", {**at, "part": shown})


def _content(index: int, item: Json, answer: Answer) -> Iterator[_Told]:
    for place, shown in enumerate(item["content"]):
        at = {"item_id": item["id"], "output_index": index, "content_index": place}
        key = "text" if shown["type"] == "output_text" else "refusal"
        empty = {**shown, key: "", **({"annotations": []} if key == "text" else {})}
        yield _Told("response.content_part.added", {**at, "part": empty})
        yield from _text(at, shown, answer) if key == "text" else _refusal(at, shown)
        yield _Told("response.content_part.done", {**at, "part": shown})


def _text(at: Json, shown: Json, answer: Answer) -> Iterator[_Told]:
    tokens = shown["logprobs"]
    for piece in answer.pieces if answer.pieces is not None else words(answer.text):
        told = [token for token in tokens if answer.pieces is None and token["token"] == piece][:1]
        yield _Told("response.output_text.delta", {**at, "delta": piece, "logprobs": told}, True)
    for place, cite in enumerate(shown["annotations"]):
        yield _Told("response.output_text.annotation.added", {**at, "annotation_index": place, "annotation": cite})
    yield _Told("response.output_text.done", {**at, "text": shown["text"], "logprobs": tokens})


def _refusal(at: Json, shown: Json) -> Iterator[_Told]:
    for piece in words(shown["refusal"]):
        yield _Told("response.refusal.delta", {**at, "delta": piece}, True)
    yield _Told("response.refusal.done", {**at, "refusal": shown["refusal"]})


def _arguments(index: int, item: Json, answer: Answer) -> Iterator[_Told]:
    at = {"item_id": item["id"], "output_index": index}
    for piece in halves(item["arguments"]):
        yield _Told("response.function_call_arguments.delta", {**at, "delta": piece}, True)
    yield _Told("response.function_call_arguments.done", {**at, "arguments": item["arguments"], "name": item["name"]})


def _input(index: int, item: Json, answer: Answer) -> Iterator[_Told]:
    at = {"item_id": item["id"], "output_index": index}
    for piece in halves(item["input"]):
        yield _Told("response.custom_tool_call_input.delta", {**at, "delta": piece}, True)
    yield _Told("response.custom_tool_call_input.done", {**at, "input": item["input"]})
