"""Chat completions as OpenAI sends them, and as Perplexity does with its citations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Call, Trouble, token_logprobs, words
from contextinfinity_testing.vendors.chat_checks import check, check_compatible, check_perplexity, texts
from contextinfinity_testing.vendors.counting import answer_tokens, reported
from contextinfinity_testing.vendors.troubles import openai_error, perplexity_error, too_long
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
)

DONE = Frame(data=b"data: [DONE]\n\n")
STOPS = {"filter": "content_filter"}


class Chat:
    """``Wire`` of POST /v1/chat/completions."""

    vendor: Vendor = "openai"
    late = False

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        check(body)

    def parts(self, body: Json) -> list[Part]:
        """Return tools and messages, in this order, which is the order of the cache."""
        tools = [part("system", "", tool) for tool in body.get("tools") or []]
        found = [Part(role="system", said=tool.form.decode(), form=tool.form) for tool in tools]
        return found + [_part(message) for message in body["messages"]]

    def room(self, body: Json) -> int | None:
        """Return how many tokens the answer may have."""
        room: int | None = body.get("max_completion_tokens") or body.get("max_tokens")
        return room

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        said = (
            f"Input tokens exceed the configured limit of {trouble.limit} tokens. Your messages resulted in"
            f" {trouble.tokens} tokens. Please reduce the length of the messages."
        )
        return too_long(said, "messages")

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return the reply in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.said or None, "refusal": answer.refusal}
        if answer.tool_calls:
            message["tool_calls"] = [_call(asked, call) for call in answer.tool_calls]
        message |= self.thought(answer.reasoning)
        choice = {
            "index": 0,
            "message": {**message, "annotations": []},
            "logprobs": _logprobs(asked, answer.said),
            "finish_reason": _stop(answer),
        }
        shell = _shell(asked, "chat.completion")
        return {**shell, "choices": [choice], "usage": _usage(asked, answer), **self.extras(asked, answer)}

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream; the usage comes last, and only if it was asked for."""
        shell = {**_shell(asked, "chat.completion.chunk"), **self.extras(asked, answer)}
        counts = bool((asked.body.get("stream_options") or {}).get("include_usage"))
        shell |= {"usage": None} if counts else {}
        yield from self._said(shell, asked, answer)
        if answer.delivery.error is not None:
            return
        if counts:
            yield event(None, {**shell, "choices": [], "usage": _usage(asked, answer)})
        yield DONE

    def _said(self, shell: Json, asked: Asked, answer: Answer) -> Iterator[Frame]:
        thoughts = (_chunk(shell, self.thought(piece), piece=True) for piece in words(answer.reasoning or ""))
        chunks = (
            _chunk(shell, delta, piece=piece, logprobs=_logprobs(asked, delta.get("content")))
            for delta, piece in _deltas(asked, answer)
        )
        shown = thoughts if self.thought(answer.reasoning) else ()
        yield from before_error(chain(shown, chunks), answer.delivery)
        error = answer.delivery.error
        yield _chunk(shell, {}, _stop(answer)) if error is None else event(None, self._error(error))

    def extras(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Return what this vendor adds to a reply."""
        return {"service_tier": "default", "system_fingerprint": "fp_fake"}

    def thought(self, reasoning: str | None) -> dict[str, Any]:
        """Return reasoning as this vendor shows it; OpenAI does not."""
        return {}

    def _error(self, trouble: Trouble) -> Json:
        return worded(self, trouble, "").body or openai_error("The server had an error.", kind="server_error")


class Perplexity(Chat):
    """``Wire`` of POST /chat/completions at Perplexity: roles alternate, every chunk carries citations and usage."""

    vendor: Vendor = "perplexity"

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        check_perplexity(body)

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        said = f"Requested token count exceeds the model's maximum context length of {trouble.limit} tokens."
        return Refused(400, perplexity_error(said, "invalid_request", 400))

    def extras(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Return the pages that the answer cites."""
        pages = [{"title": cite.title, "url": cite.url, "date": None} for cite in answer.citations]
        return {"citations": [cite.url for cite in answer.citations], "search_results": pages}

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream, its lines ended as this vendor ends them."""
        shell = {**_shell(asked, "chat.completion.chunk"), **self.extras(asked, answer)}
        shell["usage"] = _usage(asked, answer)
        for frame in self._said(shell, asked, answer):
            yield Frame(data=frame.data.replace(b"\n", b"\r\n"), piece=frame.piece)


class Compatible(Chat):
    """``Wire`` of a server for open models: no key, parameters it does not know passed over, reasoning shown."""

    vendor: Vendor = "compatible"

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        check_compatible(body)

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        said = (
            f"This model's maximum context length is {trouble.limit} tokens. However, you requested {trouble.tokens}"
            " tokens in the messages. Please reduce the length of the messages."
        )
        return Refused(400, openai_error(said, kind="BadRequestError", code=400))

    def extras(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Add nothing."""
        return {}

    def thought(self, reasoning: str | None) -> dict[str, Any]:
        """Return reasoning beside the content."""
        return {} if reasoning is None else {"reasoning_content": reasoning}


def _part(message: Json) -> Part:
    role = {"developer": "system"}.get(message["role"], message["role"])
    return part(role, "\n".join(texts(message)), message)


def _shell(asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": asked.ids.new("chatcmpl-"), "object": kind, "created": BORN, "model": asked.body["model"]}


def _stop(answer: Answer) -> str:
    if answer.stop is not None:
        return STOPS.get(answer.stop, answer.stop)
    return "tool_calls" if answer.tool_calls else "stop"


def _usage(asked: Asked, answer: Answer) -> Json:
    used = reported(asked.tokens, answer.usage)
    output, thought = answer_tokens(answer)
    return {
        "prompt_tokens": used.input,
        "completion_tokens": output,
        "total_tokens": (used.input or 0) + output,
        "prompt_tokens_details": {"cached_tokens": used.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _call(asked: Asked, call: Call) -> Json:
    function = {"name": call.name, "arguments": arguments(call.arguments)}
    return {"id": call.id or asked.ids.new("call_"), "type": "function", "function": function}


def _logprobs(asked: Asked, text: str | None) -> Json:
    """Return invented log probabilities of the words of a text, if they were asked for."""
    if not asked.body.get("logprobs") or not text:
        return None
    return {"content": token_logprobs(text, asked.body.get("top_logprobs") or 0), "refusal": None}


def _chunk(shell: Json, delta: Json, stop: str | None = None, *, piece: bool = False, logprobs: Json = None) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": stop}
    return event(None, {**shell, "choices": [choice]}, piece=piece)


def _deltas(asked: Asked, answer: Answer) -> Iterator[tuple[Json, bool]]:
    silent = answer.tool_calls and not answer.said
    yield {"role": "assistant", "content": None if silent else "", "refusal": None}, False
    if answer.delivery.unknown:
        yield {"future_field": {"note": "nobody knows this field"}}, False
    for piece in answer.pieces if answer.pieces is not None else words(answer.text):
        yield {"content": piece}, True
    for piece in words(answer.refusal or ""):
        yield {"refusal": piece}, True
    for index, call in enumerate(_call(asked, call) for call in answer.tool_calls):
        function = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": function}]}, False
        for piece in halves(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, True
