"""OpenAI's Responses API: typed items in, typed items out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, Finished, ProviderRequest, RequestOptions
from contextinfinity.domain.sent_form import RESPONSES
from contextinfinity.providers.contract import Accumulator
from contextinfinity.providers.openai_responses import reply, request
from contextinfinity.providers.openai_responses.request import for_responses
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings


@dataclass(frozen=True, kw_only=True)
class ResponsesWire:
    """``Wire`` for OpenAI's Responses API.

    ``client_store`` lets a client decide whether OpenAI stores its responses. ``provider_tools`` are tools that
    OpenAI runs itself, in its own JSON; no others are requested.
    ``allow_upstream_state`` lets options name a conversation that OpenAI stores.
    """

    truncation: Literal["auto", "disabled"] = "disabled"
    store: bool = False
    client_store: bool = True
    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()
    allow_upstream_state: bool = False

    form = RESPONSES

    def path(self, model_id: str) -> str:
        """Return the request path below the base URL."""
        return "/responses"

    def write(self, asked: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Return a self-contained request in OpenAI's JSON."""
        request_settings = request.ResponsesRequestSettings(
            truncation=self.truncation,
            store=self.store,
            client_store=self.client_store,
            parallel_tools=self.parallel_tools,
            provider_tools=self.provider_tools,
            upstream_state=self.allow_upstream_state,
        )
        return request.body(asked, abilities, request_settings)

    def convert_options(self, request_options: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Convert request options to OpenAI's options."""
        return for_responses(request_options, abilities, parallel=self.parallel_tools)

    def accumulate(self) -> Accumulator:
        """Return an accumulator for a streamed reply."""
        return reply.ResponsesAccumulator()

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Parse a whole reply."""
        return reply.read(whole, abilities)


def open_wire(model: ModelSettings, settings: Settings) -> ResponsesWire:
    """Return the wire of a model according to the settings."""
    return ResponsesWire(
        truncation=settings.openai.truncation,
        store=settings.openai.store,
        client_store=settings.openai.client_store,
        parallel_tools=settings.tools.allow_parallel or settings.openai.parallel_tool_calls,
        provider_tools=model.provider_tools or (),
        allow_upstream_state=settings.openai.provider_conversations,
    )


def stored_wire(fields: dict[str, Json]) -> ResponsesWire:
    """Return the wire of an earlier request from its stored fields."""
    return ResponsesWire(**fields)
