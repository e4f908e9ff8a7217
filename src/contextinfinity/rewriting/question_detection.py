"""Detect questions."""

from __future__ import annotations

import re
from typing import Final

_ASKS: Final = re.compile(
    r"\W*(?:who|whom|whose|what|which|when|where|why|how|did|do|does|was|were|is|are|has|have|had|can|could|would|any"
    r"|anything|tell me|so)\b",
    re.I,
)


def asks(text: str) -> bool:
    """Return whether a text is a question."""
    return text.rstrip().endswith(("?", "？")) or _ASKS.match(text) is not None
