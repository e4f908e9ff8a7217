"""Split a message into the user's own words and material: quotations, files, mails, logs, stories.

The result is the same text with the material replaced by spaces, so positions stay valid, and the material itself.
Material is never attributed to the user: every consumer that reads a message for decisions, constraints, memories or
topic changes uses this module.

1. Delimited material is found by its layout: fences, quoted lines, elements, quotation marks, lines of logs and code.
2. An introduction (a task on a text, a label, reported speech, a fictional frame, a letter's opening) makes everything
   after it material, unless delimited material follows. A task at the end makes everything before it material.
3. The user's own words resume only if a closing part of the message is certainly theirs: it asks or orders something,
   contrasts itself with the text, or has another layout.

A message without such cues is the user's own. In doubt, text is material: a missed memory costs little, a false one
misleads the model. The vocabulary is in ``vocabulary/material.toml``. Time is linear in the length; only the beginning
and the end of a very long message are read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.text.material_layout import QUOTE_MARKS, RULE, TITLE_WORDS, Span, blanked, delimited, joined
from contextinfinity.text.word_classes import DENSE, has, lower, word_class

READ = 10_000
"""The number of characters of a message that are read from either end."""

_Kind: TypeAlias = Literal["task", "source", "inline", "clause"]
"""A text to work on, a document, quoted speech in the same line, or one reported clause."""

_BRACKETED = re.compile(r"\W{0,3}[\[(]([^\])\n]{1,60})[\])]\s*")
_UNIT_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}(?=\s)|[。！？]++[”’」』）]?|\n"
    r"|(?<=\s)(?:—|--+|~+|\|+|//+|→|[-=]>|<<+|>>+)(?=\s)|$"
)
_FOREIGN = re.compile(
    r"\b(?!(?:let|it|that|here|there|what|where|how|who|s?he|today|tomorrow|yesterday|week|month|year)['’])\w+['’]s\b"
    r"|s['’] "
)
"""A genitive: the text of another person."""
_COLON = re.compile(r"[:：](?=\s|$|[^\x00-\x7f]|[\"'“„«])|\s[-–—]\s")
_ASKS = re.compile(r"[?？][\W]*$|[吗呢か][。\s]*$")
_INDEFINITE = re.compile(
    r"\b(?:an?|some|any|no|eine?[nmrs]?|kein\w{0,2}|un|une|una|uma?|uno|unos|unas|des|alg\w{1,5})\s+(?:[\w-]+\s+){0,2}$"
    r"|一[个封篇份段首]$"
)
_THAT = re.compile(r"(?<!\bso )\b(?:that|que|che|dat)\b|\bqu['’]|, ?da(?:ss|ß)\b")
"""The start of a subordinate clause."""
_NOUN_PHRASE = re.compile(
    r"\b(?:the|an?|my|our|his|her|their|d(?:er|ie|as|em|en)|im|ein\w{0,2}|mein\w{0,2}|unser\w{0,2}|l[ea]s?|une?|m(?:on|a|es)"
    r"|el|los|mis?|il|lo|nel|o|os|het|mijn)\b"
)
"""An article or a possessive: the subject is another person or thing."""
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_WORD = re.compile(r"\w")
_SIGN = re.compile(r"\S")
_LONG = 1_000
"""The number of characters of a sentence that are read."""
_HEAD = 200
"""The number of characters before a colon that are read."""
_COLONS = 4
"""The number of colons of a sentence that are read."""
_MOST_SPANS = 50
"""After this many spans the rest of a message is material."""
_LONG_HEAD = 3
"""From this many words before a colon, they are not a heading of the user's own."""


class OwnAndQuoted(Struct, frozen=True):
    """A message split into own words and material.

    ``own`` is as long as the message, with spaces in place of the material, which follows in order of appearance. For a
    message longer than ``2 * READ``, both cover only its beginning and end.
    """

    own: str
    material: tuple[str, ...]


class SentenceUnit(Struct, frozen=True):
    """A sentence or a line outside delimited material.

    ``seam`` says what is before it: 0 a sentence, 1 a line break, 2 a blank line, a rule or a separator.
    ``closed`` says what follows: 0 a sentence, 1 a line break or a separator, 2 a blank line.
    ``lower`` says whether it begins with a small letter.
    """

    start: int
    end: int
    text: str
    seam: int
    closed: int
    lower: bool


