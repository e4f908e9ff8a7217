"""The phrase table: ways to state a fact of which only one can be true, and that it has ended, from the vocabulary.

A row has a subject key, the fact as a sentence, and phrases in each language. Of facts with the same ``about`` only the
latest is valid. Every pattern is bounded, so that the time is linear in the length of the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Struct

from contextinfinity.domain.memory import MemoryKind
from contextinfinity.text.vocabulary import whole

_GROUP: Final = re.compile(r"\(\?P<(\w)>")


class Row(Struct, frozen=True):
    """One fact that can be stated about a user, and its phrases."""

    kind: MemoryKind
    weight: int
    about: str
    fact: str
    pattern: re.Pattern[str]
    never: re.Pattern[str]
    """Values that exclude a match."""
    ends: tuple[str, ...] = ()
    """The kinds of facts of which it ends the one with the same value."""


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    kind: MemoryKind
    weight: int
    about: str
    fact: str
    en: tuple[str, ...] = ()
    de: tuple[str, ...] = ()
    fr: tuple[str, ...] = ()
    es: tuple[str, ...] = ()
    never: str = "(?!)"
    ends: tuple[str, ...] = ()


class _FactsFile(Struct, frozen=True, forbid_unknown_fields=True):
    fragments: dict[str, str]
    row: tuple[_Written, ...]


def _read() -> tuple[Row, ...]:
    text = files("contextinfinity.text.vocabulary").joinpath("facts.toml").read_text(encoding="utf-8")
    file = msgspec.convert(tomllib.loads(text), _FactsFile)
    return tuple(_row(written, file.fragments) for written in file.row)


def _row(written: _Written, fragments: Mapping[str, str]) -> Row:
    ways = (*written.en, *written.de, *written.fr, *written.es)
    # A group name must be unique in a pattern, so the groups of each phrase are numbered.
    numbered = [_GROUP.sub(rf"(?P<\g<1>{place}>", whole(way, fragments)) for place, way in enumerate(ways)]
    return Row(
        kind=written.kind,
        weight=written.weight,
        about=written.about,
        fact=written.fact,
        pattern=re.compile("|".join(numbered), re.I),
        never=re.compile(whole(written.never, fragments), re.I),
        ends=written.ends,
    )


TABLE: Final = _read()
