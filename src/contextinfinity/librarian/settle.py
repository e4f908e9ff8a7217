"""Decide which older entries are still valid: merge identical ones, retire settled and replaced ones.

Entries that differ in a name, a number or a negation never merge. A later entry retires an older one if it gives the
same thing another value ("the deadline is 10 May"), if it says that something changed and has the same subject ("SQLite
instead"), if it says that a problem is solved, or if it answers an open question. A person's statement is retired only
by a person's, except that an assistant may report that a problem is solved. A retired entry records the turn that
settled it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.librarian.contract import Pause
from contextinfinity.librarian.digest import AGREED, SummaryEntry
from contextinfinity.librarian.scoring import norm, words_of
from contextinfinity.librarian.summary_vocabulary import CUES
from contextinfinity.text.content_words import content_words, share
from contextinfinity.text.polarity import opposed
from contextinfinity.text.sentences import asks

_KEY = re.compile(
    r"(?P<key>[^:=.,;]{3,70}?)\s*(?:\b(?:is|are|was|were|will be|becomes?|ist|sind|wird|est|sera|es|será|lautet)\b|[:=]"
    r"|是|为)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,-])[€$£]?\d+(?:[.,:]\d+)*(?:\s?(?:%|€|[^\W\d_]+))?(?!\w)")
_NAME = re.compile(r"(?<!^)\b[A-Z][\w’'-]*|\b[\w-]*\d[\w-]*|`[^`]+`|\b\w+[_/.]\w+")
_BARE_INSTEAD = re.compile(r"\binstead[.!]?$|\bchanged my mind\b|\bstattdessen\b|\bfinalement\b", re.IGNORECASE)
_ALIKE, _OPPOSED = 0.85, 0.6
"""The minimum share of common words of identical entries, and of contradicting ones."""
_SUBJECT = 0.5
"""The minimum share of the shorter entry's words that entries with the same subject have in common."""
_FAR, _RECENT = 0.17, 200
"""The minimum cosine between "SQLite instead" and the decision it replaces, and their maximum distance in turns."""
_NEAR = 12
"""The number of older entries that an entry is compared with: those with the most common words."""


class _Known(Struct):
    entry: SummaryEntry
    words: frozenset[str]
    names: frozenset[str]
    key: tuple[frozenset[str], frozenset[str]] | None
    cues: frozenset[str]
    numbers: dict[str, str]
    """The number with each unit."""

    @property
    def identifiers(self) -> frozenset[str]:
        """The names with digits, such as "item7", that distinguish the subjects of two entries."""
        return frozenset(name for name in self.names if not name[0].isdigit() and any(map(str.isdigit, name)))


