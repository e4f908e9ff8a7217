"""The prompt history of ``cix chat``, kept in ``{data_dir}/chat_history``.

Only this prompt writes to it. A line is written once its conversation is known, and is deleted with it. If the file
cannot be written, only the next start's history is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from contextinfinity.domain.ids import SessionId, is_id, now
from contextinfinity.storage import typed_lines

MOST = 1000
LONGEST = 10_000
"""The characters of an entry up to which it is kept: a pasted file is in the ledger anyway."""


class KeptHistory(History):
    """``History`` in a file; the newest thousand entries are kept."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._typed: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, newest first."""
        lines: list[typed_lines.TypedLine] = []
        with suppress(OSError):
            lines = typed_lines.read(self._file)
        if len(lines) > MOST:
            lines = lines[-MOST:]
            with suppress(OSError):
                typed_lines.keep_last(self._file, MOST)
        return [line.text for line in reversed(lines) if line.text]

    def store_string(self, string: str) -> None:
        """Remember a line; ``keep`` writes it."""
        if len(string) <= LONGEST:
            self._typed.append(string)

    def keep(self, session: SessionId | None) -> None:
        """Write the lines typed since the last call, with their conversation."""
        moment, known = now(), session if session is not None and is_id(session) else None
        lines = [typed_lines.TypedLine(text, known, moment) for text in self._typed]
        self._typed.clear()
        if lines:
            with suppress(OSError):
                typed_lines.append(self._file, lines)
