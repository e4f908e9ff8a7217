"""What an import tells: while it goes on, and at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import SessionId

Format: TypeAlias = Literal["auto", "openai", "jsonl"]
"""``jsonl``: a record a line; ``openai``: a list of records, or lines; ``auto``: whichever the file looks like."""

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many bytes of the file were read, and how many messages."""


class BadRecord(Struct, frozen=True, kw_only=True):
    """A record that was left out: where it begins, and why."""

    line: int
    reason: str


class ImportedSession(Struct, frozen=True, kw_only=True):
    """What became of one conversation of a file: of ``messages`` some were added, the others were there before.

    ``bad`` tells of the first records that were left out, ``bad_count`` how many there were.
    """

    thread_id: SessionId
    messages: int
    added: int
    skipped: int
    bad: tuple[BadRecord, ...] = ()
    bad_count: int = 0


class Imported(Struct, frozen=True, kw_only=True):
    """What became of a file, its conversations in the order in which they first appear."""

    sessions: tuple[ImportedSession, ...]
