"""The prompt section of a workspace: files and symbols in cache tiers."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Message, say


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
    matches: tuple[Message, ...] = ()
    """The definitions that match the message, right before it."""
    files: tuple[str, ...] = ()
    """Each open file as it is written above: its path, a line break, and its fenced text. These may be left out."""

    def without(self, paths: Collection[str]) -> WorkspaceText:
        """Return the section with a line in the place of each of these files."""
        system, tiers, context = self.system, self.tiers, self.context
        for block in self.files:
            if (path := path_of(block)) in paths:
                change = f"\n\n{block}", f"\n\n{path}: left out, the prompt was too large."
                system = system.replace(*change, 1)
                tiers = tuple(_replaced(tier, change) for tier in tiers)
                context = _replaced(context, change)
        files = tuple(block for block in self.files if path_of(block) not in paths)
        return replace(self, system=system, tiers=tiers, context=context, files=files)


def path_of(block: str) -> str:
    """Return the path of a file as it is written in a prompt."""
    return block.partition("\n")[0]


def _replaced(messages: tuple[Message, ...], change: tuple[str, str]) -> tuple[Message, ...]:
    return tuple(say(message.role, message.rendered_text.replace(*change, 1)) for message in messages)
