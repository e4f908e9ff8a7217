"""What was typed at the prompt of ``cix chat``, kept for the next start in ``{data_dir}/chat_history``.

One JSON string a line, the oldest first, for its owner's eyes only. Nothing but this prompt writes to it. A line that
cannot be read is passed over, and a file that cannot be written costs nothing but the next start's arrow key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

MOST = 1000
LONGEST = 10_000
"""The signs of an entry up to which it is kept: a pasted file is in the ledger anyway."""


class KeptHistory(History):
    """``History`` in a file; the newest thousand entries survive a start."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """Give what is kept, the newest first."""
        lines = self._lines()
        if len(lines) > MOST:
            lines = lines[-MOST:]
            with suppress(OSError):
                self._keep_only(lines)
        return [entry for line in reversed(lines) if (entry := _entry(line))]

    def store_string(self, string: str) -> None:
        """Keep one more."""
        if len(string) <= LONGEST:
            with suppress(OSError):
                _write(self._file, os.O_APPEND, json.dumps(string) + "\n")

    def _lines(self) -> list[str]:
        try:
            return self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def _keep_only(self, lines: list[str]) -> None:
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        _write(new, os.O_TRUNC, "".join(f"{line}\n" for line in lines))
        new.replace(self._file)


def _entry(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, str) else None


def _write(file: Path, how: int, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | how, 0o600), "w", encoding="utf-8") as opened:
        os.fchmod(opened.fileno(), 0o600)  # it may have been there before
        opened.write(text)
