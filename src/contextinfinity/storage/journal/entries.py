"""What stands on a line of a journal, and how a place in a stream is named.

An entry goes in, a line of UTF-8 comes out, and back. A line that cannot be read back is never made: what
is no JSON or no Unicode is refused before it is numbered. A place in a stream is named by the step's
index in its turn and the entry's number in its step, ``2-17``; it sorts nowhere and is only handed back.
"""

from __future__ import annotations

import errno
import re
from datetime import datetime
from pathlib import Path

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.unicode import lone_surrogate
from contextinfinity.errors import InvalidInput, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.encryption.cipher import Protection

END = "end"
REASONING = "reasoning"
CALL_PIECE = "call_piece"
"""The event type of the last entry of a journal that was brought to its end."""

# Eighteen digits are more than any stream has, and keep a hostile header from costing anything.
_EVENT_ID = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED_TO_US = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR})


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a provider said, or the end of what it said."""

    ts: datetime
    provider: str
    event_type: str
    seq: int
    payload: Json


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalEntry)


def to_line(entry: JournalEntry, protection: Protection) -> bytes:
    """Write an entry as a line, its newline included, and seal it where its folder is encrypted."""
    try:
        return protection.seal_line(_encoder.encode(entry)) + b"\n"
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The event holds {lone_surrogate(error)}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The payload of an event has to be JSON: {error}.") from error


def from_line(line: bytes, protection: Protection) -> JournalEntry | None:
    """Read a line, its newline left out; None when it is no entry."""
    try:
        return _decoder.decode(protection.open_line(line))
    except ValueError:  # not sealed with this key, no JSON, not the fields of an entry, or no UTF-8
        return None


def event_id(step_index: int, seq: int) -> str:
    """Name a place in the stream of a turn."""
    return f"{step_index}-{seq}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Give the step index and the seq of an event id; None for a text that is none."""
    found = _EVENT_ID.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def translate(error: OSError, path: Path) -> LedgerError:
    """Say in our words what the system said about a journal."""
    said = f"({error.strerror or error})"
    if error.errno in FULL:
        return LedgerFull(
            f"The journal {path} cannot grow: the disk is full {said}.",
            hint="What was durable before stays readable; free some room, then send the message again.",
        )
    if error.errno in _CLOSED_TO_US:
        return LedgerReadOnly(f"The journal {path} cannot be written {said}.")
    return LedgerFailed(
        f"The journal {path} could not be read or written {said}.",
        hint="What was durable before stays readable; check the disk, then run `cix doctor`.",
    )
