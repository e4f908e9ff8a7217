"""Word classes that introduce text which is not the user's own, read from ``vocabulary/material.toml``.

A class has one pattern with the terms of all languages: whole words, or plain characters in scripts without spaces. The
patterns match lower-case text. Compiling them takes a tenth of a second: import this module off the event loop.
"""

from __future__ import annotations

import re

from contextinfinity.text.vocabulary import tables

DENSE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
"""Characters of scripts without spaces between words."""
_ATOMS = {"*": r"\w{0,20}", "'": "['’]"}
_SIGNS = (
    *("rework", "handle", "text", "machine", "says", "according", "presents", "follows", "fiction", "part", "suppose"),
    *("grammar", "bare", "this", "from"),
)
"""The classes of words that introduce material."""


def word_class(name: str) -> re.Pattern[str]:
    """Return the pattern of a class; "sign" matches all classes that introduce material."""
    return _CLASSES[name]


def has(name: str, text: str) -> bool:
    """Return whether a text in lower case has a word of a class."""
    return _CLASSES[name].search(text) is not None


def lower(text: str) -> str:
    """Return the text in lower case if that preserves all positions."""
    small = text.lower()
    return small if len(small) == len(text) else text


def _load() -> dict[str, re.Pattern[str]]:
    classes: dict[str, set[str]] = {}
    for table in tables("material").values():
        for name, listed in table.items():
            classes.setdefault(name, set()).update(term.strip() for term in str(listed).split(","))
    classes["sign"] = set().union(*(classes[name] for name in _SIGNS))
    return {name: re.compile(_pattern(terms)) for name, terms in classes.items()}


def _pattern(terms: set[str]) -> str:
    dense = [[*term] for term in terms if DENSE.search(term)]
    words = [[*term] for term in terms if not DENSE.search(term)]
    return rf"\b{_alternation(words)}(?!\w)" + (f"|{_alternation(dense)}" if dense else "")


def _alternation(terms: list[list[str]]) -> str:
    """Return a pattern that matches shared prefixes once and prefers longer terms."""
    endings: dict[str, list[list[str]]] = {}
    for term in sorted(terms, reverse=True):
        endings.setdefault(term[0] if term else "", []).append(term[1:])
    parts = [_ATOMS.get(c, re.escape(c)) + (_alternation(rest) if any(rest) else "") for c, rest in endings.items()]
    return f"(?:{'|'.join(parts)})"


_CLASSES = _load()
