"""Find the token limit that a vendor names when it rejects an oversized request."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from contextinfinity.domain.message import Json

NOT_TOKENS = frozenset(
    {
        "request_too_large",
        "request_body_too_large_after_decoding",
        "string_above_max_length",
        "array_above_max_length",
        "max_tokens_per_request",
    }
)
"""Codes of rejections for bytes, characters or items, which say nothing about the context window."""
BODY_TOO_LARGE, RATE_LIMITED = 413, 429

_FIELDS = ("n_ctx", "max_model_len", "context_length")
"""Error fields in which servers for open models report the limit."""
_NUMBER = r"(\d[\d,]{2,11})\b"
_NAMED = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:>|<=) {_NUMBER}",
        rf"max(?:imum)? (?:prompt|input|model) (?:length|len|size)\D{{0,12}}{_NUMBER}",
        rf"context (?:length|size|window|limit)\D{{0,12}}{_NUMBER}",
        rf"limit of {_NUMBER} tokens",
        rf"tokens allowed \({_NUMBER}\)",
        rf"{_NUMBER} (?:tokens? )?max(?:imum)? context",
    )
)


def window_named(status: int | None, codes: Collection[str], error: Mapping[str, Json] | str, said: str) -> int | None:
    """Return the window in tokens that a size rejection names; 0 if it names none; None if it is not about tokens."""
    if status in (BODY_TOO_LARGE, RATE_LIMITED) or not NOT_TOKENS.isdisjoint(codes):
        return None
    fields = {} if isinstance(error, str) else error
    for name in _FIELDS:
        if isinstance(figure := fields.get(name), int) and figure > 0:
            return figure
    found = next((match for pattern in _NAMED if (match := pattern.search(said.lower()))), None)
    return int(found[1].replace(",", "")) if found else 0
