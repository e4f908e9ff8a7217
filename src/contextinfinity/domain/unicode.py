"""Detect text that is rejected: NUL, and lone surrogates, which have no UTF-8 encoding.

Error messages give the code point and position, so that the sender can find it.
"""

from __future__ import annotations

import re

NUL = "\0"
LOOKED_AT = 1 << 20
"""Only this many bytes at the start of a document are searched, so that a large one does not delay other requests."""
PAIR = len(r"\ud83d\ude00")
_WHOLE = re.compile(
    rb"(?:[^\\\xed]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\xed[^\xa0-\xbf])*+",
    re.DOTALL,
)
"""The longest start of a JSON document without a lone surrogate."""
_HALF = re.compile(rb"\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\xed([\xa0-\xbf])([\x80-\xbf])")
"""A surrogate as an escape, or encoded as if UTF-8 allowed it."""


def lone_surrogate(error: UnicodeEncodeError) -> str:
    """Describe the surrogate that made an encoding fail."""
    return f"a lone surrogate at {error.start} (U+{ord(error.object[error.start]):04X}, half a character)"


def lone_surrogate_in(body: bytes) -> str | None:
    """Describe the first lone surrogate near the start of a JSON document; None if there is none."""
    whole = _WHOLE.match(body, 0, LOOKED_AT)
    place = 0 if whole is None else whole.end()
    found = _HALF.match(body, place) if place + PAIR <= LOOKED_AT else None
    if found is None:
        return None
    code = int(found[1], 16) if found[1] else 0xD000 | (found[2][0] & 0x3F) << 6 | found[3][0] & 0x3F
    return f"a lone surrogate at byte {place} (U+{code:04X}, half a character)"


def unreadable(body: bytes, error: Exception) -> str:
    """Return why a JSON document cannot be read, naming a lone surrogate if there is one."""
    found = lone_surrogate_in(body)
    return str(error) if found is None else f"it holds {found}"


def has_nul(value: object) -> bool:
    """Return whether a text, or any text inside a JSON value, contains a NUL character."""
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
