"""The file of lines typed at the prompt of ``cix chat``: one JSON object a line, the oldest first, mode 0600.

Each line names the conversation in which it was typed and when, so that it can be deleted with it. Files of older
releases hold bare JSON strings, whose conversation is not known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from contextinfinity.domain.ids import SessionId, from_millis, to_millis
from contextinfinity.storage.folders import sync_folder


class Line(NamedTuple):
    """A typed text; ``session`` and ``at`` are None where they are not known."""

    text: str
    session: SessionId | None = None
    at: datetime | None = None


def read(file: Path) -> list[Line]:
    """Read all lines; none from a file that is not there. A line that cannot be decoded is empty and of no session."""
    try:
        found = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return list(map(_decoded, found))


def append(file: Path, lines: Sequence[Line]) -> None:
    """Add lines."""
    with appending(file) as opened:
        opened.write("".join(map(_encoded, lines)))


def replace_all(file: Path, lines: Sequence[Line]) -> None:
    """Replace the file by one with these lines, durably; without any it is removed."""
    if lines:
        new = file.with_name(f"{file.name}.new")
        with _opened(new, os.O_TRUNC) as opened:
            opened.write("".join(map(_encoded, lines)))
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    else:
        file.unlink(missing_ok=True)
    sync_folder(file.parent)


def forget(file: Path, session: SessionId) -> None:
    """Remove the lines of a session, and those whose session is not known."""
    lines = read(file)
    kept = [line for line in lines if line.session not in (session, None)]
    if len(kept) < len(lines):
        replace_all(file, kept)


@contextmanager
def appending(file: Path) -> Iterator[TextIO]:
    """Open a private file to append to it."""
    with _opened(file, os.O_APPEND) as opened:
        yield opened


@contextmanager
def _opened(file: Path, how: int) -> Iterator[TextIO]:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | how, 0o600), "w", encoding="utf-8") as opened:
        os.fchmod(opened.fileno(), 0o600)  # it may have been there before
        yield opened


def _encoded(line: Line) -> str:
    if line.session is None and line.at is None:
        return json.dumps(line.text) + "\n"
    at = None if line.at is None else to_millis(line.at)
    return json.dumps({"text": line.text, "session": line.session, "at": at}) + "\n"


def _decoded(line: str) -> Line:
    try:
        found = json.loads(line)
    except ValueError:
        return Line("")
    if isinstance(found, str):
        return Line(found)
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        return Line("")
    session, at = found.get("session"), found.get("at")
    session = session if isinstance(session, str) else None
    return Line(found["text"], session, from_millis(at) if isinstance(at, int) else None)
