"""What building a context gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from contextinfinity.domain.message import Json

PlainMessage: TypeAlias = dict[str, str]
"""``role`` and ``content``."""


@dataclass(kw_only=True)
class ContextualMessagesResult:
    """The messages for the model, and what they were made from. Made anew for each request.

    ``rewritten_query`` is the message made explicit, or the original words where nothing had to be; None when the
    rewriter was not wanted. ``short_term_history`` are the earlier turns among the messages. ``left_out`` names what is
    missing, each as ``{"what": …, "reason": …}``: older turns, tool results, a stage that failed or was not wanted.
    """

    messages: list[PlainMessage]
    rewritten_query: str | None = None
    memory_snippet: str | None = None
    short_term_history: list[PlainMessage] = field(default_factory=list)
    entities: list[Json] = field(default_factory=list)
    is_ambiguous: bool = False
    disambiguation_data: Json = None
    left_out: list[Json] = field(default_factory=list)
