"""Write turns as responses for OpenAI's clients: whole, or as a stream of typed, numbered events.

    response.created, response.in_progress
    for each item: response.output_item.added, its pieces, response.output_item.done
    response.completed, response.incomplete or response.failed

Text and the arguments of functions are streamed as they arrive; everything else is written whole. The same turn always
gives the same events, so that a client can resume after the last number it received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from contextinfinity.dialects.contract import AnswerView, Stop
from contextinfinity.dialects.openai_chat.writing import CODES, unbroken
from contextinfinity.dialects.openai_responses import items
from contextinfinity.dialects.openai_responses.items import (
    OUTPUT,
    VENDOR,
    Item,
    ToolNames,
    input_text,
    item_id,
    response_id,
    sealed,
)
from contextinfinity.dialects.openai_responses.reading import DEVELOPER, LAYOUT
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import (
    LOGPROBS,
    REFUSAL,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    arguments_of,
    own_text,
)
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem, Usage

HIDDEN = (LAYOUT, DEVELOPER, "model", "conversation")
"""Stored fields that the response does not show as parameters."""
CUT_SHORT: dict[Stop, str] = {"length": "max_output_tokens", "filter": "content_filter"}
DEFAULTS: dict[str, Json] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The values of parameters that were not sent."""


class ResponseView(Struct, frozen=True, kw_only=True):
    """Parameters of a request that its response repeats, and the options of its output."""

    echo: dict[str, Json]
    tools: ToolNames
    encrypted: bool = False

    @property
    def summarised(self) -> bool:
        """Whether reasoning is shown as a summary."""
        return bool((self.echo.get("reasoning") or {}).get("summary"))


def shell(spoken: AnswerView, shown: ResponseView, status: str) -> dict[str, Json]:
    """Write a response without its output."""
    named = {name: value for name, value in shown.echo.items() if name not in HIDDEN}
    text = {**DEFAULTS["text"], **(named.get("text") or {})}
    written = {
        "id": response_id(spoken.id),
        "object": "response",
        "created_at": int(spoken.created_at.timestamp()),
        "status": status,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": spoken.model,
        "output": [],
        "usage": None,
        **DEFAULTS,
        **named,
        "text": text,
    }
    if "conversation" in shown.echo:
        written["conversation"] = shown.echo["conversation"]
    return written


def ended(spoken: AnswerView, shown: ResponseView) -> dict[str, Json]:
    """Write the response of an answered turn."""
    reason = CUT_SHORT.get(spoken.stop)
    status = "completed" if reason is None else "incomplete"
    return {
        **shell(spoken, shown, status),
        "completed_at": None if spoken.ended_at is None else int(spoken.ended_at.timestamp()),
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": output_items(spoken, shown, status),
        "usage": usage(spoken.usage),
    }


def failed(spoken: AnswerView, shown: ResponseView, problem: Problem, said: Mapping[str, Json]) -> dict[str, Json]:
    """Write the response of a failed or cancelled turn, with the part of the answer that was shown."""
    is_cancelled = problem.code == "cancelled"
    return {
        **shell(spoken, shown, "cancelled" if is_cancelled else "failed"),
        "error": None if is_cancelled else error_of(problem, said),
        "output": output_items(spoken, shown, "incomplete"),
    }


def error_of(problem: Problem, said: Mapping[str, Json]) -> Json:
    """Write the error of a response; ``said`` has the fields that the vendor would write."""
    code = said.get("code") or CODES.get(problem.code, "server_error")
    return {"code": code, "message": said.get("message") or f"{problem.message} {problem.hint}".rstrip()}


def output_items(spoken: AnswerView, shown: ResponseView, status: str = "completed") -> list[Item]:
    """Write the output: reasoning, text as one message, calls."""
    return [
        {"id": item_id(item["type"], spoken.id, OUTPUT + place), **item}
        for place, item in enumerate(_output(spoken.blocks, shown, status))
    ]


def _output(said: Sequence[ContentBlock], shown: ResponseView, status: str) -> Iterator[Item]:
    """Yield reasoning and text in order, then the calls: the same order as in a stream."""
    calls = [block for block in said if isinstance(block, ToolUseBlock)]
    words, is_empty = list[TextBlock](), not calls
    for block in said:
        if isinstance(block, TextBlock):
            words.append(block)
        elif isinstance(block, ReasoningBlock | UnknownBlock):
            if words:
                yield answer_item(words, status)
            yield from kept_item(block, shown)
            words, is_empty = [], is_empty and not words
    if words or is_empty:
        yield answer_item(words, status)
    for call in calls:
        yield {**shown.tools.call_item(call), "status": status}


def kept_item(block: ReasoningBlock | UnknownBlock, shown: ResponseView) -> Iterator[Item]:
    """Write reasoning, or what a tool of OpenAI did, with its own id."""
    if isinstance(block, ReasoningBlock):
        yield _reasoning_item(block, shown)
    elif block.provider == VENDOR and isinstance(block.raw, dict) and isinstance(block.raw.get("id"), str):
        yield block.raw


