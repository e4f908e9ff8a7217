"""Parse Gemini's reply, streamed or whole, into transcript items.

Every event of a stream is a small reply: its parts are appended, all other fields replace earlier ones. Text, calls and
thoughts keep the order of the reply; every other part is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contextinfinity.domain.message import (
    AssistantItem,
    Json,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
)
from contextinfinity.domain.prompt import Abilities, Finished, TextDelta
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers import wire_values
from contextinfinity.providers.failures import failure_in_stream, garbled
from contextinfinity.providers.gemini.request import PROVIDER, SIGNATURE

COMPLETE = frozenset({"", "STOP", "FINISH_REASON_UNSPECIFIED"})
FILTERED = frozenset(
    [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    ]
)
TEXT_KEYS = frozenset({"text", "thought", SIGNATURE})


class GeminiAccumulator:
    """``Accumulator`` for the events of ``streamGenerateContent?alt=sse``."""

    def __init__(self) -> None:
        self.ended = False
        self._top: dict[str, Json] = {}
        self._candidate: dict[str, Json] = {}
        self._parts: list[dict[str, Json]] = []
        self._texts: list[list[str]] = []  # the pieces of each text part, joined once at the end

    def feed(self, event: str, data: Json) -> Sequence[TextDelta]:
        """Process one event and return the text it adds; raise ``ProviderError`` for an error event."""
        payload = wire_values.dict_of(data)
        if "error" in payload:
            raise failure_in_stream(PROVIDER, payload)
        self._top |= {key: value for key, value in payload.items() if key != "candidates"}
        self.ended = self.ended or _block_reason(payload) != ""
        candidate = _candidate(payload)
        if candidate is None:
            return ()
        self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
        self.ended = self.ended or bool(candidate.get("finishReason"))
        content = wire_values.dict_of(candidate.get("content"))
        return [piece for part in wire_values.list_of(content.get("parts")) for piece in self._take_part(part)]

    def assembled(self) -> Json:
        """Return the complete reply."""
        if not (self._candidate or self._parts):
            return dict(self._top)
        parts = [
            {**part, "text": "".join(pieces)} if isinstance(part.get("text"), str) else part
            for part, pieces in zip(self._parts, self._texts, strict=True)
        ]
        candidate = {**self._candidate, "content": {"role": "model", "parts": parts}}
        return {**self._top, "candidates": [candidate]}

    def _take_part(self, part: Json) -> list[TextDelta]:
        payload = wire_values.dict_of(part)
        text = wire_values.text_of(payload.get("text"))
        if self._continues(payload):
            self._texts[-1].append(text)
            self._parts[-1] |= {key: value for key, value in payload.items() if key != "text"}
        else:
            self._parts.append(dict(payload))
            self._texts.append([text])
        return [TextDelta(text=text)] if text and not payload.get("thought") else []

    def _continues(self, payload: dict[str, Json]) -> bool:
        """Return whether a text continues the last part: both are plain text, and no signature ended that one."""
        if not self._parts or not isinstance(payload.get("text"), str) or not payload.keys() <= TEXT_KEYS:
            return False
        last = self._parts[-1]
        same_kind = bool(last.get("thought")) == bool(payload.get("thought"))
        return isinstance(last.get("text"), str) and last.keys() <= TEXT_KEYS and SIGNATURE not in last and same_kind


def finished(whole: Json, abilities: Abilities) -> Finished:
    """Parse a whole reply; raise ``ProviderError`` if the prompt was blocked or the reply is an error."""
    if isinstance(whole, list):  # without alt=sse, which a proxy may drop, the events arrive as one array
        events = GeminiAccumulator()
        for each in whole:
            events.feed("", each)
        whole = events.assembled()
    payload = wire_values.dict_of(whole)
    if "error" in payload:
        raise failure_in_stream(PROVIDER, payload)
    candidate = _candidate(payload)
    if candidate is None:
        if reason := _block_reason(payload):
            raise failure_in_stream(
                PROVIDER, {"code": "content_filter", "message": f"the prompt was blocked: {reason}"}
            )
        raise garbled(PROVIDER, "the reply has no candidates")
    annotations = tuple(_citations(candidate))
    parts = wire_values.list_of(wire_values.dict_of(candidate.get("content")).get("parts"))
    items = wire_values.joined(item for part in parts for item in _items(part, annotations))
    items = wire_values.with_own_ids(items, wire_values.text_of(payload.get("responseId")))
    calls = any(isinstance(item, ToolCallItem) for item in items)
    return Finished(
        outcome=_outcome(wire_values.text_of(candidate.get("finishReason")), calls=calls),
        items=(*items, *wire_values.notes(_notes(payload, candidate))),
        usage=_usage(wire_values.dict_of(payload.get("usageMetadata")), abilities),
        response=wire_values.compact(whole, PROVIDER),
    )


def _candidate(payload: dict[str, Json]) -> dict[str, Json] | None:
    """Return the first candidate; its index may be left out."""
    found = (each for each in wire_values.list_of(payload.get("candidates")) if isinstance(each, dict))
    return next((each for each in found if each.get("index") in (0, None)), None)


def _block_reason(payload: dict[str, Json]) -> str:
    return wire_values.text_of(wire_values.dict_of(payload.get("promptFeedback")).get("blockReason"))


def _items(part: Json, annotations: tuple[Json, ...]) -> Iterator[TranscriptItem]:
    payload = wire_values.dict_of(part)
    text, call, signature = (
        payload.get("text"),
        wire_values.dict_of(payload.get("functionCall")),
        wire_values.text_of(payload.get(SIGNATURE)),
    )
    if isinstance(text, str) and payload.get("thought"):
        yield ReasoningItem(encrypted_content=signature or None, raw=part)
        return
    is_call = isinstance(call.get("name"), str)
    if signature and (is_call or isinstance(text, str)):
        yield ReasoningItem(encrypted_content=signature, raw={SIGNATURE: signature})
    if is_call:
        arguments = call.get("args")
        yield ToolCallItem(
            call_id=wire_values.text_of(call.get("id")),
            name=call["name"],
            arguments={} if arguments is None else arguments,
        )
    elif isinstance(text, str):
        if text:
            yield AssistantItem(blocks=(TextBlock(text=text, annotations=annotations),))
    else:
        yield UnknownItem(provider=PROVIDER, raw=part)


def _citations(candidate: dict[str, Json]) -> Iterator[Json]:
    """Yield the cited pages: found by a search, or recited."""
    grounding = wire_values.dict_of(candidate.get("groundingMetadata"))
    for chunk in wire_values.list_of(grounding.get("groundingChunks")):
        page = wire_values.dict_of(wire_values.dict_of(chunk).get("web"))
        if url := wire_values.text_of(page.get("uri")):
            yield {"type": "citation", "url": url, "title": wire_values.text_of(page.get("title"))}
    recited = wire_values.dict_of(candidate.get("citationMetadata"))
    for source in wire_values.list_of(recited.get("citationSources")):
        if url := wire_values.text_of(wire_values.dict_of(source).get("uri")):
            yield {"type": "citation", "url": url, "title": ""}


def _outcome(reason: str, *, calls: bool) -> StepOutcome:
    if reason in COMPLETE:
        return Paused(reason="tool_use") if calls else Completed()
    if reason == "MAX_TOKENS":
        return Incomplete(reason="length")
    return Incomplete(reason="filter" if reason in FILTERED else reason.lower())


def _notes(payload: dict[str, Json], candidate: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    yield "response_id", payload.get("responseId")
    yield "model", payload.get("modelVersion")
    yield "stop_reason", candidate.get("finishReason")
    yield "stop_message", candidate.get("finishMessage")


def _usage(payload: dict[str, Json], abilities: Abilities) -> Usage:
    """Add up the tokens: Gemini reports thoughts and the results of its own tools separately."""
    if not payload:
        return Usage()
    prompt, answer = (
        sum(wire_values.count_of(payload.get(name)) for name in names)
        for names in (
            ("promptTokenCount", "toolUsePromptTokenCount"),
            ("candidatesTokenCount", "thoughtsTokenCount"),
        )
    )
    cached = payload.get("cachedContentTokenCount")
    return wire_values.usage_of(abilities, prompt=prompt, answer=answer, cached=cached, written=0)
