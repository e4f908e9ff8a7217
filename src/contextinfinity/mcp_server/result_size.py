"""Keep results small enough for the context window of the assistant that reads them.

A result of more than ``LARGEST`` bytes has its long texts cut, all at the same length, and lists of more than ``MOST``
entries keep the newest. What was cut says how long it was.
"""

from __future__ import annotations

import msgspec

from contextinfinity.domain.message import Json

LARGEST = 60_000
"""Bytes of JSON: about 15,000 tokens of English."""
MOST = 50
"""Entries of a list."""
LONGEST_TEXT = 4_000
_SHORTEST_TEXT, _FEWEST = 125, 2


def bounded(result: Json, largest: int = LARGEST) -> Json:
    """Return a result with texts and lists cut as far as needed for it to have at most ``largest`` bytes."""
    length, entries, shown = LONGEST_TEXT, MOST, result
    while len(msgspec.json.encode(shown)) > largest and entries >= _FEWEST:
        shown = _cut(result, length, entries)
        length, entries = (length // 2, entries) if length > _SHORTEST_TEXT else (length, entries // 2)
    return shown


def cut(text: str, length: int = LONGEST_TEXT) -> str:
    """Cut a text, and say how long it was."""
    return text if len(text) <= length else f"{text[:length]} [cut at character {length:,} of {len(text):,}]"


def _cut(value: Json, length: int, entries: int) -> Json:
    if isinstance(value, str):
        return cut(value, length)
    if isinstance(value, dict):
        shown = {cut(name, length): _cut(each, length, entries) for name, each in [*value.items()][:MOST]}
        return shown | ({"…": f"[{len(value) - MOST:,} more entries left out]"} if len(value) > MOST else {})
    if isinstance(value, list):
        left_out = [f"[{len(value) - entries:,} earlier entries left out]"] if len(value) > entries else []
        return [*left_out, *(_cut(each, length, entries) for each in value[-entries:])]
    return value
