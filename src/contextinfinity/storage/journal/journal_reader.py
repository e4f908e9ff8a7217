"""Entries of a journal, and reading it, finished or not, from the front.

``JournalReader`` hands out the entries of a file as far as they are whole and in order, block by block, so a long
journal never has to fit into memory. It remembers only where the next line begins and never part of a line:
when a torn end is truncated and rewritten concurrently, it reads the new content.

An entry is encoded as one line of UTF-8. Values that are not valid JSON or Unicode are rejected before they get a
number. An event id consists of the step's index in its turn and the entry's number in its step, such as ``2-17``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.wire import lone_surrogate
from contextinfinity.errors import InvalidInput, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.protection import protection_of

END = "end"
REASONING = "reasoning"
CALL_PIECE = "call_piece"
"""The event type of the last entry of a journal that was brought to its end."""

# At most 18 digits, so that a hostile header costs nothing.
_EVENT_ID = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED_TO_US = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR})


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a provider's response, or its end."""

    ts: datetime
    provider: str
    event_type: str
    seq: int
    payload: Json


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalEntry)


def to_line(entry: JournalEntry, protection: Protection) -> bytes:
    """Encode an entry as a line with a newline, encrypted if its folder is."""
    try:
        return protection.seal_line(_encoder.encode(entry)) + b"\n"
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The event holds {lone_surrogate(error)}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The payload of an event must be JSON: {error}.") from error


def from_line(line: bytes, protection: Protection) -> JournalEntry | None:
    """Decode a line without its newline; None if it is not a valid entry."""
    try:
        return _decoder.decode(protection.open_line(line))
    except (ValueError, RecursionError):  # not sealed with this key, no JSON, not the fields of an entry, or no UTF-8
        return None


def event_id(step_index: int, seq: int) -> str:
    """Return the event id of an entry in the stream of a turn."""
    return f"{step_index}-{seq}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Return the step index and seq of an event id; None if it is malformed."""
    found = _EVENT_ID.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def translate(error: OSError, path: Path) -> LedgerError:
    """Translate an ``OSError`` of a journal to a ``LedgerError``."""
    said = f"({error.strerror or error})"
    if error.errno in FULL:
        return LedgerFull(
            f"The journal {path} cannot grow: the disk is full {said}.",
            hint="Everything that was durable stays readable; free some disk space, then send the message again.",
        )
    if error.errno in _CLOSED_TO_US:
        return LedgerReadOnly(f"The journal {path} cannot be written {said}.")
    return LedgerFailed(
        f"The journal {path} could not be read or written {said}.",
        hint="Everything that was durable stays readable; check the disk, then run `cix doctor`.",
    )


BLOCK = 65_536


class JournalReader:
    """The entries of one open file, in order. ``offset`` and ``seq`` tell how far they have been read.

    After a block, ``behind`` is whether more waits, ``ended`` whether the end was read, and ``removed`` whether
    the file had been deleted.
    """

    def __init__(self, descriptor: int, path: Path, protection: Protection | None = None) -> None:
        self._descriptor = descriptor
        self._path = path
        self._protection = protection or protection_of(path)
        self.offset = 0
        self.seq = 0
        self.behind = False
        self.ended = False
        self.removed = False

    def next_block(self) -> list[JournalEntry]:
        """Return the next entries; empty if there are none yet."""
        entries: list[JournalEntry] = []
        for line in [] if self.ended else self._whole_lines():
            entry = from_line(line, self._protection)
            if entry is None or entry.seq != self.seq + 1:  # torn: its writer will cut it off and go on from here
                self.behind = False
                break
            entries.append(entry)
            self.seq += 1
            self.offset += len(line) + 1
            if entry.event_type == END:
                self.ended = True
                break
        return entries

    def last(self) -> JournalEntry | None:
        """Return the last entry, reading only the end of the file; None if it is torn or missing."""
        size = os.fstat(self._descriptor).st_size
        wanted = BLOCK
        while True:
            start = max(size - wanted, 0)
            data = _read(self._descriptor, size - start, start, self._path)
            if not data.endswith(b"\n"):
                return None
            _, newline, line = data[:-1].rpartition(b"\n")
            if newline or start == 0:
                return from_line(line, self._protection)
            wanted *= 4

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _whole_lines(self) -> list[bytes]:
        """Read a block, or as much as one long line needs; what follows the last newline is left."""
        status = os.fstat(self._descriptor)
        self.removed = status.st_nlink == 0
        self.behind = False
        rest = status.st_size - self.offset
        wanted = BLOCK
        while rest > 0:
            data = _read(self._descriptor, min(wanted, rest), self.offset, self._path)
            end = data.rfind(b"\n")
            if end >= 0:
                self.behind = len(data) < rest
                return data[:end].split(b"\n")
            if wanted >= rest:
                break
            wanted *= 4
        return []


def open_lines(path: Path, protection: Protection | None = None) -> JournalReader | None:
    """Open a journal for reading; None if it does not exist. ``protection`` defaults to that of its folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translate(error, path) from error
    try:
        return JournalReader(descriptor, path, protection)
    except LedgerError:  # the key of its folder is missing
        os.close(descriptor)
        raise


def _read(descriptor: int, count: int, offset: int, path: Path) -> bytes:
    try:
        return os.pread(descriptor, count, offset)
    except OSError as error:
        raise translate(error, path) from error


class ChangeSignal:
    """Wakes one consumer on its event loop, from any thread; several signals are merged.

    The consumer clears the signal before it reads, so that entries written during the read signal again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._event = asyncio.Event()
        self._is_set = False

    def ring(self) -> None:
        """Wake the consumer."""
        if self._is_set:
            return
        self._is_set = True
        if threading.get_ident() == self._thread:  # the usual case, and it saves the loop's trip through a pipe
            self._event.set()
        else:
            with suppress(RuntimeError):  # the loop is closed: there is no one to wake
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Clear the signal."""
        self._is_set = False
        self._event.clear()

    async def wait(self) -> None:
        """Wait for a signal since the last clear; always yields to other tasks."""
        await (asyncio.sleep(0) if self._is_set else self._event.wait())
