"""The durable record of a stream in progress: one file a provider step, one JSON entry a line.

What a provider says is appended here before a person sees it, reaches the disk shortly after, and can be
followed by anyone, in this process or another, while it is still being written. Lines are only ever
added. A file is read up to its first line that is not whole or not next in order: what a crash tore
there had reached nobody's disk for certain, and is cut off before anything is added.
"""

from __future__ import annotations

from contextinfinity.storage.journal.entries import CALL_PIECE, END, REASONING, JournalEntry, event_id, parse_event_id
from contextinfinity.storage.journal.folder import JournalFolder
from contextinfinity.storage.journal.journal_writer import Journal

__all__ = ["CALL_PIECE", "END", "REASONING", "Journal", "JournalEntry", "JournalFolder", "event_id", "parse_event_id"]
