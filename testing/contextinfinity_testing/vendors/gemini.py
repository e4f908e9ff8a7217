"""Google's ``generateContent`` and ``streamGenerateContent?alt=sse``: parts, thought signatures, safety blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Trouble, words
from contextinfinity_testing.vendors.counting import answer_tokens, reported
from contextinfinity_testing.vendors.gemini_checks import SKIPPED, check, gemini_error
from contextinfinity_testing.vendors.wire import (
    Asked,
    Frame,
    Part,
    Refused,
    Request,
    Vendor,
    before_error,
    event,
    part,
    sign,
    unsealed,
)

STOPS = {"length": "MAX_TOKENS", "filter": "SAFETY"}
OF_USERS = frozenset({"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"})
"""Fields that hold names of the user's, which stay as they are."""
METHOD = re.compile(r"/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)$")


def with_path(request: Request) -> dict[str, Any] | None:
    """Return a body together with what the path says: its model, and whether it streams; None for another path."""
    path, _, query = request.path.partition("?")
    found = METHOD.search(path)
    if found is None:
        return None
    streams = found["method"] == "streamGenerateContent"
    if streams and "alt=sse" not in query.split("&"):
        return None  # the array of replies that it would be then is not spoken here
    body = _camel(request.body) if isinstance(request.body, dict) else {}
    config = body.get("generationConfig")
    stops = config.get("stopSequences", []) if isinstance(config, dict) else []
    return {**body, "model": found["model"], "stream": streams, "stop_sequences": stops}


def _camel(value: Json) -> Any:
    """Convert names to camelCase as in the documentation; Google accepts ``snake_case`` too."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): each for key, each in value.items()}
    return {key: each if key in OF_USERS else _camel(each) for key, each in named.items()}


class Gemini:
    """``Wire`` of POST /v1beta/models/…:generateContent. Bodies here carry what the path says besides."""

    vendor: Vendor = "gemini"
    late = False

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        sent = {key: value for key, value in body.items() if key not in ("model", "stream", "stop_sequences")}
        check(sent, body.get("model", ""))
        for content in sent["contents"]:
            for each in content["parts"]:
                signature = each.get("thoughtSignature")
                if signature is not None and signature not in SKIPPED and unsealed(signature) is None:
                    raise Refused(400, gemini_error(400, "INVALID_ARGUMENT", "Corrupted thought signature."))

    def parts(self, body: Json) -> list[Part]:
        """Return tools, the system instruction and the parts of all contents, in this order."""
        found = [part("system", str(tool), tool) for tool in body.get("tools", [])]
        instruction = body.get("systemInstruction", {"parts": []})
        found += [part("system", each["text"], each) for each in instruction["parts"]]
        for content in body["contents"]:
            role = "user" if content["role"] == "user" else "assistant"
            found += [
                part("tool" if "functionResponse" in each else role, _text(each), each) for each in content["parts"]
            ]
        return found

    def room(self, body: Json) -> int | None:
        """Return how many tokens the answer may have."""
        room: int | None = body.get("generationConfig", {}).get("maxOutputTokens")
        return room

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        said = (
            f"The input token count ({trouble.tokens}) exceeds the maximum number of tokens allowed ({trouble.limit})."
        )
        return Refused(400, gemini_error(400, "INVALID_ARGUMENT", said))

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return the reply in one piece."""
        return {**_reply(asked, list(_parts(asked, answer, whole=True)), _end(answer)), **_usage(asked, answer)}

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream: one event a part, the last one with the reason why it ended."""
        shell = _reply(asked, [], {})
        pieces = [Piece(each) for each in _parts(asked, answer, whole=False)]
        for piece in before_error(pieces, answer.delivery):
            told = {**shell, **_candidates([piece.part], {}), **_usage(asked, answer)}
            yield event(None, told, piece=True)
        if answer.delivery.error is not None:
            yield event(None, _error(answer.delivery.error))
            return
        yield event(None, {**shell, **_candidates([{"text": ""}], _end(answer)), **_usage(asked, answer)})


class Piece:
    """A part that is sent as an event of its own."""

    piece = True

    def __init__(self, part: Json) -> None:
        self.part = part


def _text(each: Json) -> str:
    for kind in ("text", "functionCall", "functionResponse"):
        if kind in each:
            return each[kind] if kind == "text" else str(each[kind])
    return ""


def _reply(asked: Asked, parts: list[Json], end: dict[str, Any]) -> dict[str, Any]:
    made = {"modelVersion": asked.body["model"], "responseId": asked.ids.new("gem_")}
    return {**_candidates(parts, end), **made}


def _candidates(parts: list[Json], end: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **end}]}


def _end(answer: Answer) -> dict[str, Any]:
    reason = STOPS.get(answer.stop, answer.stop) if answer.stop is not None else "STOP"
    end: dict[str, Any] = {"finishReason": reason}
    if answer.citations:
        pages = [{"web": {"uri": cite.url, "title": cite.title}} for cite in answer.citations]
        end["groundingMetadata"] = {"groundingChunks": pages, "webSearchQueries": []}
    if reason == "SAFETY":
        rating = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
        end["safetyRatings"] = [rating]
    return end


def _parts(asked: Asked, answer: Answer, *, whole: bool) -> Iterator[Json]:
    """Return the parts; thoughts are shown where they were asked for, and signed either way."""
    thinking = asked.body.get("generationConfig", {}).get("thinkingConfig", {})
    signature = None if answer.reasoning is None else sign(answer.reasoning)
    if answer.reasoning is not None and thinking.get("includeThoughts"):
        yield from ({"text": each, "thought": True} for each in _pieces(answer.reasoning, whole))
    if answer.delivery.unknown:
        yield {"futurePart": {"note": "nobody knows this part"}}
    said = answer.said + (answer.refusal or "")
    texts = list(answer.pieces) if answer.pieces is not None and not whole else _pieces(said, whole)
    yield from ({"text": each} for each in texts)
    for place, call in enumerate(answer.tool_calls):
        made = {"id": call.id or asked.ids.new("call_"), "name": call.name, "args": call.arguments}
        signed = {"thoughtSignature": signature} if signature and place == 0 else {}
        yield {"functionCall": made, **signed}
    if signature and not answer.tool_calls:
        yield {"text": "", "thoughtSignature": signature}


def _pieces(text: str, whole: bool) -> list[str]:
    return [text] if whole and text else list(words(text))


def _usage(asked: Asked, answer: Answer) -> dict[str, Any]:
    used = reported(asked.tokens, answer.usage)
    output, thought = answer_tokens(answer)
    prompt = used.input or 0
    usage = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": output - thought,
        "totalTokenCount": prompt + output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
    }
    usage |= {"thoughtsTokenCount": thought} if thought else {}
    return {"usageMetadata": usage | ({"cachedContentTokenCount": used.cached} if used.cached else {})}


def _error(trouble: Trouble) -> Json:
    from contextinfinity_testing.vendors.troubles import words as worded

    told = worded(Gemini(), trouble, "")
    return told.body or gemini_error(500, "INTERNAL", "An internal error has occurred.")
