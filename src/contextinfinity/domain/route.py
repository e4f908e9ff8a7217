"""Routing decisions: the model that answers a request, and why."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Intent: TypeAlias = Literal["code", "factual", "long_document", "small_talk", "other"]
"""The intent of a message. ``factual``: it asks for a fact that may be newer than a model's training data."""

Need: TypeAlias = Literal["tools", "images", "context"]
"""What a request may require of its model. ``context``: more tokens than the default model's window holds."""


class Considered(Struct, frozen=True, kw_only=True, array_like=True):
    """A model that was considered: the reason for it, and the reason against it, if any."""

    model: str
    by: str
    against: str = ""


class Fallback(Struct, frozen=True, kw_only=True, array_like=True):
    """A fallback model and the size of its context window."""

    model: str
    window: int


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that answers a request, and why.

    ``model`` is None if no model can take the request; ``reason`` then says why each one is excluded.
    """

    model: str | None
    reason: str
    home: str
    """The model of the branch; a rule or a failure changes the model for one request only."""
    intent: Intent = "other"
    """The intent of the message; it is detected in chats, and when a rule depends on it."""
    confidence: float = 0.0
    """How often intents detected in this way were right, from 0 to 1; 0 if no intent was detected."""
    window: int = 0
    """The size of the model's context window."""
    fallbacks: tuple[Fallback, ...] = ()
    """The models to try when it fails, in this order."""
    considered: tuple[Considered, ...] = ()
