"""Finding what a person means when they write only part of an id.

In go the ids there are and a few signs; out comes the one id that begins or ends with them. What is too short, fits
nothing or fits several is an error that says which.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.errors import InvalidInput, NotFound

LAST = "last"
SHORTEST = 6
"""Fewer signs would fit by chance."""
NAMED = 10
"""How many of those that fit an error names."""


def fits(identifier: str, part: str) -> bool:
    """Tell whether a part is long enough and stands at the beginning or the end of an id."""
    part = part.lower()
    return len(part) >= SHORTEST and (identifier.startswith(part) or identifier.endswith(part))


def the_one(kind: str, part: str, fitting: Sequence[str], *, hint: str) -> str:
    """Give the only id that fits."""
    if not fitting:
        why = f" (at least {SHORTEST} signs of an id are needed)" if len(part) < SHORTEST else ""
        raise NotFound(f"There is no {kind} {part}{why}.", hint=hint)
    if len(fitting) > 1:
        more = "" if len(fitting) <= NAMED else f", and {len(fitting) - NAMED} more"
        raise InvalidInput(
            f"{part} fits {len(fitting)} of them: {', '.join(fitting[:NAMED])}{more}.", hint="Write more of the id."
        )
    return fitting[0]
