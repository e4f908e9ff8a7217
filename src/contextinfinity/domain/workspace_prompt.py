"""The prompt section of a workspace: files and symbols in cache tiers."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.message import Message


class WorkspaceText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt section of a workspace. Rarely changing parts come first, so that a prompt cache keeps them."""

    system: str = ""
    """Tier L0: the last system text."""
    tiers: tuple[tuple[Message, ...], ...] = ()
    """Tiers L1 to L3: each a pair of messages, or nothing."""
    context: tuple[Message, ...] = ()
    """The file tree, fetched pages and working files, behind the tiers."""
    history_to: int = 0
    """The last turn in tier L3, before ``context``; later turns follow it."""