def _reasoning_item(block: ReasoningBlock, shown: ResponseView) -> Item:
    """Write a reasoning item: its summary, and the content that must be sent back."""
    item: Item = {"type": "reasoning", "summary": []}
    raw = block.raw if isinstance(block.raw, dict) else {}
    if raw.get("type") == "reasoning" and isinstance(raw.get("summary"), list):
        item["summary"] = raw["summary"]
    elif shown.summarised and (text := _thought(block, raw)):
        item["summary"] = [{"type": "summary_text", "text": text}]
    if shown.encrypted and (kept := sealed(block)) is not None:
        item["encrypted_content"] = kept
    return item


def _thought(block: ReasoningBlock, raw: Item) -> str:
    described = block.summary or raw.get("thinking") or raw.get("text")
    return described if isinstance(described, str) else ""


def answer_item(words: Sequence[TextBlock], status: str) -> Item:
    """Write the text of an answer as one message."""
    item: Item = {"type": "message", "role": "assistant", "status": status, "content": list(_parts(words))}
    phases = {mark.get("phase") for block in words for mark in block.annotations if _is_phase(mark)}
    return {**item, "phase": phases.pop()} if len(phases) == 1 else item


def _parts(words: Iterable[TextBlock]) -> Iterator[Json]:
    """Yield the answer as one text part and the refusal as another."""
    said = [block for block in words if REFUSAL not in block.annotations]
    declined = "".join(block.text for block in words if REFUSAL in block.annotations)
    if said or not declined:
        cited = [mark for block in said for mark in block.annotations if _is_citation(mark)]
        yield text_part("".join(block.text for block in said), cited, list(_logprobs(said)))
    if declined:
        yield {"type": "refusal", "refusal": declined}


def text_part(text: str, annotations: Sequence[Json] = (), logprobs: Sequence[Json] = ()) -> Item:
    """Write a text part of a message."""
    return {"type": "output_text", "annotations": list(annotations), "logprobs": list(logprobs), "text": text}


def _logprobs(words: Iterable[TextBlock]) -> Iterator[Json]:
    for mark in (mark for block in words for mark in block.annotations if isinstance(mark, dict)):
        if mark.get("type") == LOGPROBS:
            yield from mark.get("content") or ()


def _is_phase(mark: Json) -> bool:
    return isinstance(mark, dict) and mark.get("type") == "phase"


def _is_citation(mark: Json) -> bool:
    kinds = ("file_citation", "url_citation", "container_file_citation", "file_path")
    return isinstance(mark, dict) and mark.get("type") in kinds


def input_items(turn_id: TurnId, message: Message, layout: Json) -> list[Item]:
    """Write the message of a turn as its original items, which ``layout`` describes."""
    items, left = list[Item](), list(message.blocks) if message.role in ("user", "tool") else []
    for kind, described in _known(layout):
        if isinstance(described, str):
            items.append(_said(kind, [{"type": "input_text", "text": described}]))
        else:
            blocks, left = left[:described], left[described:]
            items.extend(_brought(kind, blocks))
    if left:
        items.extend(_brought("message", left))
    if message.role == "assistant":
        items.extend(_output(message.blocks, ResponseView(echo={}, tools=ToolNames()), "completed"))
    elif message.role == "system" and not items:
        items.append(_said("system", [{"type": "input_text", "text": message.rendered_text}]))
    return [{"id": item_id(item["type"], turn_id, place), **item} for place, item in enumerate(items)]


def _known(layout: Json) -> list[tuple[str, str | int]]:
    """Parse a layout; an invalid one is treated as empty."""
    try:
        return msgspec.convert(layout, list[tuple[str, str | int]])
    except msgspec.ValidationError:
        return []


def _brought(kind: str, blocks: Sequence[ContentBlock]) -> Iterator[Item]:
    parts = [part for block in blocks for part in _content(block)]
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield {
                "type": kind if kind != "message" else "function_call_output",
                "call_id": block.tool_use_id,
                "output": _output_text(block),
                "status": "completed",
            }
    if parts or not blocks:
        yield _said("user", parts)


def _said(role: str, parts: list[Json]) -> Item:
    return {"type": "message", "role": role, "status": "completed", "content": parts}


def _content(block: ContentBlock) -> Iterator[Json]:
    match block:
        case TextBlock():
            yield {"type": "input_text", "text": own_text(block)}
        case ImageBlock():
            source = block.source if isinstance(block.source, dict) else {}
            url = source.get("url")
            detail = source.get("detail", "auto")
            if source.get("type") == "base64":
                url = f"data:{block.media_type};base64,{source.get('data')}"
            yield {"type": "input_image", "image_url": url, "detail": detail, "file_id": None}
        case UnknownBlock() if block.provider == VENDOR:
            yield block.raw


def _output_text(result: ToolResultBlock) -> Json:
    parts = [part for block in result.content for part in _content(block)]
    if all(part.get("type") == "input_text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def usage(used: Usage) -> Json:
    """Write the usage."""
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input_tokens + used.output_tokens,
    }


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
        return {"id": items.item_id(item["type"], self._spoken.id, items.OUTPUT + self._place), **item}

    def _part(self, kind: str, index: int = 0) -> dict[str, Json]:
        item_id = items.item_id(kind, self._spoken.id, items.OUTPUT + self._place)
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
            return {"content": [], "status": "in_progress"}, list(_streamed_parts(item["content"]))
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


def _streamed_parts(content: list[Json]) -> Iterator[tuple[str, Item]]:
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
