"""What a rewriter is given and what it returns."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.thread import Turn


class FollowUp(Struct, frozen=True, kw_only=True):
    """A message, and all it may refer to: the turns before it, oldest first, and what is remembered."""

    latest_user_message: str
    recent_history: tuple[Turn, ...] = ()
    memory_snippet: str | None = None
    thread_id: str | None = None
    user_id: str | None = None


class Rewritten(Struct, frozen=True, kw_only=True):
    """The message made explicit.

    ``query`` is safe to show to a model: it is the message itself unless what it refers to is certain. ``terms`` are
    words of the conversation that the message leaves out; they serve the search with a low weight and are not shown.
    ``entities`` are the things spoken of. With several candidates for one reference ``is_ambiguous`` is set, and
    ``disambiguation_data`` holds the candidates and the question to ask. ``dropped`` says which model's answer was not
    used, and why.
    """

    query: str
    terms: tuple[str, ...] = ()
    entities: tuple[Json, ...] = ()
    is_ambiguous: bool = False
    disambiguation_data: Json = None
    dropped: str = ""


class Rewriter(Protocol):
    """Makes follow-ups explicit."""

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Return what is meant, with no word that is neither in the message nor in what it may refer to."""
        ...
