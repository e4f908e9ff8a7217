"""Write responses and the items of turns for OpenAI's clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from contextinfinity.dialects.contract import AnswerView, Stop
from contextinfinity.dialects.openai_chat.writing import CODES
from contextinfinity.dialects.openai_responses import item_ids
from contextinfinity.dialects.openai_responses.items import VENDOR, Item, sealed
from contextinfinity.dialects.openai_responses.reading import DEVELOPER, LAYOUT
from contextinfinity.dialects.openai_responses.tools import ToolNames
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
    own_text,
)
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
        "id": item_ids.response_id(spoken.id),
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
        {"id": item_ids.item_id(item["type"], spoken.id, item_ids.OUTPUT + place), **item}
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
    return [{"id": item_ids.item_id(item["type"], turn_id, place), **item} for place, item in enumerate(items)]


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
