"""Exact words: words with a digit, code identifiers, paths and quoted phrases. They match themselves only.

``item-3`` is not found in ``item-33``, ``1.2`` not in ``1.2.3``. Case makes no difference. Plain words joined by a
slash or a hyphen (``and/or``, ``well-known``) are ordinary words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

MOST = 8
LONGEST = 200
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』\n]{2,80})[\"“”»」』]|`([^`\n]{1,80})`")
_TOKEN = re.compile(r"[\w~@#$€£%+./\\:,-]*\w[\w%+/\\]*")
_PLAIN = re.compile(r"[^\W\d_]+(?:['’/-][^\W\d_]+)?|(?:[^\W\d_]\.)+[^\W\d_]?|[^\W\d_]+(?:-[^\W\d_]+)+")
_IDENTIFIER = re.compile(r"\d|_|[^\W\d_][./\\:]+[^\W_]|^[./\\~]|[a-z][A-Z]|[/\\]")
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th)")


def exact_words(text: str, times: Collection[str] = ()) -> tuple[str, ...]:
    """Return the exact words of a question, in lower case, each once; ``times`` are its phrases that name a time."""
    quoted = [(match[1] or match[2]).strip() for match in _QUOTED.finditer(text)]
    left = _QUOTED.sub(" ", text)
    for time in times:
        left = left.replace(time, " ")
    tokens = (match.group().strip(".,:-").removesuffix("/") for match in _TOKEN.finditer(left))
    found = [token for token in tokens if _is_exact(token)]
    lowered = (each.lower() for each in (*quoted, *found) if 0 < len(each) <= LONGEST)
    return tuple(dict.fromkeys(lowered))[:MOST]


def _is_exact(token: str) -> bool:
    if _PLAIN.fullmatch(token) and not re.search(r"[a-z][A-Z]", token):
        return False
    return _IDENTIFIER.search(token) is not None and _ORDINAL.fullmatch(token) is None


def exact_patterns(words: Sequence[str]) -> list[tuple[str, re.Pattern[str]]]:
    """Return for each exact word itself and a pattern that finds it in a text in lower case."""
    return [(word, re.compile(rf"(?<!\w)(?<!\d[.-]){_spaced(word)}(?!\w|[.-]\d)")) for word in words]


def held(patterns: Sequence[tuple[str, re.Pattern[str]]], text: str) -> int:
    """Return how many of the words a text holds."""
    low = text.lower()
    return sum(1 for word, found in patterns if (" " in word or word in low) and found.search(low))


def _spaced(word: str) -> str:
    return r"\s+".join(map(re.escape, word.split()))
