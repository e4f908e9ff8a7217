"""Summarise a text in a few words: its distinctive words in order, and a one-line summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from contextinfinity.text import cues
from contextinfinity.text.entities import entities
from contextinfinity.text.orders import neutral

LONGEST = 2_000
"""The number of characters of a text that are read."""
SUMMARY = 160
"""The maximum number of characters of a summary."""
_NAMED = 5
"""The number of names that a summary adds to the first sentence."""
_NAMING = 400
"""The number of characters that are searched for names."""
_FIRST = 110

_WORD = re.compile(r"[^\W_]+(?:[._/'’@:-][^\W_]+)*")
_SENTENCE = re.compile(r"(?:[^.!?…。！？]|[.!?…](?!\s|$))++(?:[.!?…]++|[。！？])?")
_DECORATION = re.compile(r"^[\s#>*+•–|`~=_/%;!-]*(?:\d{1,3}[.)]\s+)?[*_`]*|[\s*`|_/]+$")
_PASSED_OVER = re.compile(r"\s*(?:```|~~~|#!|<!--|<\?xml|<!doctype)", re.I)
"""Lines that say nothing about the text."""
_SHORTEST = 12
"""Shorter sentences may be abbreviations and are continued."""
_GREETING = re.compile(
    r"""(?:(?:oh|ah|well|so|hey|hi|hello|sure|certainly|of\ course|absolutely|great|good|nice|thanks|thank\ you
    |ok(?:ay)?|yes|no|yeah|wow|perfect|right|got\ it|i\ see|here\ you\ go
    |hallo|danke|klar|gerne|bonjour|merci|hola|gracias)\b
    (?:\ (?:question|point|idea|job|you|there|so\ much|again|\w+))?[\s,.!–—:-]*){1,3}$""",
    re.X | re.I,
)
_DEFINED = re.compile(
    r"""^[ \t]*(?:
      (?:(?:export|default|async|pub(?:\(\w+\))?|public|private|protected|internal|static|abstract|final|sealed|const|unsafe
        |inline|extern|data|open|partial|declare|override|virtual)\s+){0,5}
      (?:(?:def|class|fn|function\*?|struct|interface|enum|trait|type|record|object|fun|sub|module|namespace)\s+(\w+)
        |func\s+(?:\([^()\n]{0,60}\)\s*)?(\w+)
        |(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:function\b|\([^()\n]{0,120}\)\s*=>|\w+\s*=>))
      | create\s+(?:or\s+replace\s+)?(?:\w+\s+){0,2}?(?:table|view|function|procedure|index|trigger|type)\s+
        (?:if\s+not\s+exists\s+)?([\w.]+)
      | (?!(?:if|for|while|switch|catch|return|else|do|with|elif)\b)(?:[\w:<>\[\],]{1,40}[ \t*&]+){0,4}?(\w+)
        [ \t]*\([^(){};\n]{0,160}\)[^;(){}\n]{0,40}\n?\{
    )""",
    re.M | re.X | re.I,
)


def words(text: str, most: int, known: Iterable[str] = ()) -> list[str]:
    """Return the distinctive words of a text in order, without repetitions and without the ``known`` ones."""
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
    """Return all words of a text in lower case."""
    return {word.lower() for word in _WORD.findall(text)}


def summary_of(text: str, *, code: bool = False, call: str = "") -> str:
    """Summarise a text in one line: for code its definitions, for a tool result the ``call``, otherwise the first
    meaningful sentence; then the names it mentions.
    """
    text = text.lstrip()[:LONGEST]
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
    names = dict.fromkeys(next(filter(None, match.groups())) for match in _DEFINED.finditer(text))
    return f"code: {_cut(', '.join(names), _FIRST)}" if names else ""


def _sentences(text: str) -> Iterator[str]:
    """Yield the meaningful sentences; if there are none, the first sentence."""
    spare = ""
    for line in text.splitlines():
        if _PASSED_OVER.match(line):
            continue
        begun = ""
        for match in _SENTENCE.finditer(_DECORATION.sub("", line[:LONGEST])):
            bare = " ".join(f"{begun} {match[0]}".replace("**", "").split())
            spare = spare or bare
            greets = _GREETING.match(bare[:80])
            begun = bare if len(bare) < _SHORTEST and bare.endswith(".") and not greets else ""
            if not begun and _says(bare) and not greets:
                yield bare
        if _says(begun):
            yield begun
    yield spare or " ".join(text[:SUMMARY].split())


def _says(text: str) -> bool:
    return sum(map(str.isalnum, text[:SUMMARY])) > 1


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    blank = text.rfind(" ", most // 2, most)
    return f"{text[: blank if blank > 0 else most - 1].rstrip(' ,;:·')}…"
