"""Chat completions: the wire that most servers speak, each in its own accent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import Finished, ProviderRequest, RequestOptions
from contextinfinity.domain.sent_form import CHAT
from contextinfinity.providers.contract import Accumulator
from contextinfinity.providers.openai_chat import reply, request, stream
from contextinfinity.providers.openai_chat.request_options import for_chat
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.vendors import VENDORS


@dataclass(frozen=True, kw_only=True)
class ChatWire:
    """``Wire`` for chat completions.

    ``vendor`` is ``openai_chat``, ``perplexity`` or ``local``. ``provider_tools`` are tools that the server runs
    itself, in its own form; none is asked for unless it is named here. ``max_tokens_name``: OpenAI's own models want
    ``max_completion_tokens``, most others know only ``max_tokens``. ``stream_usage``: ask for a count of tokens.
    ``text_separator`` stands between the texts of one message; requests of older releases had none.
    """

    vendor: str = "openai_chat"
    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    text_separator: str = request.BETWEEN

    @property
    def form(self) -> str:
        """The form in which its clients may be passed through: a server that takes all of chat completions."""
        return CHAT if self.vendor == "openai_chat" else ""

    def path(self, model_id: str) -> str:
        """Return where requests go, below the base URL."""
        return "/chat/completions"

    def write(self, asked: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Put a request into the JSON of chat completions."""
        how = request.ChatRequestSettings(
            vendor=self.vendor,
            parallel_tools=self.parallel_tools,
            provider_tools=self.provider_tools,
            max_tokens_name=self.max_tokens_name,
            stream_usage=self.stream_usage,
            text_separator=self.text_separator,
        )
        return request.body(asked, abilities, how)

    def wished(self, wishes: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Put wishes into options of chat completions."""
        own_server = self.max_tokens_name == "max_tokens"
        return for_chat(wishes, abilities, vendor=self.vendor, parallel=self.parallel_tools, own_server=own_server)

    def accumulate(self) -> Accumulator:
        """Begin to put a streamed reply together."""
        return stream.ChatAccumulator(self.vendor)

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Read a whole reply."""
        return reply.read(whole, abilities, self.vendor)


def open_wire(model: ModelSettings, settings: Settings) -> ChatWire:
    """Open the wire of a model, as the settings have it."""
    return ChatWire(
        vendor=model.provider,
        parallel_tools=settings.tools.allow_parallel or settings.openai.parallel_tool_calls,
        provider_tools=model.provider_tools or (),
        max_tokens_name="max_completion_tokens" if _at_openai(model) else "max_tokens",
        stream_usage=model.provider != request.PERPLEXITY,
    )


def stored_wire(fields: dict[str, Json]) -> ChatWire:
    """Open the wire that an earlier request was written with; older releases had no ``text_separator``."""
    return ChatWire(**{"text_separator": "", **fields})


def _at_openai(model: ModelSettings) -> bool:
    """Return whether chat completions are asked of OpenAI itself."""
    hosts = VENDORS[model.provider].auth.hosts
    return hosts is not None and (model.base_url is None or re.match(hosts, model.base_url) is not None)
