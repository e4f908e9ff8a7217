"""What a summary must not lose, and what of it a summary has lost.

The idea: nobody has to guess what matters, because the offline librarian already decides it. What it would keep at the
same budget (paths, symbols, ids, numbers, dates, decisions, constraints, preferences) is what a model's summary must
have as well; more it may have. So a summary by a model is never worse in this than the one without, and the list always
fits the budget. A line that turns the meaning round says something else. Pinned facts stand elsewhere in the prompt:
what is in a pin is not missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.librarian.digest import TOLD, Digest, Entry
from contextinfinity.librarian.polarity import opposed
from contextinfinity.librarian.salience import BINDS, salience
from contextinfinity.librarian.words import named, share, telling
from contextinfinity.text.entities import HARD

_STEM = 5
"""Letters by which words are compared: a model says "using" where somebody said "use"."""
_SAID_AGAIN = 0.5
"""Share of an entry's words that a line needs in order to say the same."""
_SEPARATORS = re.compile(r"(?<=\d)[,'’\u00a0\u202f ](?=\d)")


class Kept(Struct, frozen=True):
    """An entry that must not be lost: the things it names, and its words."""

    entry: Entry
    names: tuple[str, ...]
    stems: frozenset[str]


def must_keep(offline: Digest) -> tuple[Kept, ...]:
    """List what must not be lost: all that was kept offline, except talk, open questions and what is hardly a fact."""
    kept = (_kept(each) for each in offline.entries if each.kind not in TOLD and each.kind != "question")
    return tuple(each for each in kept if each.entry.kind != "fact" or each.names or _is_clear(each.entry))


def _is_clear(fact: Entry) -> bool:
    return fact.who == "user" and salience(fact.text).points >= BINDS


def missing(must: Sequence[Kept], made: Digest, pinned_facts: Sequence[str] = ()) -> tuple[Kept, ...]:
    """Give what a digest has lost; what only its story tells is lost soon."""
    kept_texts = [each.text for each in made.entries if each.kind not in TOLD]
    lines = [Line.of(text) for text in (*kept_texts, *pinned_facts)]
    return tuple(kept for kept in must if not any(_is_in(kept, line) for line in lines))


def carries(must: Sequence[Kept], entry: Entry) -> bool:
    """Tell whether an entry holds something that must not be lost."""
    line = Line.of(entry.text)
    return any(_is_in(kept, line) for kept in must)


class Line(Struct, frozen=True):
    """A text that is compared with others."""

    text: str
    plain: str
    stems: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Line:
        """Make a text comparable."""
        return cls(text, plain(text), stems(text))


def plain(text: str) -> str:
    """Write numbers and capitals in one way."""
    return _SEPARATORS.sub("", text.lower())


def stems(text: str) -> frozenset[str]:
    """Give the beginnings of the telling words; numbers are compared as names."""
    return frozenset(word[:_STEM] for word in telling(text) if not any(map(str.isdigit, word)))


def names_of(text: str) -> tuple[str, ...]:
    """Give the things a text names of which no character may change."""
    return tuple(dict.fromkeys(plain(found.text) for found in named(text) if found.kind in HARD))


def holds(text: str, name: str) -> bool:
    """Tell whether a name stands in a plain text as a whole: 30 is not in 130."""
    place = text.find(name)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + len(name) : place + len(name) + 1]
        if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
            return True
        place = text.find(name, place + 1)
    return False


def _kept(entry: Entry) -> Kept:
    return Kept(entry, names_of(entry.text), stems(entry.text))


def _is_in(kept: Kept, line: Line) -> bool:
    if not all(holds(line.plain, name) for name in kept.names):
        return False
    if kept.entry.kind == "artifact":
        return bool(kept.names) or share(kept.stems, line.stems) >= _SAID_AGAIN
    return share(kept.stems, line.stems) >= _SAID_AGAIN and not opposed(kept.entry.text, line.text)
