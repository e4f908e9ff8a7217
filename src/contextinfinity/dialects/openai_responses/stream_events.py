"""Write a response as a stream of typed, numbered events.

    response.created, response.in_progress
    for each item: response.output_item.added, its pieces, response.output_item.done
    response.completed, response.incomplete or response.failed

Text and the arguments of functions are streamed as they arrive; everything else is written whole. The same turn always
gives the same events, so that a client can resume after the last number it received.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from contextinfinity.dialects.contract import AnswerView
from contextinfinity.dialects.openai_chat.writing import unbroken
from contextinfinity.dialects.openai_responses import item_ids
from contextinfinity.dialects.openai_responses.items import Item
from contextinfinity.dialects.openai_responses.tools import input_text
from contextinfinity.dialects.openai_responses.writing import (
    ResponseView,
    answer_item,
    ended,
    failed,
    kept_item,
    shell,
    text_part,
)
from contextinfinity.domain.message import Json, ReasoningBlock, TextBlock, ToolUseBlock, UnknownBlock, arguments_of
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem

CALL_EVENTS = {"arguments": "function_call_arguments", "input": "custom_tool_call_input"}
CUSTOM_START = '{"input":"'
_INPUT_START = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_INPUT_TEXT = re.compile(r'(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")

_encode = msgspec.json.Encoder().encode


class ResponseWriter:
    """``SseWriter`` of one response; events up to number ``after`` are skipped."""

    def __init__(self, begun: AnswerView, shown: ResponseView, *, after: int = -1) -> None:
        self._spoken = begun
        self._shown = shown
        self._after = after
        self._number = 0
        self._items: list[Item] = []
        """The output items written so far."""
        self._text: list[str] = []
        """The pieces of the current message."""
        self._logprobs: list[Json] = []
        """The log probabilities of their tokens."""
        self._call: Item | None = None
        self._call_place = 0
        """The call that is being streamed, and its number in the model's answer."""
        self._call_field, self._left_of_input = "arguments", ""
        """The field that holds what it calls its tool with; of a custom tool's input, what cannot be read yet."""

    def begin(self) -> bytes:
        """Write that the response was created."""
        response = shell(self._spoken, self._shown, "in_progress")
        return b"".join(self._event(f"response.{name}", response=response) for name in ("created", "in_progress"))

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text."""
        if not text:
            return b""
        written = b""
        if not self._text:
            begun = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
            written = self._event("response.output_item.added", output_index=self._place, item=self._named(begun))
            written += self._event("response.content_part.added", **self._part("message"), part=text_part(""))
        self._text.append(text)
        fields = (logprobs or {}).get("content") or []
        self._logprobs += fields
        return written + self._event("response.output_text.delta", **self._part("message"), delta=text, logprobs=fields)

    def call(self, piece: CallPiece) -> bytes:
        """Write a piece of a call, after closing the item before it."""
        written = b""
        if piece.name:
            written = self._end_open()
            call = ToolUseBlock(tool_use_id=piece.call_id, name=piece.name, input={})
            item = {**self._shown.tools.call_item(call), "status": "in_progress"}
            self._call_field = "arguments" if item["type"] == "function_call" else "input"
            self._call, self._call_place = self._named({**item, self._call_field: ""}), piece.place
            self._left_of_input = ""
            written += self._event("response.output_item.added", output_index=self._place, item=self._call)
        if self._call is None or piece.place != self._call_place or not piece.arguments:
            return written
        delta = piece.arguments
        if self._call_field == "input":
            delta, self._left_of_input = input_piece(self._left_of_input + delta, is_first=not self._call["input"])
        self._call[self._call_field] += delta
        at = {"item_id": self._call["id"], "output_index": self._place}
        kind = f"response.{CALL_EVENTS[self._call_field]}.delta"
        return written + (self._event(kind, **at, delta=delta) if delta else b"")

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Write reasoning, or what a tool of OpenAI did, after closing the item before it."""
        written = self._end_open()
        return written + b"".join(self._item(self._named(item)) for item in kept_item(block, self._shown))

    def end(self, spoken: AnswerView) -> bytes:
        """Write the remaining items and the whole response."""
        whole = ended(spoken, self._shown)
        written = [self._end_call()]
        for item in whole["output"][self._place :]:
            written.append(self._end_message(item) if self._text else self._item(item))
        calls = {item["id"]: item for item in self._items if item["type"] in ("function_call", "custom_tool_call")}
        whole["output"] = [calls.get(item["id"], item) for item in whole["output"]]  # arguments as they were streamed
        written.append(self._event(f"response.{whole['status']}", response=whole))
        return b"".join(written)

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final failure event."""
        response = failed(self._spoken, self._shown, problem, said)
        response["output"] = list(self._items)
        if self._text:
            response["output"].append(self._named(answer_item([TextBlock(text="".join(self._text))], "incomplete")))
        return self._event("response.failed", response=response)

    def _end_open(self) -> bytes:
        """Write the end of the item that is being streamed."""
        message = self._end_message(answer_item([TextBlock(text="".join(self._text))], "completed"))
        return message + self._end_call()

    def _end_call(self) -> bytes:
        if self._call is None:
            return b""
        item, self._call = {**self._call, "status": "completed"}, None
        field, written = self._call_field, b""
        at = {"item_id": item["id"], "output_index": self._place}
        if field == "input" and not item["input"] and (text := input_text(arguments_of(self._left_of_input))):
            item["input"] = text
            written = self._event(f"response.{CALL_EVENTS[field]}.delta", **at, delta=text)
        fields = {"input": item["input"]} if field == "input" else {"arguments": item["arguments"] or "{}"}
        item |= fields
        named = {} if field == "input" else {"name": item["name"]}
        written += self._event(f"response.{CALL_EVENTS[field]}.done", **at, **fields, **named)
        written += self._event("response.output_item.done", output_index=self._place, item=item)
        self._items.append(item)
        return written

    @property
    def _place(self) -> int:
        return len(self._items)

    def _named(self, item: Item) -> Item:
        return {"id": item_ids.item_id(item["type"], self._spoken.id, item_ids.OUTPUT + self._place), **item}

    def _part(self, kind: str, index: int = 0) -> dict[str, Json]:
        item_id = item_ids.item_id(kind, self._spoken.id, item_ids.OUTPUT + self._place)
        return {"item_id": item_id, "output_index": self._place, "content_index": index}

    def _end_message(self, item: Item) -> bytes:
        """Write the end of the streamed message."""
        if not self._text:
            return b""
        text, self._text = "".join(self._text), []
        logprobs, self._logprobs = self._logprobs, []
        item = item if "id" in item else self._named(item)
        part = next((part for part in item["content"] if part["type"] == "output_text"), text_part(text))
        written = self._event("response.output_text.done", **self._part("message"), text=text, logprobs=logprobs)
        written += self._event("response.content_part.done", **self._part("message"), part=part)
        written += self._event("response.output_item.done", output_index=self._place, item=item)
        self._items.append(item)
        return written

    def _item(self, item: Item) -> bytes:
        """Write a whole item."""
        begun, pieces = _pieces(item)
        written = [self._event("response.output_item.added", output_index=self._place, item={**item, **begun})]
        at = {"item_id": item["id"], "output_index": self._place}
        written += [self._event(f"response.{name}", **at, **fields) for name, fields in pieces]
        written.append(self._event("response.output_item.done", output_index=self._place, item=item))
        self._items.append(item)
        return b"".join(written)

    def _event(self, kind: str, **fields: Json) -> bytes:
        number, self._number = self._number, self._number + 1
        if number <= self._after:
            return b""
        data = _encode({"type": kind, "sequence_number": number, **fields})
        return unbroken(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")


def input_piece(written: str, *, is_first: bool) -> tuple[str, str]:
    """Split the text of a custom tool's input off the JSON arguments that hold it; return it, and what is left.

    ``written`` continues after the last piece. An escape sequence that is cut off is left for the next one.
    """
    if is_first:
        start = _INPUT_START.match(written)
        if start is None:
            return "", written
        written = written[start.end() :]
    whole = _INPUT_TEXT.match(written)
    text = "" if whole is None else whole[0]
    left = written[len(text) :]
    if text and not left.startswith('"') and (high := _HIGH_SURROGATE.search(text)):
        text, left = text[: high.start()], text[high.start() :] + left
    return (msgspec.json.decode(f'"{text}"') if text else "", left if text or not is_first else CUSTOM_START + left)


def _pieces(item: Item) -> tuple[Item, list[tuple[str, Item]]]:
    """Return the fields that are empty when an item starts, and the events that fill them."""
    match item["type"]:
        case "message":
            return {"content": [], "status": "in_progress"}, list(_parts(item["content"]))
        case "function_call":
            written = item["arguments"]
            name = "function_call_arguments"
            fields = [(f"{name}.delta", {"delta": written}), (f"{name}.done", {"arguments": written})]
            return {"arguments": "", "status": "in_progress"}, fields
        case "custom_tool_call":
            written = item["input"]
            name = "custom_tool_call_input"
            fields = [(f"{name}.delta", {"delta": written}), (f"{name}.done", {"input": written})]
            return {"input": "", "status": "in_progress"}, fields
        case "reasoning":
            return {"summary": []}, list(_summaries(item["summary"]))
    return {}, []


def _parts(content: list[Json]) -> Iterator[tuple[str, Item]]:
    for place, part in enumerate(content):
        key = "text" if part["type"] == "output_text" else "refusal"
        name = "output_text" if key == "text" else "refusal"
        more: Item = {"logprobs": part["logprobs"]} if key == "text" else {}
        at = {"content_index": place}
        yield "content_part.added", {**at, "part": {**part, key: ""}}
        if part[key]:
            yield f"{name}.delta", {**at, "delta": part[key], **more}
        yield f"{name}.done", {**at, key: part[key], **more}
        yield "content_part.done", {**at, "part": part}


def _summaries(summary: list[Json]) -> Iterator[tuple[str, Item]]:
    for place, part in enumerate(summary):
        at, text = {"summary_index": place}, str(part.get("text", ""))
        yield "reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
        yield "reasoning_summary_text.delta", {**at, "delta": text}
        yield "reasoning_summary_text.done", {**at, "text": text}
        yield "reasoning_summary_part.done", {**at, "part": part}
