"""Text that is refused: NUL, and a lone surrogate, which is half a character and has no form in UTF-8.

Messages name it by its code and place, so that whoever sent it can find it.
"""

from __future__ import annotations

import re

NUL = "\0"
_IN_JSON = re.compile(rb"\\(?:u([0-9A-Fa-f]{4})|.)|\xed([\xa0-\xbf])([\x80-\xbf])", re.DOTALL)
"""An escape in JSON, or a surrogate that was written as if it had a form in UTF-8."""


def lone_surrogate(error: UnicodeEncodeError) -> str:
    """Describe the surrogate that kept a text from being encoded."""
    return f"a lone surrogate at {error.start} (U+{ord(error.object[error.start]):04X}, half a character)"


def lone_surrogate_in(body: bytes) -> str | None:
    """Describe the first lone surrogate in a JSON document; None when it has none."""
    high: re.Match[bytes] | None = None
    for found in _IN_JSON.finditer(body):
        code = _code(found)
        if high is not None and found.start() == high.end() and 0xDC00 <= code <= 0xDFFF and found[1]:
            high = None
            continue
        if high is not None:
            break
        if 0xDC00 <= code <= 0xDFFF or (0xD800 <= code <= 0xDBFF and not found[1]):
            return _described(found)
        high = found if 0xD800 <= code <= 0xDBFF else None
    return None if high is None else _described(high)


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


def _code(found: re.Match[bytes]) -> int:
    if found[2]:
        return 0xD000 | (found[2][0] & 0x3F) << 6 | found[3][0] & 0x3F
    return int(found[1], 16) if found[1] else 0


def _described(found: re.Match[bytes]) -> str:
    return f"a lone surrogate at byte {found.start()} (U+{_code(found):04X}, half a character)"
