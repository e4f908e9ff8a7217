"""Chat completions: the API that most servers offer, with variations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, Finished, ProviderRequest, RequestOptions
from contextinfinity.domain.sent_form import CHAT
from contextinfinity.providers.contract import Accumulator
from contextinfinity.providers.openai_chat import reply, request
from contextinfinity.providers.openai_chat.request import for_chat
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.vendors import VENDORS


@dataclass(frozen=True, kw_only=True)
class ChatWire:
    """``Wire`` for chat completions.

    ``vendor`` is ``openai_chat``, ``perplexity`` or ``local``. ``provider_tools`` are tools that the server runs
    itself, in its own JSON; no others are requested. ``max_tokens_name``: OpenAI's own models require
    ``max_completion_tokens``, most others accept only ``max_tokens``. ``stream_usage``: request token counts.
    ``never_store`` makes OpenAI store nothing, whatever the client asks for.
    ``text_separator`` is put between the texts of one message; requests of older releases had none.
    ``result_images``: pictures in tool results follow in a message of the user; older releases left them out.
    """

    vendor: str = "openai_chat"
    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    never_store: bool = False
    text_separator: str = request.BETWEEN
    result_images: bool = True

    @property
    def form(self) -> str:
        """The wire form that can be passed through unchanged: that of a server with the full chat completions API."""
        return CHAT if self.vendor == "openai_chat" else ""

    def path(self, model_id: str) -> str:
        """Return the request path below the base URL."""
        return "/chat/completions"

    def write(self, asked: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Return a request as chat completions JSON."""
        request_settings = request.ChatRequestSettings(
            vendor=self.vendor,
            parallel_tools=self.parallel_tools,
            provider_tools=self.provider_tools,
            max_tokens_name=self.max_tokens_name,
            stream_usage=self.stream_usage,
            text_separator=self.text_separator,
            result_images=self.result_images,
        )
        written = request.body(asked, abilities, request_settings)
        return {**written, "store": False} if self.never_store else written

    def convert_options(self, request_options: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Convert request options to chat completions options."""
        own_server = self.max_tokens_name == "max_tokens"
        return for_chat(
            request_options, abilities, vendor=self.vendor, parallel=self.parallel_tools, own_server=own_server
        )

    def accumulate(self) -> Accumulator:
        """Return an accumulator for a streamed reply."""
        return reply.ChatAccumulator(self.vendor)

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Parse a whole reply."""
        return reply.read(whole, abilities, self.vendor)


def open_wire(model: ModelSettings, settings: Settings) -> ChatWire:
    """Return the wire of a model according to the settings."""
    return ChatWire(
        vendor=model.provider,
        parallel_tools=settings.tools.allow_parallel or settings.openai.parallel_tool_calls,
        provider_tools=model.provider_tools or (),
        max_tokens_name="max_completion_tokens" if _at_openai(model) else "max_tokens",
        stream_usage=model.provider != request.PERPLEXITY,
        never_store=_at_openai(model) and not settings.openai.client_store,
    )


def stored_wire(fields: dict[str, Json]) -> ChatWire:
    """Return the wire of an earlier request from its stored fields; older releases had fewer."""
    return ChatWire(**{"text_separator": "", "result_images": False, **fields})


def _at_openai(model: ModelSettings) -> bool:
    """Return whether the requests go to OpenAI itself."""
    hosts = VENDORS[model.provider].auth.hosts
    return hosts is not None and (model.base_url is None or re.match(hosts, model.base_url) is not None)
