"""Summaries: what leaves the word-for-word part of the prompt, told in few words."""

from __future__ import annotations

from contextinfinity.librarian.contract import Count, Librarian, Pause, Said, Summary, Task, no_pause
from contextinfinity.librarian.model import ModelLibrarian
from contextinfinity.librarian.offline import OfflineLibrarian

__all__ = [
    "Count",
    "Librarian",
    "ModelLibrarian",
    "OfflineLibrarian",
    "Pause",
    "Said",
    "Summary",
    "Task",
    "no_pause",
]
