"""Exact words: words with a digit, code identifiers, paths and quoted phrases. They match themselves only.

``item-3`` is not found in ``item-33``, ``1.2`` not in ``1.2.3``. Case makes no difference. Plain words joined by a
slash or a hyphen (``and/or``, ``well-known``) are ordinary words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

MOST = 8
LONGEST = 200
FEW = 5
"""A plain number or name distinguishes texts only if at most this many contain it."""
_STRONG = re.compile(r"[^\W\d_].*[\d_/\\.:-]|[\d_/\\.:-].*[^\W\d_]")
"""A letter together with a digit or a code character."""
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』\n]{2,80})[\"“”»」』]|`([^`\n]{1,80})`")
_TOKEN = re.compile(r"[\w~@#$€£%+./\\:,-]+")
_PLAIN = re.compile(r"[^\W\d_]+(?:['’/-][^\W\d_]+)?|(?:[^\W\d_]\.)+[^\W\d_]?|[^\W\d_]+(?:-[^\W\d_]+)+")
_IDENTIFIER = re.compile(r"\d|_|[^\W\d_][./\\:]+[^\W_]|^[./\\~]|[a-z][A-Z]|[/\\]")
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th)")


def exact_words(text: str, times: Collection[str] = ()) -> tuple[str, ...]:
    """Return the distinct exact words of a question in lower case; ``times`` are its phrases that name a time."""
    quoted = [(match[1] or match[2]).strip() for match in _QUOTED.finditer(text)]
    left = _QUOTED.sub(" ", text)
    for time in times:
        left = left.replace(time, " ")
    tokens = (match.group().strip(".,:-+#@").removesuffix("/") for match in _TOKEN.finditer(left))
    found = [token for token in tokens if _is_exact(token)]
    lowered = (each.lower() for each in (*quoted, *found) if 0 < len(each) <= LONGEST)
    return tuple(dict.fromkeys(lowered))[:MOST]


def _is_exact(token: str) -> bool:
    if _PLAIN.fullmatch(token) and not re.search(r"[a-z][A-Z]", token):
        return False
    return _IDENTIFIER.search(token) is not None and _ORDINAL.fullmatch(token) is None


def holding(words: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Return for each text how many of the words it contains.

    A plain number (15, 60%, 5.3.0) or a mixed-case name (JavaScript) that many texts contain does not distinguish
    them and is ignored.
    """
    counts, lowered = [0] * len(texts), [text.lower() for text in texts] if words else []
    for word in words:
        parts = word.split()
        written = r"\s+".join(map(re.escape, parts))
        found = re.compile(rf"(?<!\w)(?<!\d[.-]){written}(?!\w|[.-]\d)")
        rows = [row for row, text in enumerate(lowered) if parts[0] in text and found.search(text)]
        if len(rows) <= FEW or len(parts) > 1 or _STRONG.search(word):
            for row in rows:
                counts[row] += 1
    return counts
