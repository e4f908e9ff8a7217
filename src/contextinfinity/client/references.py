"""Ids as people and programs give them: parts of an id, and cursors of paginated lists.

Ids made within a few hours of each other begin alike (UUIDv7 begins with the time), so the short form that is shown is
the end of an id. A part that is too short, fits nothing or fits several is an error that says so.

A cursor is 8 bytes of milliseconds and 16 of an id, in base64url; it is opaque to clients. It is compared, not looked
up, so it stays valid when its entry is deleted.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from uuid import UUID

from contextinfinity.domain.ids import Position, from_millis, to_millis
from contextinfinity.errors import InvalidInput, NotFound

LAST = "last"
SHORTEST = 6
"""Fewer characters would fit by chance."""
SHORT = 8
"""Characters at the end of an id that are shown in place of it."""
NAMED = 10
"""How many of those that fit an error names."""


def short(identifier: str) -> str:
    """Return the end of an id: enough to distinguish it, and to name it in a command."""
    return identifier[-SHORT:]


def fits(identifier: str, part: str) -> bool:
    """Return whether a part is long enough and an id begins or ends with it."""
    part = part.lower()
    return len(part) >= SHORTEST and (identifier.startswith(part) or identifier.endswith(part))


def only_match(kind: str, part: str, fitting: Sequence[str], *, hint: str) -> str:
    """Return the only id that fits."""
    if not fitting:
        use_more = f"Use at least {SHORTEST} characters of the id; " if len(part) < SHORTEST else ""
        raise NotFound(f"There is no {kind} {part}.", hint=use_more + hint)
    if len(fitting) > 1:
        more = "" if len(fitting) <= NAMED else f", and {len(fitting) - NAMED} more"
        raise InvalidInput(
            f"{part} fits {len(fitting)} of them: {', '.join(fitting[:NAMED])}{more}.",
            hint="Write more of the id, or its last characters.",
        )
    return fitting[0]


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
