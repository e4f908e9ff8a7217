"""Encoding of journal entries, and event ids.

An entry is encoded as one line of UTF-8. Values that are not valid JSON or Unicode are rejected before they get a
number. An event id consists of the step's index in its turn and the entry's number in its step, such as ``2-17``.
"""

from __future__ import annotations

import errno
import re
from datetime import datetime
from pathlib import Path

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.wire import lone_surrogate
from contextinfinity.errors import InvalidInput, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.encryption.cipher import Protection

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
