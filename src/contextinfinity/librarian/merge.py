"""Putting new entries to old ones: each thing once, and the newer word counts.

Entries come oldest first. What says nearly the same as a newer one goes. What a newer one takes back goes: by giving
the same thing another value ("the deadline is 10 May"), or by saying that it changed ("Redis instead of Memcached"). A
question goes when something agreed or known later speaks of the same. What is pinned stands elsewhere and goes, too.
What a person stated gives way to a person only: an assistant or a tool that says it again, or says otherwise, does not
take its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.librarian.contract import Pause, no_pause
from contextinfinity.librarian.digest import AGREED, Entry, Kind
from contextinfinity.librarian.polarity import opposed
from contextinfinity.librarian.words import named, share, telling
from contextinfinity.text.entities import HARD, Entity

_ALIKE = 0.75
"""Share of the words of both that two entries have in common when they say nearly the same."""
_ECHO = 0.9
"""Share of a person's words by which the assistant repeats them."""
_SAME_SUBJECT = 0.5
"""Share of an entry's words that another one needs in order to take it back or to answer it."""

_CHANGE = re.compile(
    r"\b(?:instead|no longer|any ?more|rather than|changed? (?:\w+ ){0,3}(?:to|from)|switch(?:ed"
    r"|ing)? (?:\w+ ){0,3}(?:to|from)"
    r"|replaced?|drop(?:ped)?|scrap(?:ped)?|statt|stattdessen|nicht mehr|au lieu|ne .{1,20} plus|en lugar"
    r"|en vez|ya no)\b"
    r"|^(?:actually|correction|no,|sorry,)|\bactually\b.{1,60}\bnot\b|改|不再|换",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"\b(?:also|too|as well|in addition|additionally|besides|auch|außerdem|zusätzlich|aussi|también)\b|也|还",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:instead of|no longer|rather than|switch(?:ed|ing)? from|moved from|replaced?|drop(?:ped)?"
    r"|scrap(?:ped)?|not"
    r"|statt|nicht mehr|au lieu de|en lugar de|ya no)\s+(?:use |using |the |with |to )*([^\s,;.]+)",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?P<key>[^:=.,;]{2,50}?)\s*(?:\b(?:is|are|was|will be|becomes?|changed to|moved to|set to|ist|est|es|beträgt"
    r"|lautet)\b|[:=]|是|为)\s*(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_FOLLOWING = re.compile(r" ([^\W\d_]+)")
_TURNING = frozenset({"not", "never", "always", "must", "no", "only", "should", "instead"})
_VALUED: frozenset[Kind] = frozenset({"fact", "constraint", "decision"})


class Known(Struct):
    """An entry with what is needed to compare it."""

    entry: Entry
    words: frozenset[str]
    hard: frozenset[str]
    key: tuple[frozenset[str], str, str] | None
    """What it gives a value to, of which kind the value is, and its unit."""

    @property
    def age(self) -> int:
        """When it was said; what nobody knows the turn of is the oldest."""
        return -1 if self.entry.turn_seq is None else self.entry.turn_seq


def known(entry: Entry) -> Known:
    """Look at an entry closely."""
    found = named(entry.text)
    hard = frozenset(each.text.lower().removesuffix("()") for each in found if each.kind in HARD)
    return Known(entry, telling(entry.text), hard, _key_of(entry, found))


async def merged(entries: Sequence[Entry], pinned_facts: Sequence[str] = (), pause: Pause = no_pause) -> list[Entry]:
    """Leave what still holds, each thing once, in the order in which it came."""
    pins = [telling(pin) for pin in pinned_facts]
    pinned = " ".join(pinned_facts).lower()
    kept: list[Known] = []
    index: dict[str, list[int]] = {}
    places: list[int] = []
    for place in sorted(range(len(entries)), key=lambda at: (_rank(entries[at]), -at)):
        await pause()
        one = known(entries[place])
        if _is_pinned(one, pins, pinned) or any(_outdates(kept[at], one) for at in _near(one, index)):
            continue
        for word in one.words | one.hard:
            index.setdefault(word, []).append(len(kept))
        kept.append(one)
        places.append(place)
    return [entries[place] for place in sorted(places)]


def _rank(entry: Entry) -> int:
    """Order by who may take the place of whom: people first, then the assistant, then all others; talk comes last."""
    if entry.kind in ("question", "story", "last"):
        return 3
    return {"user": 0, "assistant": 1}.get(entry.who or "", 2)


def _near(one: Known, index: dict[str, list[int]]) -> list[int]:
    """Name the newer entries that share words with one; those that share most come first."""
    shared: Counter[int] = Counter()
    for word in one.words | one.hard:
        shared.update(index.get(word, ()))
    return [at for at, _ in shared.most_common(12)]


def _is_pinned(one: Known, pins: Sequence[frozenset[str]], pinned: str) -> bool:
    if one.entry.kind in ("story", "last") or not pins:
        return False
    return all(name in pinned for name in one.hard) and any(share(one.words, pin) >= _ALIKE for pin in pins)


def _outdates(newer: Known, older: Known) -> bool:
    kinds = newer.entry.kind, older.entry.kind
    if "last" in kinds:
        return False
    if _says_the_same(newer, older):
        return True
    if older.entry.kind == "question":
        agreed = newer.entry.kind in AGREED or newer.entry.kind == "fact"
        return agreed and newer.age >= older.age and _speaks_of(newer, older)
    if newer.age <= older.age:
        return False
    if set(kinds) <= _VALUED and _same_key(newer, older):
        return True
    return newer.entry.kind in AGREED and older.entry.kind in AGREED and _takes_back(newer, older)


def _says_the_same(newer: Known, older: Known) -> bool:
    if newer.entry.kind == "artifact" and older.entry.kind == "artifact":
        return newer.hard == older.hard and bool(newer.hard)
    if older.entry.kind == "artifact":
        return bool(older.hard) and older.hard <= newer.hard and newer.entry.kind != "story"
    if (newer.entry.kind == "story") != (older.entry.kind == "story") or newer.hard != older.hard:
        return False
    if _rank(newer.entry) < _rank(older.entry) and share(newer.words, older.words) >= _ECHO:
        return True
    both = newer.words | older.words
    return bool(both) and len(newer.words & older.words) / len(both) >= _ALIKE


def _speaks_of(newer: Known, question: Known) -> bool:
    return len(newer.words & question.words) >= 2 and share(question.words, newer.words) >= _SAME_SUBJECT


def _takes_back(newer: Known, older: Known) -> bool:
    """Tell whether a newer entry says that it changes what an older one said."""
    text = newer.entry.text
    common = newer.words & older.words
    if _opposite(newer, older):
        return True
    if not _CHANGE.search(text) or _ADDS.search(text):
        return False
    dropped = {word for match in _TAKEN_BACK.finditer(text) for word in telling(match[1])}
    if dropped & older.words and not dropped & _given_by(older):
        return len(common) >= 2 or len(older.words) <= 3
    return len(common) >= 2 and share(older.words, newer.words) >= _SAME_SUBJECT


def _opposite(newer: Known, older: Known) -> bool:
    """Tell whether two entries say the same with and without a "not"."""
    both = (newer.words | older.words) - _TURNING
    common = (newer.words & older.words) - _TURNING
    return len(common) >= 2 and len(common) / len(both) >= _ALIKE and opposed(newer.entry.text, older.entry.text)


def _same_key(newer: Known, older: Known) -> bool:
    """Tell whether both give a value to the same thing; a number without a unit can be of any."""
    if newer.key is None or older.key is None or newer.key[:2] != older.key[:2]:
        return False
    return newer.key[2] == older.key[2] or not (newer.key[2] and older.key[2])


def _given_by(older: Known) -> set[str]:
    """Words that the older one itself takes back: they are not what it stands for."""
    return {word for match in _TAKEN_BACK.finditer(older.entry.text) for word in telling(match[1])}


def _key_of(entry: Entry, found: Sequence[Entity]) -> tuple[frozenset[str], str, str] | None:
    if entry.kind not in _VALUED:
        return None
    match = _KEY.match(entry.text)
    values = [each for each in found if each.kind in HARD and (match is None or each.start >= match.start("value"))]
    if not values:
        return None
    value = values[0]
    if match is None:  # "deadline 3 May"
        key = telling(entry.text[: value.start])
        ends = value.end == len(entry.text)
        return (key, value.kind, _unit(value, "")) if ends and 0 < len(key) <= 2 else None
    key = telling(match["key"])
    return (key, value.kind, _unit(value, entry.text[value.end :])) if key else None


def _unit(value: Entity, after: str) -> str:
    """Tell in what a number counts: what is written with it, or the word that follows."""
    if value.kind != "number":
        return ""
    written = value.text.strip("0123456789.,'’+- ").lower()
    following = _FOLLOWING.match(after)
    return written or (following[1].lower() if following else "")
