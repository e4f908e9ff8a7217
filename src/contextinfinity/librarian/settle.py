"""Decide which older entries are still valid: merge identical ones, retire settled and replaced ones.

Entries that differ in a name, a number or a negation never merge. A later entry retires an older one if it gives the
same thing another value ("the deadline is 10 May"), if it says that something changed and has the same subject ("SQLite
instead"), if it says that a problem is solved, or if it answers an open question. Whole exchanges are compared too: a
change is often stated in other words, with the new value in the assistant's reply. A person's statement is retired only
by a person's, except that an assistant may report that a problem is solved. A retired entry records the turn that
settled it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.librarian.contract import Pause
from contextinfinity.librarian.digest import AGREED, SummaryEntry
from contextinfinity.librarian.scoring import norm, signs_in, words_of
from contextinfinity.librarian.summary_vocabulary import CUES
from contextinfinity.text.content_words import content_words, share
from contextinfinity.text.polarity import opposed
from contextinfinity.text.sentences import asks

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

_NUMBER = re.compile(r"(?<![\w.,-])[€$£]?\d+(?:[.,:]\d+)*(?:st|nd|rd|th)?(?:\s?(?:%|€|[^\W\d_]+))?(?!\w)")
_NAME = re.compile(r"(?<!^)\b[A-Z][\w’'-]*|\b[\w-]*\d[\w-]*|`[^`]+`|\b\w+[_/.]\w+")
_PRONOUN = re.compile(r"I(?:['’](?:m|d|ve|ll))?")
_DAY = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
    r"|january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
_BARE_INSTEAD = re.compile(r"\binstead[.!]?$|\bchanged my mind\b|\bstattdessen\b|\bfinalement\b", re.IGNORECASE)
_ALIKE, _OPPOSED = 0.85, 0.6
"""The minimum share of common words of identical entries, and of contradicting ones."""
_SUBJECT = 0.5
"""The minimum share of the shorter entry's words that entries with the same subject have in common."""
_REPLACED = 0.7
"""The minimum weighted share of words that two values of the same thing have in common, each way."""
_CHANGED, _REWORDED = (0.45, 0.25), (0.55, 0.4)
"""The same if the later entry says that something changed: the share of the older one's words, and of its own; with a
value of the same type in both, and without."""
_NAMES_IT = 0.15
"""How much less is enough if the later entry names the older value as well: "90 days instead of 30 days"."""
_COMMON, _NAMED, _RARE = 6.0, 8.0, 7.0
"""The rarity of common words, which have no weight; the weight of a name; the weight of a word that may stand alone."""
_STEM = 5
_CALENDAR, _NAMES = "#calendar", "#names"
"""The types of days and names, beside the units of numbers."""
_FAR, _RECENT = 0.17, 200
"""The minimum cosine between "SQLite instead" and the decision it replaces, and their maximum distance in turns."""
_APART, _LEAD, _SHARED, _OTHERS, _COMPARED, _NEXT = 12, 0.18, 0.9, 4, 16, 0.05
"""An exchange that changes an older one is at least so many turns later, and more similar to it than to the exchange
``_OTHERS`` places behind; similarity is the cosine and the share of common words, of the nearest ones by cosine. No
other later exchange is nearer to the older one by more than ``_NEXT``: a subject that is discussed again and again does
not change each time.
"""
_STATEMENT = 14
"""The maximum number of content words of a sentence that states one thing, and can be replaced as a whole."""
_NOW = re.compile(r"\bnow\b", re.IGNORECASE)
_NEAR = 12
"""The number of older entries that an entry is compared with: those with the most common words."""


_UNITS = frozenset({"%", "€", "$", "gb", "mb", "kb", "ms"})
_CUE_WORDS = CUES["change"].words | CUES["problem"].words | CUES["solved"].words


