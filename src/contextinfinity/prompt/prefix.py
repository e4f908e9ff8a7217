"""Compute how much of a request repeats the previous one, and can therefore be a cache hit.

Bodies are compared in the order in which vendors read them: tools, system texts, then whole messages or items. Cache
markers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from contextinfinity.domain.message import Json

_ORDER = ("tools", "system", "systemInstruction", "messages", "input", "contents")


def shared(before: Json, after: Json) -> tuple[int, int]:
    """Return how many bytes of ``after`` repeat the start of ``before``, and its total number of bytes."""
    pieces = list(_pieces(after))
    total = sum(map(len, pieces))
    common = 0
    for one, other in zip(_pieces(before), pieces, strict=False):
        if one != other:
            break
        common += len(other)
    return common, total


def _pieces(body: Json) -> Iterator[bytes]:
    """Yield the parts of a body in the order in which a model reads them."""
    body = body.get("prompt", body) if isinstance(body, dict) else {}
    for name in _ORDER:
        part = body.get(name)
        for piece in part if isinstance(part, list | tuple) else [] if part is None else [part]:
            yield msgspec.json.encode(_without_cache_markers(piece), order="deterministic")


def _without_cache_markers(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_cache_markers(inner) for key, inner in value.items() if key != "cache_control"}
    return [_without_cache_markers(inner) for inner in value] if isinstance(value, list) else value
