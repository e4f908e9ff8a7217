"""What is remembered from other conversations, as the context needs it."""

from __future__ import annotations

from typing import Protocol

LONGEST_SNIPPET = 2000


class Memories(Protocol):
    """Remembers facts about users and threads."""

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Give what matters for a question, one line a fact, at most ``LONGEST_SNIPPET`` characters; or nothing."""
        ...


class NoMemories:
    """``Memories`` that remember nothing."""

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Give nothing."""
        return None


def shortened(snippet: str | None) -> str | None:
    """Cut a snippet that is too long, between two facts where it can be; None for one that says nothing."""
    if snippet is None or not snippet.strip():
        return None
    if len(snippet) <= LONGEST_SNIPPET:
        return snippet
    cut = snippet[: LONGEST_SNIPPET + 1]
    return cut[: cut.rfind("\n")] if "\n" in cut else cut[:LONGEST_SNIPPET]
