"""How much of a request repeats the one before: what a provider's cache can know.

Bodies are compared as vendors read them: tools first, then system texts, then messages or items in order, each whole.
Cache marks do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from contextinfinity.domain.message import Json

_ORDER = ("tools", "system", "systemInstruction", "messages", "input", "contents")


def shared(before: Json, after: Json) -> tuple[int, int]:
    """Tell how many bytes of a body repeat the beginning of another, and how many there are."""
    pieces = list(_pieces(after))
    total = sum(map(len, pieces))
    common = 0
    for one, other in zip(_pieces(before), pieces, strict=False):
        if one != other:
            break
        common += len(other)
    return common, total


def _pieces(body: Json) -> Iterator[bytes]:
    """Give the parts of a body in the order in which a model reads them."""
    body = body.get("prompt", body) if isinstance(body, dict) else {}
    for name in _ORDER:
        part = body.get(name)
        for piece in part if isinstance(part, list | tuple) else [] if part is None else [part]:
            yield msgspec.json.encode(_unmarked(piece), order="deterministic")


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value
