"""The words of ``vocabulary.toml``, compiled into one pattern per purpose for all languages."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

Purpose: TypeAlias = Literal["asks", "yours", "lists", "changes"]


@cache
def pattern(purpose: Purpose) -> re.Pattern[str]:
    """Return the pattern that matches any word or phrase of a purpose, in any language."""
    languages = tomllib.loads((files(__package__) / "vocabulary.toml").read_text(encoding="utf-8")).values()
    spaced = [each for language in languages if not language.get("unspaced") for each in language[purpose]]
    unspaced = [each for language in languages if language.get("unspaced") for each in language[purpose]]
    return re.compile(rf"\b(?:{'|'.join(spaced)})\b|{'|'.join(unspaced)}", re.I)
