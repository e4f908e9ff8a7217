"""The one form of a summary: what was agreed, asked, named and told, each with its turn and who said it.

    Decisions:
    #12 user: PostgreSQL 16 for the ledger
    #40 assistant: deploys on Fridays stopped · nightly builds instead
    Story:
    - a line that came in another form

A line is a heading, begins with the number of its turn, or begins with a dash when nobody knows its turn. Several
things that one person said in one turn share a line. Texts are neutral (see ``text.orders``) and on one line, so
that none can pass for a heading, an entry or somebody else's words. ``parse(render(digest)) == digest``; text of
any other form becomes part of the story.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Role
from contextinfinity.text.orders import neutral

Kind: TypeAlias = Literal["decision", "constraint", "preference", "fact", "question", "artifact", "story", "last"]

HEADINGS: dict[Kind, str] = {
    "decision": "Decisions:",
    "constraint": "Constraints:",
    "preference": "Preferences:",
    "fact": "Facts:",
    "question": "Open questions:",
    "artifact": "Artifacts:",
    "story": "Story:",
    "last": "Last exchange:",
}
AGREED: frozenset[Kind] = frozenset({"decision", "constraint", "preference"})
"""What binds: only what people and models said in their own words can become one of these."""
TOLD: frozenset[Kind] = frozenset({"story", "last"})
"""What leaves when a topic is over."""

LONGEST = 400
"""Characters of an entry; what is longer is cut."""
_BETWEEN = " · "
_LOOSE_DOT = re.compile(r"(?<!\S)·|·(?!\S)")
_MARK = re.compile(r"#([0-9]{1,15}) (?:(user|assistant|tool|system): )?(?=\S)")
_KINDS: dict[str, Kind] = {heading: kind for kind, heading in HEADINGS.items()}
_ORDER = {kind: place for place, kind in enumerate(HEADINGS)}


class Entry(Struct, frozen=True, kw_only=True):
    """One thing worth keeping. Make it with ``entry``, which sees to it that its text is harmless."""

    kind: Kind
    text: str
    turn_seq: int | None = None
    who: Role | None = None


class Digest(Struct, frozen=True):
    """Entries in the order of the headings; make it with ``digest``."""

    entries: tuple[Entry, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Entry, ...]:
        """Give the entries of some kinds."""
        return tuple(each for each in self.entries if each.kind in kinds)


def entry(kind: Kind, text: str, turn_seq: int | None = None, who: Role | None = None) -> Entry | None:
    """Make an entry of any text; None when nothing is left of it. What a tool or a system says never binds."""
    clean = _clean(text)
    if turn_seq is None:
        who = None
    if kind in AGREED and who in ("tool", "system"):
        kind = "fact"
    return Entry(kind=kind, text=clean, turn_seq=turn_seq, who=who) if clean else None


def digest(entries: Iterable[Entry]) -> Digest:
    """Put entries under their headings; under each they keep the order in which they come."""
    return Digest(tuple(sorted(entries, key=lambda each: _ORDER[each.kind])))


def render(made: Digest) -> str:
    """Write a digest."""
    return "\n".join(_lines(made))


def parse(text: str) -> Digest:
    """Read a digest; lines of another form are part of the story."""
    kind: Kind = "story"
    entries: list[Entry] = []
    for line in text.splitlines():
        if line in _KINDS:
            kind = _KINDS[line]
        else:
            entries += filter(None, _read(kind, line))
    return digest(entries)


def _clean(text: str) -> str:
    text = _LOOSE_DOT.sub("•", neutral(text))
    if len(text) <= LONGEST:
        return text
    return neutral(text[: LONGEST - 1]).rstrip(" …") + "…"


def _lines(made: Digest) -> Iterator[str]:
    for kind, entries in groupby(made.entries, lambda each: each.kind):
        yield HEADINGS[kind]
        for (turn_seq, who), together in groupby(entries, lambda each: (each.turn_seq, each.who)):
            texts = [each.text for each in together]
            if turn_seq is None:
                yield from (f"- {text}" for text in texts)
            else:
                yield mark(turn_seq, who) + _BETWEEN.join(texts)


def mark(turn_seq: int, who: Role | None) -> str:
    """Write where an entry came from."""
    return f"#{turn_seq} {who}: " if who else f"#{turn_seq} "


def _read(kind: Kind, line: str) -> Iterator[Entry | None]:
    found = _MARK.match(line)
    if found is None:
        yield entry(kind, line.removeprefix("- "))
        return
    who: Role | None = found[2]  # type: ignore[assignment]
    for text in line[found.end() :].split(_BETWEEN):
        yield entry(kind, text, int(found[1]), who)
