"""The provider of models that run in this process.

Requests use the chat completions format; llama.cpp applies the model's own chat template. Nothing leaves the process. A
prompt that is too long is rejected before it is processed, so that it can be shortened.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import ProviderEvent, ProviderRequest, RequestOptions
from contextinfinity.errors import ProviderError
from contextinfinity.providers.catalogue import overridden
from contextinfinity.providers.contract import EncodedRequest
from contextinfinity.providers.local.gguf_tokenizer import plain
from contextinfinity.providers.local.llama import READING, Llama, Load, give_back, stream_reply, take
from contextinfinity.providers.local.model_file import ModelFile
from contextinfinity.providers.openai_chat import ChatWire
from contextinfinity.providers.rebuild_request import write
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.text.tokens import Counter, counter_of

WINDOW = 8192
"""The default limit of a model's window, which costs memory and processing time."""


@dataclass(frozen=True, kw_only=True)
class LocalRunSettings:
    """Options for running a model. ``missing`` is the hint if its file does not exist."""

    threads: int = 1
    idle_seconds: float = 900.0
    window: int = WINDOW
    overrides: Mapping[str, Json] = field(default_factory=dict)
    missing: str = "Check path under [models] in config.toml."


class LocalProvider:
    """``Provider`` of one gguf file."""

    name = "local"

    def __init__(self, file: ModelFile, running: LocalRunSettings | None = None) -> None:
        self._file = file
        self._running = running or LocalRunSettings()
        self._wire = ChatWire(vendor=self.name)
        self._llama: Llama | None = None

    @property
    def missing(self) -> str:
        """Always empty: a missing file is reported when it is used."""
        return ""

    def abilities(self, model_id: str) -> Abilities:
        """Return the capabilities from the file and the settings; the window is at most the model's own."""
        made_for, said = self._file.window, self._running.overrides
        limit = min(made_for or WINDOW, self._running.window)
        usual = Abilities(context_limit=limit, max_output_tokens=limit, tools=False, one_system=True, known=True)
        able = overridden(usual, model_id, said)
        if made_for is not None and able.context_limit > made_for:
            return msgspec.structs.replace(able, context_limit=made_for)
        return able

    def context_limit(self, model_id: str) -> int:
        """Return the context window: the tokens of a request and its answer together."""
        return self.abilities(model_id).context_limit

    def counter(self, model_id: str) -> Counter:
        """Return a counter with the model's own tokenizer, or an estimate if that is unknown."""
        return self._file.counter or counter_of(self.name, model_id)

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Estimate the number of tokens of a request."""
        return self.counter(request.model_id).prompt(request.prompt)

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Encode a request as chat completions."""
        return write(self.name, self._wire, self.abilities(request.model_id), request)

    def options_for(self, request_options: RequestOptions, model_id: str) -> AppliedOptions:
        """Convert request options to those of llama.cpp."""
        return self._wire.convert_options(request_options, self.abilities(model_id))

    def begin(self, model_id: str) -> None:
        """Start to load the model in its own thread, because a request will follow."""
        self._at_work(model_id).begin()

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Send a request and yield the answer token by token; raise ``ProviderError`` if it fails."""
        model_id = written.request.model_id
        llama, reply = self._at_work(model_id), self._wire.accumulate()
        steering = await asyncio.to_thread(self._file.steering)
        body = msgspec.json.decode(written.body)
        body["messages"] = [_plain(message, steering) for message in body["messages"]]
        async with aclosing(stream_reply(llama, body)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if READING not in piece:
                    for delta in reply.feed("", piece):
                        yield delta
        if reply.ended:
            yield self._wire.read(reply.assembled(), self.abilities(model_id))

    async def close(self) -> None:
        """Release the model; it is unloaded when no other provider uses it."""
        llama, self._llama = self._llama, None
        if llama is not None:
            await give_back(llama)

    def _at_work(self, model_id: str) -> Llama:
        if not self._file.path.is_file():
            raise ProviderError(
                f"The weights of {model_id} are missing: {self._file.path} is missing.",
                kind="not_found",
                hint=self._running.missing,
            )
        if self._llama is None:
            self._llama = take(
                Load(
                    path=self._file.path,
                    model_id=model_id,
                    window=self.context_limit(model_id),
                    threads=self._running.threads,
                    idle_seconds=self._running.idle_seconds,
                )
            )
        return self._llama


def _plain(message: dict[str, Any], steering: re.Pattern[str] | None) -> dict[str, Any]:
    """Return a message without control tokens in its text."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": plain(content, steering)}
    if isinstance(content, list):
        return {**message, "content": [_plain_part(part, steering) for part in content]}
    return message


def _plain_part(part: dict[str, Any], steering: re.Pattern[str] | None) -> dict[str, Any]:
    return {**part, "text": plain(part["text"], steering)} if part.get("type") == "text" else part
