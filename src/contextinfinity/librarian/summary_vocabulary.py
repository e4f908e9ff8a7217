"""The words and phrases of ``vocabulary.toml``, compiled for searching."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

_KEPT: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Cue(Struct, frozen=True):
    """Phrases, and words of which a sentence must contain one before the phrases are searched."""

    words: frozenset[str]
    phrases: re.Pattern[str]

    def is_in(self, text: str, words: frozenset[str]) -> bool:
        """Return whether a text with these words (lower case) contains one of the phrases."""
        if text.isascii() and self.words.isdisjoint(words):
            return False
        return self.phrases.search(text) is not None


def _compiled(phrases: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


SIGNS = {name: (frozenset(sign["words"].split()), sign["eastern"].split()) for name, sign in _KEPT["signs"].items()}
CUES = {name: Cue(frozenset(cue["words"].split()), _compiled(cue["phrases"])) for name, cue in _KEPT["cues"].items()}
PHRASES = {name: _compiled(phrases) for name, phrases in _KEPT["phrases"].items()}