def own_words(message: str) -> str:
    """Return the message with all material replaced by spaces, at the same positions."""
    return split(message).own


def split(message: str) -> OwnAndQuoted:
    """Split a message into own words and material."""
    if len(message) > 2 * READ:
        end = len(message) - READ
        message = message[:READ] if _may_be_delimited(message, end) else f"{message[:READ]}\n\n{message[end:]}"
    return _split(message)


@lru_cache(maxsize=256)  # routing, memories and folds process the same messages
def _split(message: str) -> OwnAndQuoted:
    shown, opening = delimited(message)
    spans = joined([*shown, *_introduced(blanked(message, shown), message, shown, opening)])
    return OwnAndQuoted(blanked(message, spans), tuple(message[start:end] for start, end in spans))


def _may_be_delimited(message: str, place: int) -> bool:
    """Return whether a position of a long message may be in a fence, an element or a quoted line that began earlier."""
    line = max(message.rfind("\n", 0, place), message.rfind("\r", 0, place)) + 1
    fenced = any(message.find(mark, READ - 2, place + 2) >= 0 for mark in ("```", "~~~", "\n<"))
    return fenced or message[line : line + 8].lstrip().startswith(QUOTE_MARKS)


def _introduced(text: str, message: str, shown: list[Span], opening: int) -> list[Span]:
    """Return the spans of introduced material; in ``text`` the delimited material of the message is blank."""
    units = [*sentence_units(text)]
    spans: list[Span] = []
    done = 0
    for index, unit in enumerate(units):
        if unit.start < done:
            continue
        opened = done <= opening <= unit.start and not (spans and opening < spans[-1][1])
        introduction = _introduction(unit) if not opened else (unit.start, "source")
        if introduction is None:
            continue
        start, kind = introduction
        if kind == "clause":
            spans.append((start, unit.end))
        elif not _is_delimited(message, start, shown) and _WORD.search(text, start):
            done = _resumption(text, units, index, start, kind) if len(spans) < _MOST_SPANS else len(text)
            spans.append((start, done))
    if spans or shown or not units:
        return spans
    last = next((u for u in reversed(units) if u.seam), units[-1])
    tail = [unit for unit in units if unit.start >= last.start] if last is not units[0] else units[-1:]
    other = _line_layout(text, units[0].start) != _line_layout(text, tail[0].start)
    return [(0, tail[0].start)] if any(_points_back(unit.text, other_layout=other) for unit in tail) else []


def sentence_units(text: str) -> Iterator[SentenceUnit]:
    """Yield the sentences and lines of a text."""
    start, seam = 0, 2
    for end in _UNIT_END.finditer(text):
        words = text[start : end.end()]
        separator = not end[0] or end[0] == "\n" or end[0][0] in "—-~|/→=<>"
        if _WORD.search(words):
            closed = int(separator or text[end.end() : end.end() + 1] == "\n")
            closed += bool(closed and _BLANK_LINE.match(text, end.end() - (end[0] == "\n")))
            small = words.lstrip()[:1].islower()
            yield SentenceUnit(start, end.end(), lower(words[:_LONG]), seam, closed, small)
            seam = 0
        elif RULE.match(words) or (seam and end[0] == "\n" and not words.strip()):
            seam = 2
        if separator:
            seam = max(seam, 1 if end[0] == "\n" else 2)
        start = end.end()


def _introduction(unit: SentenceUnit) -> tuple[int, _Kind] | None:
    """Return where the material that a unit introduces begins, and its kind."""
    text = unit.text
    if not has("sign", text) and not _COLON.search(text):
        return None
    if _is_imperative("suppose", text):
        return unit.start, "task"
    if has("fiction", text[:_HEAD]) or _is_imperative("part", text):
        return unit.end if _is_imperative("orders", text) and not _COLON.search(text) else unit.start, "task"
    bracket = _BRACKETED.match(text)
    if bracket and (is_text(bracket[1]) or has("presents", bracket[1])):
        return unit.start + bracket.end(), "source"
    for colon in islice(_COLON.finditer(text), _COLONS):
        inline = bool(text[colon.end() :].strip())
        if kind := _head(text[: colon.start()][-_HEAD:], inline=inline, dash=colon[0].isspace() or " " in colon[0]):
            return unit.start + colon.end(), kind
    head = text[:_HEAD]
    if _is_task(head, closed=unit.closed > 0) or (unit.closed > 1 and _asks_about_it(head, themselves=False)):
        return unit.end, "task"
    if has("follows", head):
        return unit.end, "source"
    if (said := _reported(head)) is not None:
        return unit.start + said, "clause"
    return (unit.end, "source") if _presents_material(head, closed=unit.closed > 0) else None


