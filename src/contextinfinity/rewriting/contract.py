"""The input and output of a rewriter."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.thread import Turn


class FollowUp(Struct, frozen=True, kw_only=True):
    """A message and its context: the turns before it, oldest first, and the memories."""

    latest_user_message: str
    recent_history: tuple[Turn, ...] = ()
    memory_snippet: str | None = None
    thread_id: str | None = None
    user_id: str | None = None


class Rewritten(Struct, frozen=True, kw_only=True):
    """The rewritten message.

    ``query`` is safe to show to a model: it is the message itself unless its references are certain. ``terms`` are
    words of the conversation that the message omits; the search uses them with a low weight, and they are not
    shown. ``entities`` are the things mentioned. If a reference has several candidates, ``is_ambiguous`` is set,
    and ``disambiguation_data`` holds the candidates and the question to ask. ``dropped`` says which model's answer
    was rejected, and why.
    """

    query: str
    terms: tuple[str, ...] = ()
    entities: tuple[Json, ...] = ()
    is_ambiguous: bool = False
    disambiguation_data: Json = None
    dropped: str = ""


class Rewriter(Protocol):
    """Rewrites follow-up messages."""

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Return the rewritten message; it contains only words of the message and its context."""
        ...
