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
from contextinfinity.rewriting.lexicon import ORDINALS, Kind, listed
from contextinfinity.rewriting.message import Doubt
from contextinfinity.rewriting.references import references, tokens, worded
from contextinfinity.rewriting.things import Thing, name_words
from contextinfinity.text.cues import leaves_topic

OPEN_FOR: Final = timedelta(minutes=5)

_NOUNS: dict[Kind, str] = {"person": "person", "place": "place", "file": "file"}
_FILLER = listed(
    """
    the a an one ones i i'm mean meant please of them it is was that about choose pick option number no and or
    as to by from want think sure yes yeah ok okay hm well just for me
    """
)
_WORD = re.compile(r"[\w'’]+")
_NUMBERS = {"one": 0, "two": 1, "three": 2, "four": 3, "five": 4, "1": 0, "2": 1, "3": 2, "4": 3, "5": 4}
_STOPPING = listed("cancel stop nevermind mind forget neither none nothing nobody")
_LEFT_OVER = 2
"""Words beside a name that a reply may have; with more of them it is a question of its own."""


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
    said = [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(message.lower())]
    named = _named(names, said)
    rest = [word for word in said if word not in _FILLER]
    left_over = [word for word in rest if not any(word in name_words(name) for name in named)]
    if named:
        return named if len(left_over) <= _LEFT_OVER else Reply.CANCELLED
    if placed := _placed(names, said if len(said) == 1 else rest):
        return placed
    asks_anew = message.rstrip().endswith("?") or len(rest) > _LEFT_OVER
    return Reply.CANCELLED if asks_anew or leaves_topic(message) or not _STOPPING.isdisjoint(said) else None


def _named(names: list[str], said: list[str]) -> tuple[str, ...]:
    """Find the candidates of which a word is said that no other has."""
    each = [name_words(name) for name in names]
    shared = {word for mine in each for word in mine if sum(word in other for other in each) > 1}
    return tuple(name for name, mine in zip(names, each, strict=True) if (mine - shared or mine) & {*said})


def _placed(names: list[str], rest: list[str]) -> tuple[str, ...]:
    """Read "the second", "the latter", "both"; only when nothing else is said."""
    if len(rest) != 1:
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
    for one in references(message, tokens(message)):
        if one.text == reference:
            return message[: one.start] + worded(one, name) + message[one.end :]
    return message
