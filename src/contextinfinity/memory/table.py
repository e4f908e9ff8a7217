"""The ways to say what can be true once, and that it is over, read from the vocabulary.

A row is what it is about, the fact as a sentence, and the ways to say it in each language. Rows with one ``about`` are
about what can be true once: the later one is valid. Every pattern is bounded, so that time grows with the text.
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
    """One thing that can be said of somebody, and how."""

    kind: MemoryKind
    weight: int
    about: str
    fact: str
    pattern: re.Pattern[str]
    never: re.Pattern[str]
    """What is named then is not meant."""
    ends: tuple[str, ...] = ()
    """The sorts of facts of which it ends the one that names the same."""


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
    # A pattern may have a name only once, so the groups of each way are numbered.
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
