"""Anthropic's Messages API: request writing and reply parsing, without I/O."""

from __future__ import annotations

from dataclasses import dataclass

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, Finished, ProviderRequest, RequestOptions
from contextinfinity.domain.sent_form import MESSAGES
from contextinfinity.providers.anthropic.reply import MessageAccumulator, finished
from contextinfinity.providers.anthropic.request import Choices, body
from contextinfinity.providers.anthropic.request_options import for_messages
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings


@dataclass(frozen=True)
class AnthropicWire:
    """``Wire`` of Anthropic's Messages API.

    ``parallel_tools``: the model may call several tools at once. ``provider_tools``: tools that run at Anthropic, in
    its own JSON; no others are requested.
    """

    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()

    form = MESSAGES

    def path(self, model_id: str) -> str:
        """Return the request path below the base URL."""
        return "/v1/messages"

    def write(self, request: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Return a request in Anthropic's JSON."""
        return body(request, abilities, Choices(parallel_tools=self.parallel_tools, provider_tools=self.provider_tools))

    def convert_options(self, request_options: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Convert request options to Anthropic's options."""
        return for_messages(request_options, abilities, parallel=self.parallel_tools)

    def accumulate(self) -> MessageAccumulator:
        """Return an accumulator for a streamed reply."""
        return MessageAccumulator()

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Parse a whole reply."""
        return finished(whole, abilities)


def open_wire(model: ModelSettings, settings: Settings) -> AnthropicWire:
    """Return the wire of a model according to the settings."""
    several = settings.tools.allow_parallel or not settings.anthropic.disable_parallel_tool_use
    return AnthropicWire(parallel_tools=several, provider_tools=model.provider_tools or ())


def stored_wire(fields: dict[str, Json]) -> AnthropicWire:
    """Return the wire of an earlier request from its stored fields."""
    return AnthropicWire(**fields)
