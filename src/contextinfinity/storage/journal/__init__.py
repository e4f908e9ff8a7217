"""Journals of streaming answers: one append-only file per provider step, one JSON entry per line.

Provider output is appended before it is shown, becomes durable shortly after, and can be followed by any process while
it is being written. A file is read up to the first torn or out-of-order line; a torn end was never durable, and is
truncated before anything is appended.
"""

from __future__ import annotations

from contextinfinity.storage.journal.folder import JournalFolder
from contextinfinity.storage.journal.journal_reader import (
    CALL_PIECE,
    END,
    REASONING,
    JournalEntry,
    event_id,
    parse_event_id,
)
from contextinfinity.storage.journal.journal_writer import Journal

__all__ = ["CALL_PIECE", "END", "REASONING", "Journal", "JournalEntry", "JournalFolder", "event_id", "parse_event_id"]
