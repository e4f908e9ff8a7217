"""Classify a chunk by its speaker and wording. Doubtful cases are ``Other``, because the kind is used as a filter."""

from __future__ import annotations

import re

from contextinfinity.domain.search import ChunkType
from contextinfinity.domain.turn import Side

LONGEST = 8_000
"""The number of characters that are read."""
_EXPLAINS = 12
"""The minimum number of words of an explanation."""

_DECIDES = re.compile(
    r"""
    \b(?:we|i|they|the\ team)(?:['’]ve|\ have|['’]re|\ are|\ will|['’]ll)?\ (?:now\ |all\ |finally\ |just\ )?
      (?:decided|agreed|chose|settled\ (?:on|for)|opted|picked(?!\ up)|go(?:ing)?\ with|stick(?:ing)?\ with|will\ use
      |going\ to\ use)\b
    | \blet['’]?s\ (?:go\ with|stick\ (?:with|to)|settle\ on|do\ it)\b
    | \blet['’]?s\ (?:use|take)\ (?!an?\b|this\b|these\b|some\b|another\b)
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
"""Every text with a decision contains one of these; most texts contain none, and the check is fast."""
_UNDECIDED = re.compile(r"(?:\b(?:not|never|should|could|would|if|whether|nicht|pas|sin)|n['’]t|\byet\ to)\b|\?", re.I)
_OPEN = re.compile(r"\b(?:nothing|yet|if|whether|should|could|would)\b|\?", re.I)
"""Words after a decision that revoke it; a decision *not* to do something is a decision."""
_FEWEST = 2
"""Sentences of up to this many words state nothing."""
_ASKS = ("?", "？", "؟", "か。", "吗。", "吗", "呢。")
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_ENDS = re.compile(r"[.!?\n。！？؟]")


def kind_of(text: str, side: Side, *, code: float, result: float) -> ChunkType:
    """Return the kind; ``code`` and ``result`` are the shares of the text that are code and tool results."""
    if result >= 0.5:
        return "ToolResult"
    if code >= 0.5:
        return "Code"
    some = text[:LONGEST]
    if decides(some):
        return "Decision"
    if side == "user":
        return "UserContext" if _states(some) else "Other"
    return "Explanation" if _words(some) >= _EXPLAINS else "Other"


def decides(text: str) -> bool:
    """Return whether the text states a decision, and not a question, a doubt or an open decision."""
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return False
    for found in _DECIDES.finditer(text):
        start = max(0, found.start() - 30)
        for end in _ENDS.finditer(text, start, found.start()):
            start = end.end()
        stop = _ENDS.search(text, found.end(), found.end() + 200)
        after = text[found.end() : stop.end() if stop else found.end() + 200]
        if not _UNDECIDED.search(text[start : found.end()]) and not _OPEN.search(after):
            return True
    return False


def _states(text: str) -> bool:
    """Return whether a message contains a statement besides its questions."""
    start = 0
    for end in [*(match.end() for match in _ENDS.finditer(text)), len(text)]:
        sentence = text[start:end].strip()
        if sentence and not sentence.endswith(_ASKS) and _words(sentence) > _FEWEST:
            return True
        start = end
    return False


def _words(text: str) -> int:
    """Count words; in scripts without spaces two characters count as one."""
    return len(text.split()) + len(_WITHOUT_BLANKS.findall(text[:LONGEST])) // 2
