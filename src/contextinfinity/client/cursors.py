"""Cursors of paginated lists.

A cursor is 8 bytes of milliseconds and 16 of an id, in base64url; it is opaque to clients. It is compared, not looked
up, so it stays valid when its entry is deleted.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from uuid import UUID

from contextinfinity.domain.ids import Position, from_millis, to_millis
from contextinfinity.errors import InvalidInput

MOMENT, WHOLE = 8, 24


def cursor_of(position: Position) -> str:
    """Encode a position."""
    raw = to_millis(position.moment).to_bytes(MOMENT, "big", signed=True) + UUID(position.id).bytes
    return urlsafe_b64encode(raw).decode()


def position_of(cursor: str) -> Position:
    """Decode a cursor; raises ``InvalidInput`` for anything else."""
    try:
        raw = b64decode(cursor, altchars=b"-_", validate=True)
        if len(raw) != WHOLE:
            raise ValueError
        moment = from_millis(int.from_bytes(raw[:MOMENT], "big", signed=True))
        return Position(moment, str(UUID(bytes=raw[MOMENT:])))
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            "This is not a valid cursor.",
            hint="Send the `next` value of the previous page unchanged, or omit it to start from the beginning.",
        ) from None
