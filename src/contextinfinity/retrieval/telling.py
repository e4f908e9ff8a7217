"""What a text is about, in a few words: the words that tell, in their order, and a line that stands for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from contextinfinity.text import cues
from contextinfinity.text.entities import entities
from contextinfinity.text.orders import neutral

LONGEST = 2_000
"""Characters of a text that are looked at."""
SUMMARY = 160
"""Characters of a line at most."""
_NAMED = 5
"""Things beside the first sentence that a line names."""
_NAMING = 800
"""Characters in which they are looked for."""
_FIRST = 110

_WORD = re.compile(r"[^\W_]+(?:[._/'’@:-][^\W_]+)*")
_SENTENCE = re.compile(r"(?:[^.!?…。！？]|[.!?…](?!\s|$))++(?:[.!?…]++|[。！？])?")
_DECORATION = re.compile(r"^[\s#>*+•–|`~=_-]+(?:\d{1,3}[.)]\s)?|[\s*`|_]+$")
_GREETING = re.compile(
    r"""(?:(?:oh|ah|well|so|hey|hi|hello|sure|certainly|of\ course|absolutely|great|good|nice|thanks|thank\ you
    |ok(?:ay)?|yes|no|yeah|wow|perfect|right|got\ it|i\ see|here\ you\ go
    |hallo|danke|klar|gerne|bonjour|merci|hola|gracias)\b
    (?:\ (?:question|point|idea|job|you|there|so\ much|again|\w+))?[\s,.!–—:-]*){1,3}$""",
    re.X | re.I,
)
_DEFINED = re.compile(
    r"^\s*(?:[\w()]+\s+){0,3}(?:def|class|fn|func|function|struct|interface|enum|trait|type)\s+(\w+)", re.M
)


def words(text: str, most: int, known: Iterable[str] = ()) -> list[str]:
    """Give the telling words of a text in their order, each once, without those that are known."""
    seen = set(known)
    found: list[str] = []
    for word in _WORD.findall(text[:LONGEST]):
        low = word.lower()
        if low not in seen and cues.carries_content(low):
            seen.add(low)
            found.append(word)
            if len(found) == most:
                break
    return found


def lowered(text: str) -> set[str]:
    """Give all words of a text, small."""
    return {word.lower() for word in _WORD.findall(text)}


def summary_of(text: str, *, code: bool = False, call: str = "") -> str:
    """Say in a line what a text is: for code what it defines, for a result the ``call``, else its first telling
    sentence; then what it names."""
    text = text[:LONGEST]
    first = (_definitions(text) if code else "") or _cut(next(_sentences(text), ""), _FIRST)
    if call:
        first = f"{_cut(call, _FIRST // 2)}: {_cut(first, _FIRST // 2)}"
    named: dict[str, None] = {}
    for found in entities(text[:_NAMING]):
        opens = found.kind == "name" and not text[max(0, found.start - 2) : found.start].strip(" -*#>\n\r\t")
        if len(named) < _NAMED and found.text not in first and 2 < len(found.text) <= 60 and not opens:
            named[found.text] = None
    return _cut(neutral(" · ".join([first, ", ".join(named)] if named else [first])), SUMMARY)


def _definitions(text: str) -> str:
    names = dict.fromkeys(_DEFINED.findall(text))
    return f"code: {_cut(', '.join(names), _FIRST)}" if names else ""


def _sentences(text: str) -> Iterator[str]:
    """Give the sentences that say something, then, if there is none, the first that is there."""
    spare = ""
    for line in text.splitlines():
        for match in _SENTENCE.finditer(_DECORATION.sub("", line)):
            bare = " ".join(match[0].split())
            spare = spare or bare
            if bare and not _GREETING.match(bare[:80]):
                yield bare
    if spare:
        yield spare


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1].rsplit(' ', 1)[0][: most - 1].rstrip(' ,;:·')}…"
