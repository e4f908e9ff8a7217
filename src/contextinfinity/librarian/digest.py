"""The textual form of a summary: entries by kind, then the topics with their turn ranges and the notes below them.

    Decisions:
    #12 user: PostgreSQL 16 for the ledger
    Settled or replaced:
    #3 user: The nightly test is flaky (until #9)
    Topics:
    #1–12 (3 May 2026) ledger, nightly test; asked: which database?; result: PostgreSQL 16
    #4 assistant: The test waits for a port that another process holds · I raised the time-out
    - a line that came in another form

A line is a heading, a topic (a range of turns), or entries of one speaker in one turn; an entry whose turn is unknown
begins with a dash. Texts are neutral (see ``text.orders``) and on one line, so that none can pass for a heading, an
entry or another speaker's words. ``parse(render(digest)) == digest``. Summaries of earlier releases are read as well:
their facts, stories and last exchanges become notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Role
from contextinfinity.text.orders import neutral

Kind: TypeAlias = Literal["decision", "constraint", "preference", "question", "artifact", "retired", "fact", "last"]

HEADINGS: dict[Kind, str] = {
    "decision": "Decisions:",
    "constraint": "Constraints:",
    "preference": "Preferences:",
    "question": "Open questions:",
    "artifact": "Files and identifiers:",
    "retired": "Settled or replaced:",
    "fact": "Topics:",
    "last": "Last exchange:",
}
AGREED: frozenset[Kind] = frozenset({"decision", "constraint", "preference"})
"""The binding kinds: only a speaker's own words can become one of these."""

LONGEST = 400
"""The maximum number of characters of an entry; a longer text is cut."""
_BETWEEN = " · "
_LOOSE_DOT = re.compile(r"(?<!\S)·|·(?!\S)")
_MARK = re.compile(r"#([0-9]{1,15}) (?:(user|assistant|tool|system): )?(?=\S)")
_TOPIC = re.compile(r"#([0-9]{1,15})–([0-9]{1,15})(?: (?=\S)|$)")
_UNTIL = re.compile(r"(?: \(until #([0-9]{1,15})\))+$")
_KINDS: dict[str, Kind] = {heading: kind for kind, heading in HEADINGS.items()}
_KINDS |= {"Facts:": "fact", "Story:": "fact", "Artifacts:": "artifact"}
_ORDER = {kind: place for place, kind in enumerate(HEADINGS)}


class SummaryEntry(Struct, frozen=True, kw_only=True):
    """One statement worth keeping; create it with ``entry``. ``until`` is the turn that settled a retired one."""

    kind: Kind
    text: str
    turn_seq: int | None = None
    who: Role | None = None
    until: int | None = None


class Topic(Struct, frozen=True, kw_only=True):
    """The subject of a range of turns; create it with ``topic``."""

    first: int
    last: int
    text: str = ""


class Digest(Struct, frozen=True):
    """The entries in the order of the headings, and the topics by their first turn; create it with ``digest``."""

    entries: tuple[SummaryEntry, ...] = ()
    topics: tuple[Topic, ...] = ()

    def of(self, *kinds: Kind) -> tuple[SummaryEntry, ...]:
        """Return the entries of the given kinds."""
        return tuple(each for each in self.entries if each.kind in kinds)


def entry(
    kind: Kind, text: str, turn_seq: int | None = None, who: Role | None = None, until: int | None = None
) -> SummaryEntry | None:
    """Create an entry from any text; return None if the text is empty. Text of a tool or system is never binding."""
    clean = _UNTIL.sub("", _clean(text))
    if turn_seq is None:
        who = None
    if kind in AGREED and who in ("tool", "system"):
        kind = "fact"
    if (kind == "retired") != (until is not None):
        kind, until = "fact", None
    return SummaryEntry(kind=kind, text=clean, turn_seq=turn_seq, who=who, until=until) if clean else None


def topic(first: int, last: int, text: str = "") -> Topic:
    """Create a topic from any text."""
    return Topic(first=min(first, last), last=max(first, last), text=_clean(text))


def digest(entries: Iterable[SummaryEntry], topics: Iterable[Topic] = ()) -> Digest:
    """Sort entries by heading; notes are in the order of their turns."""
    return Digest(
        tuple(sorted(entries, key=lambda each: (_ORDER[each.kind], _place(each) if each.kind == "fact" else 0))),
        tuple(sorted(topics, key=lambda each: (each.first, each.last))),
    )


def render(made: Digest) -> str:
    """Render a digest as text."""
    return "\n".join(_lines(made))


def parse(text: str) -> Digest:
    """Parse a digest; lines in another format become notes."""
    kind: Kind = "fact"
    entries: list[SummaryEntry | None] = []
    topics: list[Topic] = []
    for line in text.splitlines():
        if line in _KINDS:
            kind = _KINDS[line]
        elif kind == "fact" and (found := _TOPIC.match(line)):
            topics.append(topic(int(found[1]), int(found[2]), line[found.end() :]))
        else:
            entries += _read(kind, line)
    return digest(filter(None, entries), topics)


def mark(turn_seq: int | None, who: Role | None) -> str:
    """Render the source of an entry."""
    if turn_seq is None:
        return "- "
    return f"#{turn_seq} {who}: " if who else f"#{turn_seq} "


def topic_line(each: Topic) -> str:
    """Render the line of a topic."""
    return f"#{each.first}–{each.last} {each.text}".rstrip()


def retired_lines(made: Digest) -> list[str]:
    """Render the retired entries, one line each."""
    return [line for each in made.of("retired") for line in _entry_lines([each])]


def _place(each: SummaryEntry) -> int:
    return -1 if each.turn_seq is None else each.turn_seq


def _clean(text: str) -> str:
    text = _LOOSE_DOT.sub("•", neutral(text))
    if len(text) <= LONGEST:
        return text
    return neutral(text[: LONGEST - 1]).rstrip(" …") + "…"


def _lines(made: Digest) -> Iterator[str]:
    for kind, heading in HEADINGS.items():
        lines = [
            (_place(together[0]), 1, line) for together in _together(made.of(kind)) for line in _entry_lines(together)
        ]
        if kind == "fact":  # a topic line comes before the notes of its first turn
            lines = sorted(
                [*lines, *((each.first, 0, topic_line(each)) for each in made.topics)], key=lambda one: one[:2]
            )
        if lines:
            yield heading
            yield from (line for _, _, line in lines)


def _together(entries: tuple[SummaryEntry, ...]) -> Iterator[list[SummaryEntry]]:
    for _, those in groupby(entries, lambda each: (each.turn_seq, each.who)):
        yield [*those]


def _entry_lines(together: list[SummaryEntry]) -> list[str]:
    texts = [each.text + (f" (until #{each.until})" if each.until is not None else "") for each in together]
    start = mark(together[0].turn_seq, together[0].who)
    return [f"{start}{text}" for text in texts] if together[0].turn_seq is None else [start + _BETWEEN.join(texts)]


def _read(kind: Kind, line: str) -> Iterator[SummaryEntry | None]:
    found = _MARK.match(line)
    if found is None:
        texts, turn_seq, who = [line.removeprefix("- ")], None, None
    else:
        texts, turn_seq, who = line[found.end() :].split(_BETWEEN), int(found[1]), found[2]
    for text in texts:
        until = _UNTIL.search(text) if kind == "retired" else None
        yield entry(kind, text, turn_seq, who, int(until[1]) if until else None)  # type: ignore[arg-type]