def _is_imperative(name: str, text: str) -> bool:
    """Return whether a verb of a class is used as an imperative: first in its clause, or in a request."""
    for verb in islice(word_class(name).finditer(text[:_HEAD]), 8):
        before = re.split(r"[,;:(]", text[: verb.start()])[-1]
        rest = word_class("polite").sub("", word_class("request").sub("", before))
        if not _WORD.search(rest) or has("request", text[: verb.start()]) or DENSE.search(verb[0]):
            return True
    return False


def is_text(text: str, *, machine: bool = True) -> bool:
    """Return whether the text names a specific text (not "a letter") or the output of a program."""
    return any(
        not _INDEFINITE.search(text[max(0, noun.start() - 40) : noun.start()])
        for name in ("text", "machine")[: 1 + machine]
        for noun in islice(word_class(name).finditer(text), 8)
    )


def _is_task(text: str, *, closed: bool) -> bool:
    """Return whether a unit asks for work on a text; ``closed`` if its line or a colon ends after it."""
    noun = is_text(text, machine=closed)
    pointing = word_class("this").search(text)
    if has("grammar", text) and _ASKS.search(text):
        return True
    if _is_imperative("rework", text) and (closed or noun or pointing or not has("self", text)):
        return True
    if noun and (has("request", text) or (pointing and (pointing.start() > 2 or _ASKS.search(text)))):
        return not has("subject", text)
    return bool(noun or (pointing and (closed or not has("code", text)))) and _is_imperative("handle", text)


def _head(head: str, *, inline: bool, dash: bool) -> _Kind | None:
    """Return what the words before a colon or dash introduce; None if the user continues in their own words."""
    topic = dash or has("topic", head)
    if _is_task(head, closed=not dash) or (not topic and _is_imperative("handle", head)):
        return "task"
    if word_class("bare").fullmatch(head.strip()) or has("follows", head):
        return "source"
    says = [*word_class("says").finditer(head)]
    if says and not has("subject", head[max(0, says[-1].start() - 20) : says[-1].start()]):
        return "inline" if inline and not is_text(head) else "source"
    mine = word_class("self").match(head.lstrip()) and len(head.split()) < _LONG_HEAD
    if is_text(head):
        return None if mine or (dash and has("subject", head)) else "source"
    if not dash and _FOREIGN.search(head) and not has("subject", head):
        return "source"
    if topic or mine or has("subject", head) or _is_imperative("orders", head):
        return None
    if has("presents", head) or has("this", head) or has("from", head):
        return "source"
    return "inline" if inline and _word_count(head) >= _LONG_HEAD else None


def _word_count(text: str) -> int:
    """Return the number of words; in scripts without spaces, the number of characters."""
    return len(text.strip()) if DENSE.search(text) else len(text.split())


def _presents_material(text: str, *, closed: bool) -> bool:
    """Return whether a unit without a colon only names or presents a text."""
    if _ASKS.search(text):
        return False
    noun = is_text(text)
    pointing = word_class("this").search(text)
    if noun and (has("presents", text) or (pointing and word_class("is").match(text, pointing.end() + 1))):
        return True
    if closed and pointing and not has("subject", text) and not _WORD.search(text, pointing.end()):
        return True
    if closed and (has("presents", text) or (has("says", text) and (has("this", text) or has("text", text)))):
        return True
    words = TITLE_WORDS if closed else TITLE_WORDS // 2
    others = not has("self", text) or (closed and (_FOREIGN.search(text) is not None or has("from", text)))
    states = has("that", text) or has("is", text) or "!" in text
    return others and not states and len(text.split()) <= words and is_text(text, machine=False)


def _reported(text: str) -> int | None:
    """Return where a reported clause begins in a unit: "the leaflet says …", "according to the boss …"."""
    if according := word_class("according").search(text):
        return according.end() if _WORD.search(text, according.end()) else None
    for says in islice(word_class("says").finditer(text), 4):
        before = text[: says.start()]
        tells, follows = has("tells", says[0]), _WORD.search(text, says.end()) is not None
        mine = has("subject", before[-2 if DENSE.search(says[0]) else -20 :])
        if (tells or (follows and is_text(before[-60:]))) and not mine and not text.startswith(" to ", says.end()):
            return says.end() if follows else 0
    return None


