"""The file of lines typed at the prompt of ``cix chat``: one JSON object per line, oldest first, mode 0600.

Each line names the conversation in which it was typed and when, so that it can be deleted with it. Files of older
releases hold bare JSON strings, whose conversation is not known.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from contextinfinity.domain.ids import SessionId, from_millis, to_millis
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import sync_file


class TypedLine(NamedTuple):
    """A typed text; ``session`` and ``at`` are None where they are not known."""

    text: str
    session: SessionId | None = None
    at: datetime | None = None


def read(file: Path) -> list[TypedLine]:
    """Return all lines; none if the file is missing. An undecodable line is returned empty and without a session."""
    try:
        found = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    protection = protection_of(file)
    return [_decoded(line, protection) for line in found]


def append(file: Path, lines: Sequence[TypedLine]) -> None:
    """Add lines to a private file."""
    with _locked(file, os.O_CREAT) as descriptor:
        os.lseek(descriptor, 0, os.SEEK_END)
        _write(descriptor, file, lines)


def keep_only(file: Path, is_kept: Callable[[TypedLine], bool]) -> None:
    """Remove all lines that ``is_kept`` does not select."""
    _rewrite(file, lambda lines: list(filter(is_kept, lines)))


def keep_last(file: Path, count: int) -> None:
    """Remove all but the newest lines."""
    _rewrite(file, lambda lines: lines[-count:])


def forget(file: Path, session: SessionId) -> None:
    """Remove the lines of a session, and those whose session is not known."""
    keep_only(file, lambda line: line.session not in (session, None))


def _rewrite(file: Path, choose: Callable[[list[TypedLine]], list[TypedLine]]) -> None:
    """Rewrite a file in place; if the process is killed half way, the next rewrite repairs it."""
    with suppress(FileNotFoundError), _locked(file) as descriptor:
        lines = read(file)
        kept = choose(lines)
        if len(kept) < len(lines):
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write(descriptor, file, kept)
            os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
            sync_file(descriptor)


@contextmanager
def _locked(file: Path, how: int = 0) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | how, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # it may have been there before
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, file: Path, lines: Sequence[TypedLine]) -> None:
    protection = protection_of(file)
    rest = memoryview(b"".join(protection.seal_line(_encoded(line)) + b"\n" for line in lines))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _encoded(line: TypedLine) -> bytes:
    if line.session is None and line.at is None:
        return json.dumps(line.text).encode()
    at = None if line.at is None else to_millis(line.at)
    return json.dumps({"text": line.text, "session": line.session, "at": at}).encode()


def _decoded(line: bytes, protection: Protection) -> TypedLine:
    try:
        found = json.loads(protection.open_line(line).decode(errors="replace"))
    except ValueError:
        return TypedLine("")
    if isinstance(found, str):
        return TypedLine(found)
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        return TypedLine("")
    session, at = found.get("session"), found.get("at")
    session = session if isinstance(session, str) else None
    return TypedLine(found["text"], session, from_millis(at) if isinstance(at, int) else None)
