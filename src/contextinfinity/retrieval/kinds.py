"""What kind of thing a chunk is, by who said it and how. Doubtful cases are Other: a kind is there to filter by."""

from __future__ import annotations

import re

from contextinfinity.domain.chunk import ChunkType
from contextinfinity.domain.sides import Side

LONGEST = 8_000
"""Characters that are looked at."""
_EXPLAINS = 12
"""Words from which an answer explains something."""

_DECIDES = re.compile(
    r"""
    \b(?:we|i|they|the\ team)(?:['’]ve|\ have|['’]re|\ are|\ will|['’]ll)?\ (?:now\ |all\ |finally\ |just\ )?
      (?:decided|agreed|chose|settled|opted|picked|go(?:ing)?\ with|stick(?:ing)?\ with|will\ use|going\ to\ use)\b
    | \blet['’]?s\ (?:go\ with|use|stick\ (?:with|to)|take|settle\ on|do\ it)\b
    | \b(?:decision|agreed|decided|final\ (?:choice|answer))\ ?: | \bthe\ (?:final\ )?decision\ (?:is|was)\b
    | \bit\ (?:is|was)\ (?:decided|agreed|settled)\b | \bwe['’]?\ ?(?:will|['’]ll)\ (?:use|go\ with|take|keep)\b
    | \b(?:entschieden|beschlossen|vereinbart)\b | \bwir\ (?:nehmen|bleiben\ (?:bei|dabei)|haben\ uns\ auf)\b
    | \b(?:on\ a|nous\ avons|j['’]ai)\ (?:décidé|choisi|opté) | \bon\ (?:part\ sur|prend|garde)\b
    | \b(?:hemos|he)\ (?:decidido|elegido|acordado)\b | \bvamos\ (?:con|a\ usar)\b | \babbiamo\ deciso\b | \bdecidimos\b
    | мы\ решили | решено | 决定 | 決定 | 決めた | 就用
    """,
    re.X | re.I,
)
_HINTS = (
    "decid", "agreed", "chose", "settle", "opted", "picked", "go with", "going with", "stick", "will use", "ll use",
    "will go", "ll go", "will take", "ll take", "will keep", "ll keep", "to use", "let's", "let’s", "lets ", "decision",
    "final", "entschieden", "beschlossen", "vereinbart", "wir ", "décidé", "choisi", "opté", "on part", "on prend",
    "on garde", "elegido", "acordado", "vamos ", "deciso", "решили", "решено", "决定", "決定", "決めた", "就用",
)  # fmt: skip
"""One of them is in every text in which something is decided; most texts have none, and looking for them is quick."""
_UNDECIDED = re.compile(r"\b(?:not|n['’]t|never|yet\ to|should|could|would|if|whether|nicht|pas|sin)\b|\?", re.I)
_ENDS = re.compile(r"[.!?\n。！？]")


def kind_of(text: str, side: Side, *, code: float, result: float) -> ChunkType:
    """Name the kind; ``code`` and ``result`` are the shares of the text that are code and results of tools."""
    if result >= 0.5:
        return "ToolResult"
    if code >= 0.5:
        return "Code"
    some = text[:LONGEST]
    if decides(some):
        return "Decision"
    if side == "user":
        return "UserContext" if _states(some) else "Other"
    return "Explanation" if len(some.split()) >= _EXPLAINS or _far_eastern(some) else "Other"


def decides(text: str) -> bool:
    """Tell whether something is decided, rather than asked, doubted or not decided."""
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return False
    for found in _DECIDES.finditer(text):
        start = max(0, found.start() - 30)
        for end in _ENDS.finditer(text, start, found.start()):
            start = end.end()
        stop = _ENDS.search(text, found.end(), found.end() + 200)
        if not _UNDECIDED.search(text[start : stop.end() if stop else found.end() + 200]):
            return True
    return False


def _states(text: str) -> bool:
    """Tell whether a message says anything beside what it asks."""
    start = 0
    for end in _ENDS.finditer(text):
        if end[0] not in "?？" and len(text[start : end.end()].split()) > 3:
            return True
        start = end.end()
    rest = text[start:]
    return len(rest.split()) > 3 or (_far_eastern(rest) and "？" not in rest)


def _far_eastern(text: str) -> bool:
    return sum("\u3040" <= sign <= "\u9fff" or "\uac00" <= sign <= "\ud7af" for sign in text[:200]) >= 12
