"""Parts of ids, as people give them.

Ids made within a few hours of each other begin alike (UUIDv7 begins with the time), so the short form that is shown is
the end of an id. A part that is too short, fits nothing or fits several is an error that says so.
"""

from __future__ import annotations

from collections.abc import Sequence

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
