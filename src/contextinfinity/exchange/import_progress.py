"""The progress and the result of an import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import SessionId

Format: TypeAlias = Literal["auto", "cix", "chatgpt", "claude", "openwebui", "librechat", "llm", "jsonl", "openai"]
"""``jsonl``: a message a line; ``openai``: a list of messages, or lines; ``auto``: whichever the file looks like."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of bytes read, and how many messages."""


class BadRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that was left out: where it begins, and why. The last of very many may stand for ``count``.

    ``file`` is the file of an archive or a folder that contains it.
    """

    line: int
    reason: str
    count: int = 1
    file: str = ""

    @property
    def place(self) -> str:
        """Where it begins, for a person; a whole file has no line."""
        return ", ".join(filter(None, (self.file, f"line {self.line}" if self.line or not self.file else "")))


class ImportedSession(Struct, frozen=True, kw_only=True):
    """What became of one conversation of a file: of ``messages`` some were added, the others were there before."""

    thread_id: SessionId
    messages: int
    added: int
    skipped: int
    bad: tuple[BadRecord, ...] = ()

    @property
    def bad_count(self) -> int:
        """How many records were left out."""
        return sum(record.count for record in self.bad)


class Imported(Struct, frozen=True, kw_only=True):
    """What became of a file, its conversations in the order in which they first appear."""

    sessions: tuple[ImportedSession, ...]
