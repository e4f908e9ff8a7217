"""Find material by the layout of a message: fences, quoted lines, elements, quotations, logs, code, mails.

``delimited`` returns the spans of such material, and where the layout of a document begins: a rule, a heading, mail
headers, the opening of a letter. Every pattern is bounded or possessive, so time is linear.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from contextinfinity.text.word_classes import has, lower, word_class

Span: TypeAlias = tuple[int, int]
TITLE_WORDS = 10
"""The maximum number of words of a title."""
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_ELEMENT = re.compile(
    r"^[ \t]{0,3}<(?P<opened>[a-z][\w:.-]{0,40})(?:\s[^<>\n]{0,200})?>|</(?P<closed>[a-z][\w:.-]{0,40})>"
    r"|\[(?P<opened_square>[^\W\d_]\w{0,40})\]|\[/(?P<closed_square>[^\W\d_]\w{0,40})\]",
    re.I | re.M,
)
QUOTE_MARKS = (">", "＞")
_WITHIN = r"(?:[^{0}\n]|\n(?![ \t]*\n)){{1,2000}}+"
_QUOTATION = re.compile(
    "(?=[\"`“”„«»「『《|~<>/'‘])(?:"  # most characters open no quotation: decide it once instead of per alternative
    + "|".join(
        (
            *(rf"{mark}{_WITHIN.format(mark)}{mark}" for mark in ('"', "`")),
            *(rf"{a}{_WITHIN.format(a + b)}[{b}]" for a, b in ("“”", "„“", "«»", "「」", "『』", "《》", "»«")),
            rf"„{_WITHIN.format('„“”')}”",
            *(
                rf"(?<!{a}){a}{{2,}}+{_WITHIN.format(a + b)}{b}{{2,}}"
                for a, b in ((r"\|", r"\|"), ("~", "~"), ("<", ">"), (">", "<"))
            ),
            rf"(?<=\s)//(?=\s){_WITHIN.format('/')}//(?=\s)",
            r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){3,600}+'(?!\w)",
            r"(?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w)){3,600}+’(?!\w)",
        )
    )
    + ")"
)
RULE = re.compile(r"\s{0,3}([-=*_~#<>|])(?:[ \t]*\1)+(?:[^\n]{0,60}\1{2,})?[ \t]*$")
_HEADING = re.compile(r"\s{0,3}#{1,6}[ \t]+\S")
_MACHINE_LINE = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b\]?[ "
    r":]|Traceback \(|File \"[^\"\n]{1,200}\", line \d|at [\w.$<>]{1,200}\(|[\w.]{0,80}(?:Error|Exception): "
    r"|diff --git |[{}\]]|\[\{|@@ |[$] \w|//|/\*|\*/|(?:export|#include|import|def|class|return|SELECT|INSERT INTO|var"
    r"|const|let|function)\b.{0,200}[({;:=])|[ \t]+[-+~#*][ \t].{0,200}(?:=|->)"
)
_HEADER = re.compile(
    r"\s*(?:(?P<sure>From|Subject|Betreff|Von|Asunto|De|Objet|Assunto|Da|Oggetto|发件人|主题|差出人|件名)|To|Cc|Date|An"
    r"|Datum|Para|Fecha|À|收件人|日期|宛先|日時)\s?[:：]\s?\S"
)
_SPEAKER = re.compile(r"\s*(?:\[[^\]\n]{1,30}\]\s*)?(?P<who>[^\W\d_][\w.'-]{0,20}(?: [^\W\d_][\w.'-]{0,20})?)[:：]\s")
_NOT_LINE_END = re.compile(r"[^\n]")
_TURN = re.compile(r"(?:^|(?<=[.!?\n]))[ \t]{0,3}([^\W\d_a-z]\w{0,20}):\s", re.ASCII)
_LINE = 200
"""The number of characters of a line that are matched against words."""


def delimited(text: str) -> tuple[list[Span], int]:
    """Return the spans of delimited material, and the first position from which the layout is that of a document."""
    spans = _elements(text)
    openings = [len(text)]
    speakers: list[tuple[int, int, str]] = []
    headers: list[Span] = []
    fence, greeted, place = "", -1, 0
    for line in text.splitlines(keepends=True):
        start, place = place, place + len(line)
        opened = _FENCE.match(line)
        if fence or opened:
            spans.append((start, place))
            if opened and not fence:
                fence = opened[1]
            elif opened and opened[1].startswith(fence) and not line.strip(" `~\r\n"):
                fence = ""
        elif RULE.match(line) or _HEADING.match(line):
            spans.append((start, place))
            openings.append(place)
        elif line.lstrip()[:1] in QUOTE_MARKS or _MACHINE_LINE.match(line):
            spans.append((start, place))
        elif header := _HEADER.match(line):
            headers += [(start, place)] * (2 if header["sure"] else 1)
        elif _starts_with_speaker("salutes", line) or (start and _starts_with_speaker("greets", line)):
            openings.append(start)
        elif _starts_with_speaker("greets", line) and line.rstrip().endswith(","):
            greeted = start
        elif greeted >= 0 and _starts_with_speaker("signs", line):
            openings.append(greeted)
        elif speaker := _SPEAKER.match(line):
            speakers.append((start, place, speaker["who"].lower()))
    openings += _dialogue(text)
    if len({who for *_, who in speakers}) >= 2 and any(has("self", lower(text[a:b])) for a, b, _ in speakers):
        spans += [(start, end) for start, end, _ in speakers]
    if len(headers) >= 2:
        spans += headers
        openings.append(headers[-1][1])
    spans = joined(spans)
    quoted = [found.span() for found in _QUOTATION.finditer(blanked(text, spans)) if _is_statement(found[0][1:-1])]
    return joined([*spans, *quoted]), min(openings)


def _dialogue(text: str) -> list[int]:
    """Return the start of a dialogue in running text: at least three turns, two of them by the same speaker."""
    turns = [*_TURN.finditer(text)]
    return [turns[0].start()] if 2 < len(turns) != len({turn[1] for turn in turns}) else []


def _starts_with_speaker(name: str, line: str) -> bool:
    return word_class(name).match(lower(line[:_LINE]).lstrip()) is not None


def _is_statement(quotation: str) -> bool:
    """Return whether a quotation is more than a name or a title."""
    words = quotation.split()
    if 3 <= len(words) <= TITLE_WORDS and all(word[0].isupper() or len(word) <= 3 for word in words[:-1]):
        return words[-1][0].islower() or has("self", lower(quotation))
    return len(words) >= 3 or (len(quotation) >= 6 and not quotation.isascii() and len(words) <= 2)


def _elements(text: str) -> list[Span]:
    """Return the spans of elements such as ``<document>…</document>`` and ``[quote]…[/quote]``."""
    spans: list[Span] = []
    opened: dict[str, int] = {}
    for tag in _ELEMENT.finditer(text):
        if name := tag["opened"] or tag["opened_square"]:
            opened.setdefault(name.lower(), tag.start())
        elif (start := opened.pop((tag["closed"] or tag["closed_square"]).lower(), None)) is not None:
            spans.append((start, tag.end()))
    return spans


def blanked(text: str, spans: list[Span]) -> str:
    """Return the text with the spans, which must be sorted, replaced by spaces; line breaks are kept."""
    parts, place = [], 0
    for start, end in spans:
        parts += [text[place:start], _NOT_LINE_END.sub(" ", text[start:end])]
        place = end
    return "".join([*parts, text[place:]])


def joined(spans: list[Span]) -> list[Span]:
    """Return the spans sorted, with touching or overlapping ones merged."""
    together: list[Span] = []
    for start, end in sorted(spans):
        if together and start <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((start, end))
    return together
