"""Split a message into the user's own words and the material they show: quotations, files, mails, logs, stories.

Input is a message; output is the same text with the material replaced by blanks, so positions stay valid, and the
material itself. Material never speaks for the user: it may name things, but it decides nothing and says nothing about
them. Every consumer that reads a message for decisions, constraints, memories or topic changes reads it through here.

Material is recognised by its marks (fences, quoted lines, tags, quotation marks, rules, headings, log lines, mail
headers), or by a sentence that announces it ("translate this: …", "the file says: …", "Attached is a page.", "Chapter
1."), in English, German, Spanish, French and Chinese. Unmarked material that is announced ends with the message, except
for questions at the very end. In doubt, text is material. Time is linear in the length; of a very long message only the
beginning and the end are looked at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from contextinfinity.text.announcements import (
    FICTION,
    REPORTED,
    Announces,
    after_bracket,
    announces_before_colon,
    brings_along,
    hands_over,
    names_source,
    points_back,
    presents,
)

READ = 10_000
"""Characters of a message that are looked at from either end."""

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_TAG = re.compile(
    r"^[ \t]{0,3}<(?P<opened>[a-z][\w:.-]{0,40})(?:\s[^<>\n]{0,200})?>|</(?P<closed>[a-z][\w:.-]{0,40})>[ \t]*$",
    re.I | re.M,
)
"""Tags around material: one that begins a line, and one that ends a line."""
_LAYOUT = re.compile(r"\s{0,3}(?:([-=*_~])(?:[ \t]*\1)+(?:[^\n]{0,60}\1{3,})?[ \t]*$|#{1,6}[ \t]+\S)")
"""A rule, or a heading of Markdown: what follows is a document, whose own rules end nothing."""
_QUOTE_MARKS = (">", "＞")
_WITHIN = r"(?:[^{0}\n]|\n(?![ \t]*\n)){{1,2000}}+"
_QUOTATION = re.compile(
    "|".join(
        (
            rf'"{_WITHIN.format(chr(34))}"',
            rf"`{_WITHIN.format('`')}`",
            rf"“{_WITHIN.format('“”')}”",
            rf"„{_WITHIN.format('„“”')}[“”]",
            rf"«{_WITHIN.format('«»')}»",
            rf"「{_WITHIN.format('「」')}」",
            r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){3,600}+'(?!\w)",
            r"(?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w)){3,600}+’(?!\w)",
        )
    )
)
_CLAUSE = re.compile(
    r"\b(?:i|i'm|i've|we|we're|you|he|she|they|my|our|your|must|never|always|shall|decided|ich|wir|du|sie|mein\w*"
    r"|unser\w*"
    r"|darf|dürfen|muss|nie|yo|nosotros|mi|mis|soy|debe|nunca|prohibido|hemos|me|je|nous|mon|ma|doit|jamais)\b"
    r"|[我你他她们必须不许禁止决定]",
    re.I,
)
"""What makes a quotation a statement rather than a name or a title."""
_LONG_QUOTATION = 8
"""Words from which a quotation is a statement in any case."""
_MACHINE_LINE = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b\]?["
    r" :]"
    r"|Traceback \(|File \"[^\"\n]{1,200}\", line \d|at [\w.$<>]{1,200}\(|[\w.]{0,80}(?:Error|Exception): "
    r"|diff --git |@@ |[$] \w|(?:#include|import|def|class|return|SELECT|INSERT INTO|var|const|let|function)\b.{0,200}"
    r"[({;:=])"
)
_HEADER = re.compile(
    r"\s*(?:(?P<sure>From|Subject|Betreff|Von|Asunto|De|Objet|发件人|主题)|To|Cc|Date|An|Datum|Para|Fecha|收件人"
    r"|日期)\s?[:：]\s?\S"
)
_SALUTATION = re.compile(
    r"\s*(?:dear (?!claude|gpt|chatgpt|assistant|all\b)\w|sehr geehrte|estimad[oa]s?\b|querid[oa]s?\b|chère?s? \w"
    r"|尊敬的)",
    re.I,
)
_GREETED = re.compile(
    r"\s*(?:hi|hello|hey|hallo|hola|liebe[r]?|salut) (?!there|all|again|claude|gpt|chatgpt|assistant|bot|friend|you"
    r"|everyone|zusammen)\w+(?: \w+)?,\s*$",
    re.I,
)
_SIGNED = re.compile(
    r"\s*(?:(?:kind |best |warm )?regards|best(?: wishes)?|sincerely|yours(?: \w+)?|cheers|love|thanks|many thanks|bye"
    r"|mit freundlichen grüßen|viele grüße|liebe grüße|cordialement|saludos|此致)\s?,?\s*(?:\w+\s*)?$",
    re.I,
)
_SPEAKER = re.compile(r"\s*(?:\[[^\]\n]{1,30}\]\s*)?(?P<who>[^\W\d_][\w.'-]{0,20}(?: [^\W\d_][\w.'-]{0,20})?)[:：]\s")
_PERSON = re.compile(
    r"\b(?:i|i'm|i've|we|we're|you|my|our|ich|wir|mein\w*|yo|me|mi|soy|vivo|je|nous|mon|ma)\b|[我你]", re.I
)
_UNIT_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}(?=\s)|[。！？]++[”’」』）]?|\n|$")
_COLON = re.compile(r"[:：](?=\s|$|[^\x00-\x7f]|[\"'“„«])")
_DASH = re.compile(r"\s[-–—]\s")
_ASKS = re.compile(r"[?？]\W*$|^\W*(?:thoughts|ideas|opinions?|help|please help|any ideas)\W*$", re.I)
_SENTENCE = 1_000
"""Characters of a sentence that are looked at."""
_COLONS = 4
"""Colons of a sentence that are looked at."""
_NOT_LINE_END = re.compile(r"[^\n]")
_WORD = re.compile(r"\w")
_SIGN = re.compile(r"\S")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Split(Struct, frozen=True):
    """A message taken apart.

    ``own`` is as long as the message and has blanks for the material, which follows in the order in which it stands
    there. Of a message longer than ``2 * READ``, both are of its beginning and its end alone.
    """

    own: str
    material: list[str]


class _Unit(Struct, frozen=True):
    """A sentence or a line that is not marked as material, and whether its line ends with it."""

    start: int
    end: int
    text: str
    closes_line: bool


def own_words(message: str) -> str:
    """Return the message with all material replaced by blanks, at the same positions."""
    return split(message).own


def split(message: str) -> Split:
    """Split a message into own words and material."""
    if len(message) > 2 * READ:
        end = len(message) - READ
        message = message[:READ] if _may_be_marked(message, end) else f"{message[:READ]}\n\n{message[end:]}"
    marked = _marked(message)
    spans = _joined([*marked, *_announced(_blanked(message, marked), message, marked)])
    return Split(_blanked(message, spans), [message[start:end] for start, end in spans])


def _may_be_marked(message: str, place: int) -> bool:
    """Tell whether a place of a long message may lie in a fence, an element or a quoted line that began before it."""
    line = max(message.rfind("\n", 0, place), message.rfind("\r", 0, place)) + 1
    fenced = any(message.find(mark, READ - 2, place + 2) >= 0 for mark in ("```", "~~~", "\n<"))
    return fenced or message[line : line + 8].lstrip().startswith(_QUOTE_MARKS)


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    parts, place = [], 0
    for start, end in spans:
        parts += [text[place:start], _NOT_LINE_END.sub(" ", text[start:end])]
        place = end
    return "".join([*parts, text[place:]])


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


# --- Material with marks of its own -----------------------------------------------------------------


def _marked(text: str) -> list[tuple[int, int]]:
    lines, longer = _by_line(text)
    quoted = [found.span() for found in _QUOTATION.finditer(_blanked(text, _joined(lines))) if _states(found[0])]
    return _joined([*lines, *quoted, *longer])


def _states(quotation: str) -> bool:
    inside = quotation[1:-1]
    words = inside.split()
    dense = len(words) <= 2 and not inside.isascii() and len(inside) >= 6  # scripts without blanks between words
    return len(words) >= _LONG_QUOTATION or ((len(words) >= 3 or dense) and _CLAUSE.search(inside) is not None)


def _by_line(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the spans of fenced and quoted lines, and those of logs, code, mails, letters and transcripts."""
    marked: list[tuple[int, int]] = []
    other: list[tuple[int, int]] = []
    spoken: list[tuple[int, int, str, bool]] = []
    fence, greeted, headers, place = "", -1, 0, 0
    for line in text.splitlines(keepends=True):
        start, place = place, place + len(line)
        opened = _FENCE.match(line)
        if fence:
            marked.append((start, place))
            if opened and opened[1].startswith(fence) and not line.strip(" `~\r\n"):
                fence = ""
        elif opened:
            fence = opened[1]
            marked.append((start, place))
        elif line.lstrip()[:1] in _QUOTE_MARKS:
            marked.append((start, place))
        elif _LAYOUT.match(line):
            other.append((start, len(text)))
        elif _MACHINE_LINE.match(line):
            other.append((start, place))
        elif header := _HEADER.match(line):
            headers += 2 if header["sure"] else 1
            other += [(start, len(text))] if headers >= 2 else []
        elif _SALUTATION.match(line) or (greeted >= 0 and _SIGNED.match(line)):
            other.append((greeted if greeted >= 0 else start, len(text)))
        elif _GREETED.match(line):
            greeted = start
        elif speaker := _SPEAKER.match(line):
            spoken.append((start, place, speaker["who"].lower(), bool(_PERSON.search(line, speaker.end()))))
    if len({who for _, _, who, _ in spoken}) >= 2 and 2 * sum(one for *_, one in spoken) >= len(spoken):
        other += [(start, end) for start, end, _, _ in spoken]
    return [*marked, *_tagged(text)], [_without_last_question(text, start, end) for start, end in other]


