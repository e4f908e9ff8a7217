"""Text that is refused: NUL, and a lone surrogate, which is half a character and has no form in UTF-8.

Messages name it by its code and place, so that the sender can find it.
"""

from __future__ import annotations

import re

NUL = "\0"
LOOKED_AT = 1 << 20
"""Bytes at the front of a document that are searched, so that a large document does not delay other requests."""
PAIR = len(r"\ud83d\ude00")
_WHOLE = re.compile(
    rb"(?:[^\\\xed]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\xed[^\xa0-\xbf])*+",
    re.DOTALL,
)
"""The front of a JSON document that holds whole characters only."""
_HALF = re.compile(rb"\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\xed([\xa0-\xbf])([\x80-\xbf])")
"""A surrogate as an escape, or written as if it had a form in UTF-8."""


def lone_surrogate(error: UnicodeEncodeError) -> str:
    """Describe the surrogate that kept a text from being encoded."""
    return f"a lone surrogate at {error.start} (U+{ord(error.object[error.start]):04X}, half a character)"


def lone_surrogate_in(body: bytes) -> str | None:
    """Describe the first lone surrogate near the front of a JSON document; None when there is none."""
    whole = _WHOLE.match(body, 0, LOOKED_AT)
    place = 0 if whole is None else whole.end()
    found = _HALF.match(body, place) if place + PAIR <= LOOKED_AT else None
    if found is None:
        return None
    code = int(found[1], 16) if found[1] else 0xD000 | (found[2][0] & 0x3F) << 6 | found[3][0] & 0x3F
    return f"a lone surrogate at byte {place} (U+{code:04X}, half a character)"


def unreadable(body: bytes, error: Exception) -> str:
    """Say why a JSON document cannot be read; a lone surrogate is named where a decoder says something else of it."""
    found = lone_surrogate_in(body)
    return str(error) if found is None else f"it holds {found}"


def has_nul(value: object) -> bool:
    """Tell whether a text, or one inside a value of JSON, holds a NUL character."""
    left: list[object] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str) and NUL in one:
            return True
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            left += one
    return False
