"""What a provider is asked, before it has a wire form.

System texts first, then messages in order, the current one last. Only a provider's adapter knows how its
vendor wants to hear it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Json, Message, TranscriptItem
from contextinfinity.domain.turn import StepOutcome, Usage


class Prompt(Struct, frozen=True, kw_only=True):
    """One request in neutral form."""

    system: tuple[str, ...]
    messages: tuple[Message, ...]


class ProviderRequest(Struct, frozen=True, kw_only=True):
    """A prompt for a model."""

    model_id: str
    prompt: Prompt
    max_output_tokens: int = 4000
    options: Json = None


class TextDelta(Struct, frozen=True, kw_only=True, tag="text"):
    """A piece of the answer's text."""

    text: str


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """The provider's last word: how it ended, all it said, what it cost. ``response`` is the raw reply."""

    outcome: StepOutcome
    items: tuple[TranscriptItem, ...] = ()
    usage: Usage = Usage()
    response: str | None = None


ProviderEvent: TypeAlias = TextDelta | Finished
