"""Who answers a request, and why: what the router decided, as it is explained and kept."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Intent: TypeAlias = Literal["code", "factual", "long_document", "small_talk", "other"]
"""What a message is for. ``factual``: it asks for a fact of the world, which may be new since a model was trained."""

Need: TypeAlias = Literal["tools", "images", "context"]
"""What a request may need of its model. ``context``: more room than the model has that would answer otherwise."""


class Considered(Struct, frozen=True, kw_only=True, array_like=True):
    """A model that was thought of: what spoke for it, and what against it, if anything did."""

    model: str
    by: str
    against: str = ""


class Fallback(Struct, frozen=True, kw_only=True, array_like=True):
    """A model that can answer instead, and the size of its window."""

    model: str
    window: int


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that answers a request, and why.

    ``model`` is None where no model can take the request; ``reason`` then says what stands against each.
    """

    model: str | None
    reason: str
    home: str
    """The model that the branch stays with: what a rule or a failure chooses holds for one request."""
    intent: Intent = "other"
    """What the message is for; determined where a rule may ask for it, and in chats."""
    confidence: float = 0.0
    """How often a label found like this one was right, from 0 to 1; 0 where none was looked for."""
    window: int = 0
    """The size of the model's window."""
    fallbacks: tuple[Fallback, ...] = ()
    """Who answers when it fails, in this order."""
    considered: tuple[Considered, ...] = ()
