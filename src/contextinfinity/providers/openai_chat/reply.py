"""Parse a chat completion, whole or streamed, into transcript items.

The order is reasoning, text, calls; all other fields of the message are kept unchanged.

Servers differ in how they stream: some omit or repeat a call's index or id, send a call in one piece, or report usage
in every chunk or in a final one without choices. Only the first choice is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.message import (
    LOGPROBS,
    REFUSAL,
    AssistantItem,
    Json,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
    arguments_of,
)
from contextinfinity.domain.prompt import Abilities, CallPiece, Finished, ReasoningDone, StreamedPiece, TextDelta
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers import wire_values
from contextinfinity.providers.failures import failure_in_stream, garbled
from contextinfinity.providers.openai_chat.request import CALL_EXTRA, REASONING_KEYS

NOT_OF_THE_WHOLE = frozenset({"choices", "object", "obfuscation", "error"})
TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
SHOWN = frozenset({"content", "refusal"})
OF_A_CALL = frozenset({"index", "id", "type", "function"})
OF_A_FUNCTION = frozenset({"name", "arguments"})


class ChatAccumulator:
    """``Accumulator`` for the chunks of a chat completion.

    ``ended`` is True from the chunk with the finish reason. Usage may follow it: the reader continues until ``[DONE]``
    or the end of the stream, and treats a stream that closes before ``ended`` as cut off.
    """

    def __init__(self, vendor: str = "openai_chat") -> None:
        self.ended = False
        self._vendor = vendor
        self._top: dict[str, Json] = {}
        self._texts: dict[str, list[str]] = {}
        self._others: dict[str, Json] = {}
        self._calls = _Calls()
        self._finish: str | None = None
        self._logprobs: dict[str, Json] = {}
        self._next_logprobs: dict[str, Json] = {}
        """Log probabilities that were not shown yet."""
        self._answered = False
        self._has_thought = False

    def feed(self, event: str, data: Json) -> Sequence[StreamedPiece]:
        """Process one chunk and return what it adds; raise ``ProviderError`` for an error chunk."""
        payload = wire_values.dict_of(data)
        if event == "error" or payload.get("object") == "error" or payload.get("error"):
            raise failure_in_stream(self._vendor, payload.get("error") or data)
        self._top.update(
            {key: each for key, each in payload.items() if each is not None and key not in NOT_OF_THE_WHOLE}
        )
        choice = _first_choice(payload)
        if choice is None:
            return ()
        delta = self._delta(choice)
        self._answered = True
        finish = wire_values.text_of(choice.get("finish_reason"))
        if finish:
            self._finish = finish
            self.ended = True
        pieces = self._with_logprobs(self._take_delta(delta), wire_values.dict_of(choice.get("logprobs")))
        return [*self._thought(), *pieces] if pieces else ()

    def assembled(self) -> Json:
        """Return the complete completion."""
        message: dict[str, Json] = {"role": "assistant", "content": None}
        message |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        message |= {key: list(kept) if isinstance(kept, list) else kept for key, kept in self._others.items()}
        calls = self._calls.assembled()
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        choice |= {"logprobs": self._logprobs} if self._logprobs else {}
        return {**self._top, "object": "chat.completion", "choices": [choice] if self._answered else []}

    def _delta(self, choice: dict[str, Json]) -> dict[str, Json]:
        """Return the delta; a server that does not stream sends the whole message once."""
        if isinstance(choice.get("delta"), dict):
            return wire_values.dict_of(choice["delta"])
        return {} if self._answered else wire_values.dict_of(choice.get("message"))

    def _take_delta(self, delta: dict[str, Json]) -> list[StreamedPiece]:
        shown: list[StreamedPiece] = []
        for key, value in delta.items():
            if key == "tool_calls":
                shown += self._calls.feed(value)
            elif key in TEXTS and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
                if value and key in SHOWN:
                    shown.append(TextDelta(text=value))
            elif key == "content" and isinstance(value, list):
                shown += self._take_parts(value)
            elif key != "role" and value is not None:
                self._keep(key, value)
        return shown

    def _with_logprobs(self, pieces: list[StreamedPiece], payload: dict[str, Json]) -> list[StreamedPiece]:
        """Add the log probabilities of a chunk to its first text; some servers send them in a chunk without text."""
        if payload:
            self._logprobs, self._next_logprobs = (
                _joined(self._logprobs, payload),
                _joined(self._next_logprobs, payload),
            )
        for place, piece in enumerate(pieces):
            if isinstance(piece, TextDelta) and self._next_logprobs:
                pieces[place] = replace(piece, logprobs=self._next_logprobs)
                self._next_logprobs = {}
        return pieces

    def _thought(self) -> Sequence[StreamedPiece]:
        """Return the reasoning once, when the first text arrives."""
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        thinking = {key: said for key in REASONING_KEYS if (said := {**self._others, **texts}.get(key))}
        if not thinking or self._has_thought:
            return ()
        self._has_thought = True
        return (ReasoningDone(item=ReasoningItem(raw=thinking)),)

    def _take_parts(self, parts: list[Json]) -> list[TextDelta]:
        texts = [wire_values.text_of(part["text"]) for part in parts if _is_text(part)]
        self._texts.setdefault("content", []).extend(texts)
        others = [part for part in parts if not _is_text(part)]
        if others:
            self._keep("content_parts", others)
        return [TextDelta(text=text) for text in texts if text]

    def _keep(self, key: str, value: Json) -> None:
        """Keep an unknown field: lists are extended, other values replaced."""
        kept = self._others.get(key)
        if isinstance(kept, list) and isinstance(value, list):
            kept.extend(value)
        else:
            self._others[key] = list(value) if isinstance(value, list) else value


def call_extra(payload: dict[str, Json]) -> dict[str, Json]:
    """Return the unknown fields of a call: a server may require them back, as Google does with its signatures."""
    extra = {key: each for key, each in payload.items() if key not in OF_A_CALL and each is not None}
    function = wire_values.dict_of(payload.get("function"))
    inner = {key: each for key, each in function.items() if key not in OF_A_FUNCTION and each is not None}
    return {**extra, "function": inner} if inner else extra


@dataclass
class _StreamedCall:
    index: int | None
    id: str
    name: str
    arguments: list[str]
    extra: dict[str, Json]


class _Calls:
    """The calls of an answer, in the order in which they started."""

    def __init__(self) -> None:
        self._calls: list[_StreamedCall] = []
        self._shown: set[int] = set()

    def feed(self, pieces: Json) -> list[CallPiece]:
        """Process the call pieces of a chunk; return those that can be shown: of calls with id and name."""
        shown: list[CallPiece] = []
        for piece in wire_values.list_of(pieces):
            payload = wire_values.dict_of(piece)
            function = wire_values.dict_of(payload.get("function"))
            index = payload["index"] if type(payload.get("index")) is int else None
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                arguments = "" if arguments is None else msgspec.json.encode(arguments).decode()
            call_id, name = wire_values.text_of(payload.get("id")), wire_values.text_of(function.get("name"))
            place, is_new = self._take(_StreamedCall(index, call_id, name, [arguments], call_extra(payload)))
            if is_new and call_id and name:
                self._shown.add(place)
                shown.append(CallPiece(place=place, call_id=call_id, name=name))
            if arguments and place in self._shown:
                shown.append(CallPiece(place=place, arguments=arguments))
        return shown

    def assembled(self) -> list[Json]:
        """Return the complete calls."""
        return [_whole(call) for call in self._calls]

    def _take(self, piece: _StreamedCall) -> tuple[int, bool]:
        """Add a piece; return the index of its call, and whether that is new."""
        call = self._goes_on_with(piece)
        if call is None:
            self._calls.append(piece)
            return len(self._calls) - 1, True
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        call.arguments += piece.arguments
        inner = {**wire_values.dict_of(call.extra.get("function")), **wire_values.dict_of(piece.extra.get("function"))}
        call.extra |= {**piece.extra, "function": inner} if inner else piece.extra
        return next(place for place, one in enumerate(self._calls) if one is call), False

    def _goes_on_with(self, piece: _StreamedCall) -> _StreamedCall | None:
        """Return the newest call with the piece's index, else with its id, else the newest call.

        Returns None if the piece starts another call, whatever its index: some servers give all calls the same index.
        """
        for call in reversed(self._calls):
            by_id = not piece.id or call.id in ("", piece.id)
            if call.index == piece.index if piece.index is not None else by_id:
                return None if _begins_another(piece, call) else call
        return None


def _joined(before: dict[str, Json], payload: dict[str, Json]) -> dict[str, Json]:
    """Append the lists of one object to those of another."""
    return {
        **before,
        **payload,
        **{key: [*before.get(key, ()), *each] for key, each in payload.items() if _is_list(each)},
    }


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _whole(call: _StreamedCall) -> Json:
    function = {
        "name": call.name,
        "arguments": "".join(call.arguments),
        **wire_values.dict_of(call.extra.get("function")),
    }
    return {**call.extra, "id": call.id, "type": "function", "function": function}


def _begins_another(piece: _StreamedCall, call: _StreamedCall) -> bool:
    """Return whether a piece names a tool because it starts a call, rather than because its server repeats the name."""
    if not piece.name or not call.name:
        return False
    if piece.id and call.id and piece.id != call.id:
        return True
    if piece.index is None and not piece.id:
        return True
    return any(piece.arguments) and isinstance(arguments_of("".join(call.arguments) or "…"), dict)


def _first_choice(payload: dict[str, Json]) -> dict[str, Json] | None:
    for choice in wire_values.list_of(payload.get("choices")):
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return choice
    return None


def _is_text(part: Json) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


KNOWN = frozenset({"role", "content", "refusal", "tool_calls", "annotations", *REASONING_KEYS})
REASONS = {"length": "length", "max_tokens": "length", "content_filter": "filter"}
ALL_SAID = frozenset({"", "stop", "tool_calls", "function_call", "tool_use", "eos", "eos_token", "end_turn"})


def read(whole: Json, abilities: Abilities, vendor: str) -> Finished:
    """Parse a whole completion; raise ``ProviderError`` if it is an error or malformed."""
    completion = wire_values.dict_of(whole)
    choices = wire_values.list_of(completion.get("choices"))
    choice = wire_values.dict_of(choices[0]) if choices else {}
    if not isinstance(choice.get("message"), dict):
        if completion.get("error"):  # some servers send an error with status 200
            raise failure_in_stream(vendor, completion["error"])
        raise garbled(vendor, "the reply holds no message")
    items = wire_values.joined(_items(choice, completion, vendor))
    items = wire_values.with_own_ids(items, wire_values.text_of(completion.get("id")))
    finish = wire_values.text_of(choice.get("finish_reason"))
    return Finished(
        outcome=_outcome(finish, any(isinstance(item, ToolCallItem) for item in items)),
        items=(*items, *wire_values.notes(_notes(completion, finish))),
        usage=_usage(wire_values.dict_of(completion.get("usage")), abilities),
        response=wire_values.compact(whole, vendor),
    )


def _items(choice: dict[str, Json], completion: dict[str, Json], vendor: str) -> Iterator[TranscriptItem]:
    message, logprobs = wire_values.dict_of(choice["message"]), _logprobs(choice)
    thinking = {key: message[key] for key in REASONING_KEYS if message.get(key)}
    if thinking:
        yield ReasoningItem(raw=thinking)
    yield from _words(message.get("content"), (*_annotations(message, completion), *logprobs), vendor)
    if wire_values.text_of(message.get("refusal")):
        marks = (REFUSAL, *(() if message.get("content") else logprobs))
        yield AssistantItem(blocks=(TextBlock(text=message["refusal"], annotations=marks),))
    for call in wire_values.list_of(message.get("tool_calls")):
        yield from _call(call, vendor)
    for key in message:
        if key not in KNOWN and message[key] is not None:
            yield UnknownItem(provider=vendor, raw={key: message[key]})


def _words(content: Json, annotations: tuple[Json, ...], vendor: str) -> Iterator[TranscriptItem]:
    if isinstance(content, str) and content:
        yield AssistantItem(blocks=(TextBlock(text=content, annotations=annotations),))
    for part in wire_values.list_of(content):
        text = wire_values.dict_of(part).get("text")
        if isinstance(text, str) and part.get("type") == "text":
            yield AssistantItem(blocks=(TextBlock(text=text, annotations=annotations),))
        else:
            yield UnknownItem(provider=vendor, raw=part)


def _logprobs(choice: dict[str, Json]) -> tuple[Json, ...]:
    """Return the log probabilities of the tokens as an annotation, if they were requested."""
    raw = wire_values.dict_of(choice.get("logprobs"))
    return ({"type": LOGPROBS, **raw},) if raw else ()


def _annotations(message: dict[str, Json], completion: dict[str, Json]) -> tuple[Json, ...]:
    """Return the sources of an answer; search results in the order of their citation numbers."""
    results = [wire_values.dict_of(result) for result in wire_values.list_of(completion.get("search_results"))]
    titles = {wire_values.text_of(result.get("url")): wire_values.text_of(result.get("title")) for result in results}
    cited = [url for url in wire_values.list_of(completion.get("citations")) if isinstance(url, str)]
    urls = cited or [url for url in titles if url]
    citations = [{"type": "citation", "url": url, "title": titles.get(url, "")} for url in urls]
    return (*wire_values.list_of(message.get("annotations")), *citations)


def _call(call: Json, vendor: str) -> Iterator[TranscriptItem]:
    raw = wire_values.dict_of(call)
    function = wire_values.dict_of(raw.get("function"))
    name = wire_values.text_of(function.get("name"))
    if not name:
        yield UnknownItem(provider=vendor, raw=call)
        return
    extra = call_extra(raw)
    if extra:
        yield UnknownItem(provider=vendor, raw={CALL_EXTRA: extra})
    arguments = arguments_of(function.get("arguments"))
    yield ToolCallItem(call_id=wire_values.text_of(raw.get("id")), name=name, arguments=arguments)


def _outcome(finish: str, calls: bool) -> StepOutcome:
    if finish in REASONS:
        return Incomplete(reason=REASONS[finish])
    if finish not in ALL_SAID:
        return Incomplete(reason=finish)
    return Paused(reason="tool_use") if calls else Completed()


def _notes(completion: dict[str, Json], finish: str) -> Iterator[tuple[str, Json]]:
    yield "response_id", completion.get("id")
    yield "model", completion.get("model")
    yield "stop_reason", finish
    yield "service_tier", completion.get("service_tier")
    yield "system_fingerprint", completion.get("system_fingerprint")


def _usage(raw: dict[str, Json], abilities: Abilities) -> Usage:
    if not raw:
        return Usage()
    details = wire_values.dict_of(raw.get("prompt_tokens_details"))
    return wire_values.usage_of(
        abilities,
        prompt=raw.get("prompt_tokens"),
        answer=raw.get("completion_tokens"),
        cached=details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens"),
        written=details.get("cache_write_tokens"),
    )
