"""Asking back: which of several is meant, and what the reply says.

The question and its candidates are plain data. They stand in the plan of the turn that asked, so whoever reads that
turn can take the reply, for five minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from contextinfinity.domain.message import Json
from contextinfinity.rewriting.lexicon import ORDINALS, OWNING, listed
from contextinfinity.rewriting.message import Doubt
from contextinfinity.rewriting.things import Thing, name_words
from contextinfinity.text.cues import leaves_topic, words

OPEN_FOR: Final = timedelta(minutes=5)

_NOUNS = {"person": "person", "organisation": "organisation", "place": "place", "work": "work", "file": "file"}
_FILLER = listed(
    """
    the a an one ones i mean meant please of them it is was that about choose pick option number no and or as to
    by want think sure yes yeah ok okay hm well
    """
)
_NUMBERS = {"one": 0, "two": 1, "three": 2, "four": 3, "five": 4, "1": 0, "2": 1, "3": 2, "4": 3, "5": 4}
_STOPPING = listed("cancel stop nevermind forget neither none nothing nobody")
_LONGEST_REPLY = 12
"""Words; a longer message that names no candidate speaks of something else."""


class Reply(Enum):
    """A reply that chooses nothing."""

    CANCELLED = "cancelled"


def asking(doubt: Doubt) -> Json:
    """Give the question to ask back, what it is about, and the choices."""
    names = [thing.name for thing in doubt.in_order]
    kinds = {thing.kind for thing in doubt.candidates}
    noun = _NOUNS.get(kinds.pop(), "one") if len(kinds) == 1 else "one"
    choices = f"{', '.join(names[:-1])} or {names[-1]}"
    return {
        "question": f"Which {noun} do you mean: {choices}?",
        "reference": doubt.reference,
        "candidates": [described(thing) for thing in doubt.in_order],
    }


def described(thing: Thing) -> Json:
    """Give a thing as data; ``turn`` is its place in the history, or None when only the memories name it."""
    return {"name": thing.name, "kind": thing.kind, "turn": thing.turn if thing.turn >= 0 else None}


def is_open(asked_at: datetime, now: datetime) -> bool:
    """Tell whether a reply that comes now still answers a question that was asked then."""
    return timedelta(0) <= now - asked_at <= OPEN_FOR


def reply_to(candidates: Sequence[Mapping[str, object]], message: str) -> tuple[str, ...] | Reply | None:
    """Give the names a reply chooses, ``Reply.CANCELLED`` when it speaks of something else, None when it is unclear."""
    names = [str(candidate["name"]) for candidate in candidates]
    said = words(message)
    rest = [word for word in said if word not in _FILLER]
    chosen = _named(names, said) or _placed(names, rest)
    if chosen:
        return chosen
    if leaves_topic(message) or not _STOPPING.isdisjoint(said):
        return Reply.CANCELLED
    asks_anew = len(said) > _LONGEST_REPLY or message.rstrip().endswith("?") or len(rest) > 2
    return Reply.CANCELLED if asks_anew else None


def _named(names: list[str], said: list[str]) -> tuple[str, ...]:
    """Find the candidates whose own words are said; a word that several share tells nothing."""
    told = {word.removesuffix("'s").removesuffix("’s") for word in said}
    each = [name_words(name) for name in names]
    own = [mine - frozenset().union(*(other for other in each if other is not mine)) for mine in each]
    found = tuple(name for name, mine, whole in zip(names, own, each, strict=True) if (mine or whole) & told)
    return found if len(said) <= _LONGEST_REPLY or not found else found[:1] if len(found) == 1 else ()


def _placed(names: list[str], rest: list[str]) -> tuple[str, ...]:
    """Read "the second", "the latter", "both"; only when nothing else is said."""
    if len(rest) > 1 or (not rest):
        return ()
    word = rest[0]
    if word in ("both", "all", "either"):
        return tuple(names)
    places = {**ORDINALS, **_NUMBERS, "former": 0, "latter": len(names) - 1, "last": len(names) - 1}
    place = places.get(word)
    return (names[place],) if place is not None and place < len(names) else ()


def filled_in(message: str, reference: str, chosen: Sequence[str]) -> str:
    """Put the chosen names in the place of the reference that was asked about."""
    name = " and ".join(chosen)
    if reference.lower() in OWNING or reference.lower() == "her":
        name += "'" if name.endswith("s") else "'s"
    return re.sub(rf"\b{re.escape(reference)}\b", lambda _: name, message, count=1)