def main_clause(sentence: str) -> str:
    """Return a sentence without a subordinate clause about another person: "the author confesses that …"."""
    text = lower(sentence[:_LONG])
    that = _THAT.search(text)
    if that is None or len(text) != len(sentence[:_LONG]):
        return sentence
    main = text[: that.start()]
    theirs = _NOUN_PHRASE.search(main) and len(main.split()) >= _LONG_HEAD and not has("subject", main)
    if not theirs or has("is", main) or has("topic", main) or has("request", main) or _is_imperative("orders", main):
        return sentence
    return sentence[: that.start()]


def _points_back(text: str, *, other_layout: bool) -> bool:
    """Return whether a unit, the last of its message, asks for work on the text before it."""
    text = text[:_HEAD]
    if (other_layout or has("this", text)) and _is_task(text, closed=True):
        return True
    if not has("this", text) and not has("that", text):
        return has("grammar", text) and _ASKS.search(text) is not None
    return (
        has("grammar", text)
        or _is_imperative("rework", text)
        or (is_text(text, machine=False) and _is_imperative("handle", text))
        or (other_layout and (_ASKS.search(text) is not None or _is_imperative("handle", text)))
    )


def _resumption(text: str, units: list[SentenceUnit], index: int, start: int, kind: _Kind) -> int:
    """Return where the user's own words resume after material that begins at ``start``, else the end of the text."""
    shown = _SIGN.search(text, start)
    limit = len(text)
    if kind == "inline" and shown and "\n" not in text[start : shown.start()]:
        gap = _BLANK_LINE.search(text, start)
        limit = gap.start() if gap else limit
    following = takewhile(lambda u: u.start < limit, islice(units, index, None))
    after = [u for u in following if u.start > start and _WORD.search(text, start, u.start)]
    for number, unit in enumerate(after[:-1]):
        if word_class("closes").fullmatch(unit.text.strip(" .。\n)")):
            return after[number + 1].start
    layout = _line_layout(text, shown.start() if shown else start)
    paragraph = max((n for n, u in enumerate(after) if u.seam == 2), default=len(after))
    line = max((n for n, u in enumerate(after) if u.seam), default=len(after))
    for number in (paragraph, line):
        part = after[number:]
        if part and (
            _line_layout(text, part[0].start) != layout
            or any(has("contrast", u.text) or _is_task(u.text, closed=True) for u in part)
            or (kind != "task" and (_is_request(part[0]) or _is_request(part[-1])))
        ):
            return part[0].start
    if kind == "task":
        return limit
    asked = [u.start for u in (after[line:] or after) if _asks_about_it(u.text) or (u is after[-1] and _is_request(u))]
    return asked[-1] if asked else limit


def _is_request(unit: SentenceUnit) -> bool:
    """Return whether a unit asks or orders something, as a user does after showing a text."""
    if _ASKS.search(unit.text) or _is_imperative("rework", unit.text):
        return True
    return (unit.seam > 0 and has("request", unit.text)) or (unit.seam == 2 and _is_imperative("orders", unit.text))


def _asks_about_it(text: str, *, themselves: bool = True) -> bool:
    """Return whether a unit is a question about the text shown, or, if ``themselves``, about the user."""
    pointing = has("this", text) or has("that", text) or (themselves and has("subject", text))
    return pointing and _ASKS.search(text) is not None


def _line_layout(text: str, place: int) -> tuple[bool, bool]:
    """Return the layout of a line: whether it is indented or an item, and whether it begins in lower case."""
    line = text[text.rfind("\n", 0, place + 1) + 1 : place + 40]
    first = re.search(r"[^\W\d_]", text[place : place + 40])
    return re.match(r"[ \t]{2}|\s*(?:[-*•]|\d{1,3}[.)])\s", line) is not None, first is not None and first[0].islower()


def _is_delimited(message: str, start: int, shown: list[Span]) -> bool:
    """Return whether the next character of a message is delimited material."""
    sign = _SIGN.search(message, start)
    if sign is None:
        return False
    place = bisect_right(shown, (sign.start(), len(message) + 1)) - 1
    return place >= 0 and shown[place][1] > sign.start()