def _known(each: SummaryEntry) -> _Known:
    words, match = frozenset(words_of(each.text)), _KEY.match(each.text)
    key = (content_words(match["key"]) - {"now"}, _names(match["key"])) if match else None
    return _Known(
        entry=each,
        words=content_words(each.text),
        names=_names(each.text),
        key=key if key and key[0] else None,
        cues=frozenset(name for name in ("change", "solved", "problem", "adds") if CUES[name].is_in(each.text, words)),
        numbers={re.sub(r"[\d.,:\s€$£]", "", found).lower().rstrip("s"): found for found in _NUMBER.findall(each.text)},
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(found.lower().strip("`.") for found in _NAME.findall(text))


async def settled(entries: Sequence[SummaryEntry], pins: Sequence[str], pause: Pause) -> list[SummaryEntry]:
    """Return the valid entries, and those retired by a later one; entries are oldest first."""
    pinned = [(content_words(pin), _names(pin)) for pin in pins]
    kept: list[_Known] = []
    index: dict[str, list[int]] = {}
    gone: dict[int, int] = {}
    merged: set[int] = set()
    for number, each in enumerate(entries):
        if number % 8 == 7:
            await pause()
        one = _known(each)
        if each.kind not in ("retired", "artifact", "last"):
            if any(share(one.words, words) >= _ALIKE and one.names <= names for words, names in pinned):
                continue
            near = [at for at in _near(one, index) if at not in gone and at not in merged]
            same = [at for at in near if _same(one, kept[at])]
            if any(_rank(kept[at].entry) > _rank(each) for at in same):  # an echo, or small talk about a binding entry
                continue
            merged.update(same)
            replaced = [at for at in near if at not in merged and _retires(one, kept[at])]
            replaced += _replaced_far(one, [at for at in range(len(kept)) if at not in gone and at not in merged], kept)
            gone.update(dict.fromkeys(replaced, each.turn_seq or 0))
            for word in one.words | one.names:
                index.setdefault(word, []).append(len(kept))
        kept.append(one)
    return [_after(one.entry, gone.get(at)) for at, one in enumerate(kept) if at not in merged]


def _after(each: SummaryEntry, until: int | None) -> SummaryEntry:
    return each if until is None else replace(each, kind="retired", until=until)


def _rank(each: SummaryEntry) -> int:
    return (each.kind in AGREED) * 4 + (each.kind == "question") * 2 + (each.who == "user")


def _near(one: _Known, index: dict[str, list[int]]) -> list[int]:
    shared = Counter(at for word in one.words | one.names for at in index.get(word, ())[-40:])
    return sorted(shared, key=lambda at: (-shared[at], -at))[:_NEAR]


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
    if "solved" in newer.cues and "problem" in older.cues and (newer.names & older.names or _subject(newer, older)):
        return True
    if other.who == "user" and one.who != "user":
        return False
    if asks(other.text):
        return False
    if _same_key(newer, older) or ("change" in newer.cues and _same_quantity(newer, older)):
        return True
    if newer.names == older.names and _common(newer, older) >= _OPPOSED and opposed(one.text, other.text):
        return len(newer.words & older.words) >= 2
    return "change" in newer.cues and "adds" not in newer.cues and _subject(newer, older)


def _subject(newer: _Known, older: _Known) -> bool:
    """Return whether two entries have the same subject: half of the shorter one's words, and the same identifiers."""
    common = newer.words & older.words
    if not common or share(min(newer.words, older.words, key=len), common) < _SUBJECT:
        return False
    if len(common) < 2 and len(older.words) > 3:
        return False
    return newer.identifiers <= older.identifiers or older.identifiers <= newer.identifiers


def _same_key(newer: _Known, older: _Known) -> bool:
    """Return whether both give a value to the same thing: "the limit is 5 users" and "the limit is 8 users"."""
    if newer.key is None or newer.key != older.key:
        return False
    units = [{unit for unit in each.numbers if unit} for each in (newer, older)]
    if all(units) and units[0].isdisjoint(units[1]):
        return False
    return newer.words != older.words and bool((newer.names | older.names) - newer.key[1])


def _same_quantity(newer: _Known, older: _Known) -> bool:
    """Return whether both give a number with the same unit to the same thing: same names, most rare words in common."""
    units = newer.numbers.keys() & older.numbers.keys()
    if not any((content_words(unit) or unit == "%") and newer.numbers[unit] != older.numbers[unit] for unit in units):
        return False
    names = [{name for name in each.names if not any(map(str.isdigit, name))} for each in (newer, older)]
    if newer.identifiers != older.identifiers or (all(names) and names[0].isdisjoint(names[1])):
        return False
    words = [{word for word in each.words if not any(map(str.isdigit, word))} for each in (newer, older)]
    shared, one, other = (sum(map(norm, each)) for each in (words[0] & words[1], *words))
    return len(words[0] & words[1]) >= 2 and shared / (min(one, other) or 1) >= _SUBJECT / 2


def _replaced_far(newer: _Known, places: Sequence[int], kept: Sequence[_Known]) -> list[int]:
    """Find the decision that "SQLite instead" replaces without a common word: the nearest in meaning, and recent."""
    each = newer.entry
    if each.kind not in AGREED or not _BARE_INSTEAD.search(each.text):
        return []
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
