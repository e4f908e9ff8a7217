"""Find the part of a message that is certainly written by its author, for statements that bind or are remembered.

``own_words`` leaves out what is known to be material; a phrase it does not know lets foreign text pass. This module
asks the opposite question. Only the opening run of plain sentences is certain: it ends at the first place where other
people's words could begin, and nothing after that place counts, whatever it looks like.

Words of others can begin after
- a colon or dash, unless the words before it are the author's own label ("Decision:", "My plan:") or statement,
- a list without a label of the author,
- a line that does not end like a sentence: a title, a file name, a speaker, a prompt, an unpunctuated introduction,
- a sentence in which another person communicates, or that is about others and ends its paragraph,
- material that ``own_words`` found, except a short quotation inside a sentence.

A rule, or a later line that labels, credits or points back at what is before it, leaves nothing certain. A missed
statement costs little: it will be made again. A foreign one is obeyed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest

from contextinfinity.text.material_layout import RULE
from contextinfinity.text.own_words import SentenceUnit, is_text, own_words, sentence_units
from contextinfinity.text.word_classes import has, word_class

_INLINE = 120
"""The maximum length of a quotation that is part of a sentence."""
_INTRODUCES = re.compile(r"[:：](?=\s|$|[^\x00-\x7f]|[\"'“„«*_])|\s(?:[-–—]|--|=>|->)\s|\s\|\s|[*_]{2}:")
_END = re.compile(
    r"[.!?…。！？;；]+[\"'”’»)\]*_]{0,4}\s*$|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]\s*$|[:;]-?[)(DP]\s*$"
)
"""The end of a sentence: punctuation, a closing bracket after it, or a smiley."""
_ASKS = re.compile(r"(?<!\()[?？]\W*$")
_WORK = ("request", "rework", "handle")
_WRAPPED = 60
"""A longer line may continue on the next one."""
_THE_TEXT = re.compile(r"\b(?:the|this|that|these|those|previous|above)\b")
_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)]|\[[ xX]\]|[a-z]\))\s")
_QUALIFIERS = """
a an the one my our some any new fun quick short small hard final important main other another first second next last
also and or of for so ok well just only to be in on is ein eine der die das den mein meine unser unsere un una el la
los las mi mis nuestro le les mon ma mes notre il lo mio mia nostro o os meu minha nosso
"""
_QUALIFIER = frozenset(_QUALIFIERS.split())
"""Words beside the noun of a label; any other may be a name."""
_FOR = re.compile(r"\b(?:for|about|für|zu[mr]?|para|pour|per)\b(?: \w+){1,3}$")
"""The subject of a label: "Requirements for the export"."""
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_LABEL = 4
"""The maximum number of words of a label."""
_REMARK = 9
"""The maximum number of words of a remark between the author's own sentences: "That sounds great!"."""
_REACH = 200
"""The number of characters before a verb in which its subject is looked for."""


@lru_cache(maxsize=256)
def plain_prose(message: str) -> str:
    """Return the message with all but its certainly own sentences replaced by spaces, at the same positions."""
    own = own_words(message)
    if len(own) != len(message):
        return ""
    end = _first_material(message, own)
    parts = [*sentence_units(own)]
    if any(map(RULE.match, message.splitlines())) or _credits_earlier_text(parts):
        return " " * len(message)
    listed = False
    for unit, following in zip_longest(parts, parts[1:]):
        border = _possible_end_of_own_words(unit, following, listed=listed)
        listed = _is_list_head(unit.text) or (listed and _ITEM.match(unit.text) is not None)
        if border is not None or unit.start >= end:
            end = min(end, unit.start if border is None else border)
            break
    return own[:end] + " " * (len(own) - end)


def _first_material(message: str, own: str) -> int:
    """Return where the first material longer than a quotation inside a sentence begins."""
    place = 0
    while place < len(message):
        if own[place] == message[place]:
            place += 1
            continue
        start = place
        while place < len(message) and (own[place] != message[place] or message[place].isspace()):
            place += 1
        if "\n" in message[start:place].strip() or place - start > _INLINE or message[start] not in "\"'`“„«‘「『《":
            return start
    return len(message)


def _possible_end_of_own_words(unit: SentenceUnit, following: SentenceUnit | None, *, listed: bool) -> int | None:
    """Return where the words of others may begin, seen from one sentence; None if the author certainly continues."""
    text = unit.text
    if _ITEM.match(text) and not listed:
        return unit.start
    label = _INTRODUCES.search(text)
    if (label and not _is_own_head(text[: label.start()], dash=label[0][:1].isspace())) or _is_said_by_others(text):
        return unit.start
    if following is None or _is_wrapped(unit, following) or (listed and _ITEM.match(text)):
        return None
    if unit.closed and _is_list_head(text):
        return None if _ITEM.match(following.text) else unit.end
    if unit.closed and not (_END.search(text) and _is_personal(text)):
        return unit.end
    return None if _is_personal(text) or len(text.split()) <= _REMARK else unit.end


def _is_own_head(head: str, *, dash: bool) -> bool:
    """Return whether the words before a colon are a label of the author, or those before a dash their own words."""
    if dash and has("subject", head):
        return not any(has(each, head) for each in ("text", "presents", "this", "says"))
    topic = word_class("topic").search(head)
    if topic is None and _WORD.search(word_class("polite").sub(" ", head)):
        return False
    left = word_class("polite").sub(" ", word_class("topic").sub(" ", _FOR.sub("", head)))
    return 0 < len(head.split()) <= _LABEL and all(word in _QUALIFIER for word in _WORD.findall(left))


def _is_list_head(text: str) -> bool:
    """Return whether a line is a label of its own, such as "Requirements:"."""
    return text.rstrip().endswith((":", "："))


def _is_said_by_others(text: str) -> bool:
    """Return whether another person than the author communicates in a sentence."""
    if has("according", text):
        return True
    for says in word_class("says").finditer(text):
        reach = 20 if has("tells", says[0]) else _REACH
        clause = re.split(r"[,;]", text[max(0, says.start() - reach) : says.start()])[-1]
        if not has("subject", clause) and not text.startswith(" to ", says.end()):
            return True
    return False


def _is_personal(text: str) -> bool:
    """Return whether a sentence is about its author, addresses the assistant, or is a greeting."""
    if has("self", text) or has("request", text) or _ASKS.search(text):
        return True
    return not _WORD.search(word_class("polite").sub(" ", text))


def _is_wrapped(unit: SentenceUnit, following: SentenceUnit) -> bool:
    """Return whether a line continues on the next one."""
    if unit.closed != 1 or _END.search(unit.text) or _ITEM.match(following.text):
        return False
    return len(unit.text) > _WRAPPED or (following.lower and has("self", unit.text))


def _credits_earlier_text(units: list[SentenceUnit]) -> bool:
    """Return whether a later sentence or line credits, labels or works on the text before it."""
    for unit in units[1:]:
        text = unit.text
        label = _INTRODUCES.search(text)
        head = text[: label.start()] if label else ""
        if unit.seam and 0 < len(head.split()) <= _LABEL and (_ASKS.search(text) or not _is_own_head(head, dash=False)):
            return True
        if not _ASKS.search(text) and not any(has(each, text) for each in _WORK):
            continue
        if (_THE_TEXT.search(text) and is_text(text)) or (unit.seam and (has("this", text) or has("that", text))):
            return True
    last = units[-1] if units else None
    if last is None or not last.seam or _END.search(last.text) or _ITEM.match(last.text):
        return False
    return not _is_personal(last.text)
