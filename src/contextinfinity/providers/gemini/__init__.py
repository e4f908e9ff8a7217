"""Google's Gemini API: request writing and reply parsing, without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, Finished, ProviderRequest, RequestOptions
from contextinfinity.providers.contract import Accumulator
from contextinfinity.providers.gemini import reply, request
from contextinfinity.providers.gemini.request import for_gemini
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings


@dataclass(frozen=True, kw_only=True)
class GeminiWire:
    """``Wire`` of ``streamGenerateContent``. ``provider_tools``: tools that run at Google, in its own JSON."""

    provider_tools: tuple[Json, ...] = ()

    def path(self, model_id: str) -> str:
        """Return the request path below the base URL; it includes the model."""
        name = model_id if "/" in model_id else f"models/{model_id}"
        return f"/{quote(name)}:streamGenerateContent?alt=sse"

    def write(self, asked: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Return a request in Gemini's JSON."""
        return request.body(asked, abilities, self.provider_tools)

    def convert_options(self, request_options: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Convert request options to Gemini's options."""
        return for_gemini(request_options, abilities)

    def accumulate(self) -> Accumulator:
        """Return an accumulator for a streamed reply."""
        return reply.GeminiAccumulator()

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Parse a whole reply."""
        return reply.finished(whole, abilities)


def open_wire(model: ModelSettings, settings: Settings) -> GeminiWire:
    """Return the wire of a model according to the settings."""
    return GeminiWire(provider_tools=model.provider_tools or ())


def stored_wire(fields: dict[str, Json]) -> GeminiWire:
    """Return the wire of an earlier request from its stored fields."""
    return GeminiWire(**fields)
