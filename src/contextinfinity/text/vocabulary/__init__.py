"""The vocabulary of the language rules as data: one TOML file per language, and one for names.

A table holds rows. A row written as text is a set of words; a row written as a list is a tuple of phrases or patterns.
The rules read the tables once; to add a word, edit the file of its language.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

LANGUAGES: Final = ("en", "de", "es", "fr", "it", "pt", "zh", "ja")

_FRAGMENT: Final = re.compile(r"<<(\w+)>>")

Table = Mapping[str, frozenset[str]]


@cache
def tables(name: str) -> Mapping[str, Mapping[str, str | list[str]]]:
    """Return the tables of a vocabulary file."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def words(name: str, table: str) -> Table:
    """Return the rows of a table as sets of words; an unknown table has no rows."""
    rows = tables(name).get(table, {})
    return {key: frozenset(row.split() if isinstance(row, str) else row) for key, row in rows.items()}


@cache
def phrases(name: str, table: str) -> Mapping[str, tuple[str, ...]]:
    """Return the rows of a table in their order; an unknown table has no rows."""
    rows = tables(name).get(table, {})
    return {key: tuple(row.split() if isinstance(row, str) else row) for key, row in rows.items()}


@cache
def everywhere(table: str, row: str) -> frozenset[str]:
    """Return a row of all languages as one set."""
    return frozenset().union(*(words(language, table).get(row, frozenset()) for language in LANGUAGES))


@cache
def patterns(name: str) -> Mapping[str, re.Pattern[str]]:
    """Return the compiled patterns of a file, with alternatives joined and fragments inserted; case is ignored."""
    file = tables(name)
    fragments = {key: str(row) for key, row in file["fragments"].items()}
    return {key: re.compile(whole("|".join(row), fragments), re.I) for key, row in file["patterns"].items()}


def whole(pattern: str, fragments: Mapping[str, str]) -> str:
    """Insert the fragments of a pattern; ``<<name>>`` refers to one."""
    while _FRAGMENT.search(pattern):
        pattern = _FRAGMENT.sub(lambda named: fragments[named[1]], pattern)
    return pattern