def _tagged(text: str) -> list[tuple[int, int]]:
    """Return the spans of elements such as ``<document>…</document>``, with their tags."""
    spans: list[tuple[int, int]] = []
    opened: dict[str, int] = {}
    for tag in _TAG.finditer(text):
        if tag["opened"]:
            opened.setdefault(tag["opened"].lower(), tag.start())
        elif (start := opened.pop(tag["closed"].lower(), None)) is not None:
            spans.append((start, tag.end()))
    return spans


def _without_last_question(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave a question out that stands in a paragraph of its own at the end of the message."""
    if end != len(text):
        return start, end
    last = text.rstrip().rfind("\n\n")
    return (start, last) if last > start and _ASKS.search(text[last:][-400:].rstrip()) else (start, end)


# --- Material that a sentence announces -------------------------------------------------------------


def _announced(text: str, message: str, marked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of what is announced; in ``text`` the marked material of the message is blank."""
    units = [*_units(text)]
    asked = len(units)  # from here on, the message only asks
    while asked and _ASKS.search(units[asked - 1].text[-200:]):
        asked -= 1
    spans: list[tuple[int, int]] = []
    for place, unit in enumerate(units):
        begins = _material_after(unit)
        if begins is None:
            continue
        start, how = begins
        if how == "reported":
            spans.append((start, unit.end))
        elif _is_marked(message, start, marked):  # what is announced has marks of its own
            continue
        elif how == "person":
            ends = units[asked - 1].end if asked > place + 1 else unit.end
            spans.append((start, min(_paragraph_end(text, start), ends)))
        elif _WORD.search(text, start):
            last = units[asked - 1].end if how == "document" and asked > place + 1 else len(text)
            return [*spans, (start, max(last, start))]
    if spans or marked or not units or not points_back(units[-1].text):
        return spans
    return [(0, units[-1].start)]


def _material_after(unit: _Unit) -> tuple[int, Announces] | None:
    """Return where the material that a sentence announces begins, and how it is announced."""
    if FICTION.search(unit.text):
        return unit.start, "task"
    if (place := after_bracket(unit.text)) is not None:
        return unit.start + place, "document"
    dash = _DASH.search(unit.text)
    if dash is not None and names_source(unit.text[: dash.start()]):
        return unit.start + dash.end(), "document"
    for colon in islice(_COLON.finditer(unit.text), _COLONS):
        if how := announces_before_colon(unit.text[: colon.start()]):
            return unit.start + colon.end(), how
    if hands_over(unit.text, closes_line=unit.closes_line):
        return unit.end, "task"
    if presents(unit.text):
        return unit.end, "document"
    if unit.closes_line and brings_along(unit.text):
        return unit.end, "document"
    reported = REPORTED.search(unit.text)
    return None if reported is None else (unit.start + reported.end(), "reported")


def _units(text: str) -> Iterator[_Unit]:
    start = 0
    for end in _UNIT_END.finditer(text):
        words = text[start : end.end()]
        if words.strip():
            yield _Unit(
                start, end.end(), words[:_SENTENCE], end[0] in ("\n", "") or text[end.end() : end.end() + 1] == "\n"
            )
        start = end.end()


def _is_marked(message: str, start: int, marked: list[tuple[int, int]]) -> bool:
    """Tell whether the next word of a message is marked material."""
    word = _SIGN.search(message, start)
    if word is None:
        return False
    place = bisect_right(marked, (word.start(), len(message) + 1)) - 1
    return place >= 0 and marked[place][1] > word.start()


def _paragraph_end(text: str, start: int) -> int:
    """Return the end of the paragraph; the end of the text if the words begin in a line of their own."""
    first = _SIGN.search(text, start)
    gap = None if first is None or "\n" in text[start : first.start()] else _BLANK_LINE.search(text, first.start())
    return len(text) if gap is None else gap.start()
