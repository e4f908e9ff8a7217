"""Messages from elsewhere: what is brought, and what is kept of where each came from.

An import brings arrivals, one for each record of a file. A message keeps its origin beside it: the id, the place and
the time it had there, so that the same record never arrives twice and a hit of a search can name it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Json, Message

Side: TypeAlias = Literal["user", "assistant"]


class ImportedMessage(Struct, frozen=True, kw_only=True):
    """One message as it was said elsewhere; ``place`` counts the messages of its conversation there, from 0."""

    message: Message
    place: int
    external_id: str | None = None
    created_at: datetime | None = None
    model: str = ""
    details: Json = None
    """Whatever else was said of it there, word for word."""


class Origin(Struct, frozen=True, kw_only=True):
    """Where a message came from. ``side``: whether it is its turn's question or its answer."""

    side: Side
    place: int
    content_hash: str
    external_id: str | None = None
    created_at: datetime | None = None
    details: Json = None

    @property
    def name(self) -> str:
        """Who said it, where that was told; empty otherwise."""
        name = self.details.get("name") if isinstance(self.details, dict) else None
        return name if isinstance(name, str) else ""


class ImportCounts(Struct, frozen=True, kw_only=True):
    """What became of arrivals: how many were added, how many were there; ``clashing``: places that were left out.

    An arrival clashes when its id is taken by other words: those stay, because what was said never changes.
    """

    added: int = 0
    skipped: int = 0
    clashing: tuple[int, ...] = ()
