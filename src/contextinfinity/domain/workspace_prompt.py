"""What a conversation about a repository adds to a prompt: files and symbols, written in cache tiers."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.message import Message


class WorkspaceText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The section of a workspace. What changes rarely stands in front, so that a prompt cache keeps it."""

    system: str = ""
    """Tier L0: the last system text."""
    tiers: tuple[tuple[Message, ...], ...] = ()
    """Tiers L1 to L3: each a pair of messages, or nothing."""
    context: tuple[Message, ...] = ()
    """The file tree, fetched pages and working files, behind the tiers."""
    history_to: int = 0
    """The last turn that stands in tier L3, before ``context``; later turns stand behind it."""