class _Known:
    """An entry with its words; its values (names, numbers, days) by type, and its frame: all other words by stem."""

    def __init__(self, each: SummaryEntry) -> None:
        self.entry = each
        self.words = content_words(each.text)
        self.names = _names(each.text)

    @cached_property
    def cues(self) -> frozenset[str]:
        """The words that say that something changed, is a problem, is solved, or is added."""
        words = frozenset(words_of(self.entry.text))
        return frozenset(
            name for name in ("change", "solved", "problem", "adds") if CUES[name].is_in(self.entry.text, words)
        )

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """The numbers by unit, the days and the names."""
        values: dict[str, list[str]] = {}
        for number in _NUMBER.findall(self.entry.text):
            unit = re.sub(r"[\d.,:\s€$£]", "", number).lower().rstrip("s")
            values.setdefault(unit if unit in _UNITS or content_words(unit) else "", []).append(number)
        values[_CALENDAR] = [day.lower() for day in _DAY.findall(self.entry.text)]
        values[_NAMES] = sorted(name for name in self.names if not name[0].isdigit() and not _DAY.fullmatch(name))
        return {kind: those for kind, those in values.items() if those}

    @cached_property
    def frame(self) -> dict[str, float]:
        """The weights of all words that are no values."""
        taken = frozenset(word for group in self.values.values() for value in group for word in content_words(value))
        frame = {word[:_STEM]: max(0.0, norm(word) - _COMMON) for word in self.words - taken if word not in _CUE_WORDS}
        return frame | dict.fromkeys(self.values.get(_NAMES, ()), _NAMED)

    @cached_property
    def is_event(self) -> bool:
        """Whether it describes a single event, which later events do not replace."""
        return self.entry.kind not in AGREED and "past" in signs_in(self.entry.text, words_of(self.entry.text))

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The names with digits, such as "item7", that distinguish the subjects of two entries."""
        return frozenset(name for name in self.names if not name[0].isdigit() and any(map(str.isdigit, name)))


def _names(text: str) -> frozenset[str]:
    found = (name.lower().strip("`.") for name in _NAME.findall(text) if not _PRONOUN.fullmatch(name))
    return frozenset(filter(None, found))  # nothing is left of `..`


async def retire_replaced(
    entries: Sequence[SummaryEntry], pins: Sequence[str], pause: Pause, *, since: int = 0
) -> list[SummaryEntry]:
    """Return the valid entries, and those retired by a later one; entries are oldest first.

    Those of turns before ``since`` were compared with each other in an earlier fold.
    """
    pinned = [(content_words(pin), _names(pin)) for pin in pins]
    kept: list[_Known] = []
    index: dict[str, list[int]] = {}
    gone: dict[int, int] = {}
    merged: set[int] = set()
    for number, each in enumerate(entries):
        if number % 8 == 7:
            await pause()
        one = _Known(each)
        if each.kind not in ("retired", "artifact", "last"):
            if any(share(one.words, words) >= _ALIKE and one.names <= names for words, names in pinned):
                continue
            if (each.turn_seq or 0) >= since:
                near = [at for at in _near(one, index) if at not in gone and at not in merged]
                same = [at for at in near if _same(one, kept[at])]
                if any(_rank(kept[at].entry) > _rank(each) for at in same):
                    continue  # an echo, or small talk about a binding entry
                merged.update(same)
                replaced = [at for at in near if at not in merged and _retires(one, kept[at])]
                if each.kind in AGREED and _BARE_INSTEAD.search(each.text):
                    standing = [at for at in range(len(kept)) if at not in gone and at not in merged]
                    replaced += _replaced_far(one, standing, kept)
                gone.update(dict.fromkeys(replaced, each.turn_seq or 0))
            for word in one.words | one.names:
                index.setdefault(word, []).append(len(kept))
        kept.append(one)
    standing = [at for at in range(len(kept)) if at not in gone and at not in merged]
    gone |= await _changed_in_other_words(kept, standing, since, pause)
    return [_after(one.entry, gone.get(at)) for at, one in enumerate(kept) if at not in merged]


def _after(each: SummaryEntry, until: int | None) -> SummaryEntry:
    return each if until is None else replace(each, kind="retired", until=until)


def _rank(each: SummaryEntry) -> int:
    return (each.kind in AGREED) * 4 + (each.kind == "question") * 2 + (each.who == "user")


def _near(one: _Known, index: dict[str, list[int]]) -> list[int]:
    """Return the places of the older entries with the most common words: several, or a name or a rare word."""
    shared: Counter[int] = Counter()
    certain: set[int] = set()
    for word in one.words | one.names:
        places = index.get(word, ())[-40:]
        shared.update(places)
        if word in one.names or norm(word) >= _COMMON + _RARE:
            certain.update(places)
    near = [at for at in shared if shared[at] > 1 or at in certain]
    return sorted(near, key=lambda at: (-shared[at], -at))[:_NEAR]


def _same(newer: _Known, older: _Known) -> bool:
    if newer.names != older.names or not newer.words or _common(newer, older) < _ALIKE:
        return False
    return not opposed(newer.entry.text, older.entry.text)


def _common(newer: _Known, older: _Known) -> float:
    return len(newer.words & older.words) / (len(newer.words | older.words) or 1)


def _retires(newer: _Known, older: _Known) -> bool:
    """Return whether a later entry replaces, settles or answers an older one."""
    one, other = newer.entry, older.entry
    if (one.turn_seq or 0) <= (other.turn_seq or 0):
        return False
    if other.kind == "question":
        shared = newer.words & older.words
        return one.kind != "question" and len(shared) >= 2 and share(older.words, newer.words) >= _SUBJECT
    if "adds" in newer.cues:
        return False
    if "solved" in newer.cues and "problem" in older.cues and _covered(older, newer.frame) >= _CHANGED[0]:
        return True
    if other.who == "user" and one.who != "user":
        return False
    if asks(other.text):
        return False
    if newer.names == older.names and _common(newer, older) >= _OPPOSED and opposed(one.text, other.text):
        return len(newer.words & older.words) >= 2
    return _other_value(newer, older)


def _other_value(newer: _Known, older: _Known) -> bool:
    """Return whether a later entry gives the same thing another value.

    Either both say the same except for one value of the same type, the last in both ("the limit is 5 users", "the limit
    is 8 users"), or the later turn says that something changed and repeats most of what the older entry is about.
    """
    if max(len(newer.words), len(older.words)) > _STATEMENT:
        return False
    if "change" not in newer.cues and newer.identifiers != older.identifiers:
        return False
    if "change" not in newer.cues and newer.is_event:
        return False
    typed = _differing(newer, older)
    if "change" in newer.cues:
        least, back = _CHANGED if typed else _REWORDED
        if any(
            {*old} & {*newer.values.get(kind, ())} for kind, old in older.values.items() if kind != _NAMES and typed
        ):
            least -= _NAMES_IT
        return _covered(older, newer.frame) >= least and _covered(newer, older.frame) >= back
    if len(typed) != 1 or older.is_event:
        return False
    last = all(_is_last(each, typed[0][place]) for place, each in enumerate((newer, older)))
    return last and min(_covered(older, newer.frame), _covered(newer, older.frame)) >= _REPLACED


def _covered(each: _Known, frame: Mapping[str, float]) -> float:
    """Return the weighted share of an entry's frame that another frame contains; 0 if it is a single common word."""
    shared = [weight for stem, weight in each.frame.items() if stem in frame]
    if len(shared) < 2 and len(each.frame) > 1 and max(shared, default=0.0) < _RARE:
        return 0.0
    return sum(shared) / (sum(each.frame.values()) or 1)


def _differing(newer: _Known, older: _Known) -> list[tuple[str, str]]:
    """Return the last values of each type in which two entries differ; "90 days instead of 30 days" names both."""
    pairs = [(one, older.values[kind]) for kind, one in newer.values.items() if kind in older.values]
    return [
        (one[-1], other[-1])
        for one, other in pairs
        if not {*one} <= {*other} and ("change" in newer.cues or not {*other} <= {*one})
    ]


def _is_last(each: _Known, value: str) -> bool:
    text = each.entry.text.lower()
    ends = {other: text.rfind(other.lower()) + len(other) for group in each.values.values() for other in group}
    return ends[value] == max(ends.values())


def _replaced_far(newer: _Known, places: Sequence[int], kept: Sequence[_Known]) -> list[int]:
    """Find the decision that "SQLite instead" replaces without a common word: the nearest in meaning, and recent."""
    each = newer.entry
    recent = [
        at
        for at in places
        if kept[at].entry.kind in AGREED
        and kept[at].entry.who == each.who
        and 0 < (each.turn_seq or 0) - (kept[at].entry.turn_seq or 0) <= _RECENT
    ][-40:]
    if not recent:
        return []
    from contextinfinity.embedders.static import built_in

    rows = built_in().encode([" ".join(sorted(one.words)) for one in (newer, *(kept[at] for at in recent))])
    near = rows[1:] @ rows[0]
    best = int(near.argmax())
    return [recent[best]] if float(near[best]) >= _FAR else []


async def _changed_in_other_words(
    kept: Sequence[_Known], places: Sequence[int], since: int, pause: Pause
) -> dict[int, int]:
    """Return the entries whose value a later exchange replaces, with its turn.

    The later exchange says that something changed, its nearest older exchange is far nearer than others, both have a
    word in common, and a value of the same type differs.
    """
    import numpy as np

    from contextinfinity.embedders.static import built_in

    exchanges: dict[int, list[int]] = {}
    for at in sorted(places, key=lambda at: kept[at].entry.turn_seq or 0):
        if kept[at].entry.kind in (*AGREED, "fact"):
            exchanges.setdefault(kept[at].entry.turn_seq or 0, []).append(at)
    turns, said = [*exchanges], [*exchanges.values()]
    changing = [
        turn >= since and any(map(_states_change, map(kept.__getitem__, those))) for turn, those in exchanges.items()
    ]
    if not any(changing):
        return {}
    rows = built_in().encode([" ".join(kept[at].entry.text for at in those) for those in said])
    words = [frozenset[str]().union(*(kept[at].words for at in those)) for those in said]
    gone: dict[int, int] = {}
    for newer in np.flatnonzero(changing).tolist():
        await pause()
        near = rows[: bisect_right(turns, turns[newer] - _APART)] @ rows[newer]
        common = {
            int(older): len(words[newer] & words[older]) / (min(len(words[newer]), len(words[older])) or 1)
            for older in np.argsort(-near)[:_COMPARED]
        }
        ranked = sorted(
            ((float(near[older]) + _SHARED * share, older) for older, share in common.items()), reverse=True
        )
        lead = ranked[0][0] - ranked[min(_OTHERS, len(ranked) - 1)][0] if ranked else 0.0
        if lead >= _LEAD and common[ranked[0][1]] and _is_next(rows, turns, ranked[0][1], newer):
            replaced = _with_replaced_values([kept[at] for at in said[newer]], kept, said[ranked[0][1]])
            gone |= dict.fromkeys(replaced, turns[newer])
    return gone


def _is_next(rows: Vectors, turns: Sequence[int], older: int, newer: int) -> bool:
    """Return whether no other exchange after the older one is clearly more similar to it than the newer one is."""
    near = rows[bisect_right(turns, turns[older]) :] @ rows[older]
    return float(rows[older] @ rows[newer]) >= float(near.max()) - _NEXT


def _states_change(each: _Known) -> bool:
    return "change" in each.cues or _NOW.search(each.entry.text) is not None


def _with_replaced_values(newer: Sequence[_Known], kept: Sequence[_Known], older: Sequence[int]) -> list[int]:
    """Return the entries of an older exchange with a value that the newer one replaces.

    A person's note gives way if a person took part in the newer exchange, binding entries only to their own words.
    """
    told = " ".join(each.entry.text for each in newer).lower()
    values: dict[bool, set[str]] = {True: set(), False: set()}
    for each in newer:
        pairs = (pair for at in older if not kept[at].is_event for pair in _differing(each, kept[at]))
        values[each.entry.who == "user"].update(old.lower() for _, old in pairs if old.lower() not in told)
    by_anyone = values[True] | values[False]
    if not any(each.entry.who == "user" for each in newer):
        older = [at for at in older if kept[at].entry.who != "user"]
    return [
        at
        for at in older
        for one in (kept[at].entry,)
        for replaced in (values[True] if one.who == "user" and one.kind in AGREED else by_anyone,)
        if any(value in one.text.lower() for value in replaced)
    ]
