"""The words of ``vocabulary.toml``, compiled into one pattern per purpose for all languages."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

Purpose: TypeAlias = Literal["asks", "yours", "lists", "changes", "capitalises"]


@cache
def pattern(purpose: Purpose) -> re.Pattern[str]:
    """Return the pattern that matches any word or phrase of a purpose, in any language."""
    languages = tomllib.loads((files(__package__) / "vocabulary.toml").read_text(encoding="utf-8")).values()
    found: dict[bool, list[str]] = {unspaced: [] for unspaced in (False, True)}
    for language in languages:
        found[bool(language.get("unspaced"))] += language.get(purpose, ())
    return re.compile("|".join([rf"\b(?:{'|'.join(found[False])})\b", *found[True]]), re.I)
