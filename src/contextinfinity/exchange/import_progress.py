"""The progress and the result of an import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import SessionId

Format: TypeAlias = Literal["auto", "cix", "chatgpt", "claude", "openwebui", "librechat", "llm", "jsonl", "openai"]
"""``jsonl``: one message per line; ``openai``: a list of messages, or lines; ``auto``: detect the format."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of bytes read and the number of messages imported."""


class BadRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that was not imported: where it begins, and why. The last one may represent ``count`` records.

    ``file`` is the member of the archive or folder that contains it.
    """

    line: int
    reason: str
    count: int = 1
    file: str = ""

    @property
    def place(self) -> str:
        """Its position for error messages; a whole file has no line."""
        return ", ".join(filter(None, (self.file, f"line {self.line}" if self.line or not self.file else "")))


class ImportedSession(Struct, frozen=True, kw_only=True):
    """The result for one conversation of a file: the messages that were added, and those that existed."""

    thread_id: SessionId
    messages: int
    added: int
    skipped: int
    bad: tuple[BadRecord, ...] = ()
    title: str | None = None

    @property
    def bad_count(self) -> int:
        """The number of records that were not imported."""
        return sum(record.count for record in self.bad)


class Imported(Struct, frozen=True, kw_only=True):
    """The result of an import: its conversations in the order in which they first appear."""

    sessions: tuple[ImportedSession, ...]
