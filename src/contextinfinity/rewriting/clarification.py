"""Clarifications: the question which of several things is meant, and the interpretation of the reply.

The question and its candidates are plain data. They are stored in the plan of the turn that asked, so that any process
can interpret the reply, for five minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from contextinfinity.domain.message import Json
from contextinfinity.rewriting.ambiguity import AmbiguousReference
from contextinfinity.rewriting.names import Kind, mentions, name_words
from contextinfinity.rewriting.open_references import put, references
from contextinfinity.rewriting.reference_context import ReferredThing
from contextinfinity.text.cues import leaves_topic
from contextinfinity.text.vocabulary import everywhere

OPEN_FOR: Final = timedelta(minutes=5)

_NOUNS: dict[Kind, str] = {"person": "person", "place": "place", "file": "file"}
_ROWS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_FILLER: Final = everywhere("replies", "filler")
_WORD: Final = re.compile(r"[\w'’]+")
_PLACES: Final = {
    **{word: place for place, row in enumerate(_ROWS) for word in everywhere("replies", row)},
    **dict.fromkeys(everywhere("replies", "last"), -1),
}
_COUNTS: Final = everywhere("replies", "counts")
_ALL: Final = everywhere("replies", "all")
_EXCEPT: Final = everywhere("replies", "except")
_MIDDLE: Final = everywhere("replies", "middle")
_CANCELLING: Final = everywhere("replies", "none")
_RANGE = re.compile(r"\b([1-8]) ?(?:-|–|to|through|bis) ?([1-8])\b")
_MEANS = re.compile(r"\b(?:mean|meant|meine|meinte)\b\W*(?P<name>[\w.'’ -]{2,60}?)\W*$", re.I)
_LONGEST_NAME = 3
_PREFIX = 4
"""The minimum length of a prefix that identifies a name, if no other candidate begins with it."""
_LEFT_OVER = 2
"""The maximum number of additional words in a reply; with more it is a new question."""


class UnmatchedReply(Enum):
    """A reply that chooses none of the candidates."""

    CANCELLED = "cancelled"


def asking(doubt: AmbiguousReference) -> Json:
    """Return the clarification as data: the question, the reference, and every choice."""
    names = [thing.name for thing in doubt.candidates]
    kinds = {thing.kind for thing in doubt.candidates}
    noun = _NOUNS.get(kinds.pop(), "one") if len(kinds) == 1 else "one"
    return {
        "question": f"Which {noun} do you mean: {', '.join(names[:-1])} or {names[-1]}?",
        "reference": doubt.reference,
        "candidates": [
            {"id": str(number), **described(thing)} for number, thing in enumerate(doubt.candidates, start=1)
        ],
    }


def described(thing: ReferredThing) -> dict[str, Json]:
    """Return a thing as data; ``turn`` is its index in the history, or None if only the memories name it."""
    return {"name": thing.name, "kind": thing.kind, "turn": thing.last if thing.last >= 0 else None}


def is_open(asked_at: datetime, now: datetime) -> bool:
    """Return whether a message may still answer a clarification: it did not come before it, and within the time limit.

    Times have milliseconds, and a quick reply may have the same one.
    """
    return timedelta(0) <= now - asked_at <= OPEN_FOR


def reply_to(candidates: Sequence[Mapping[str, object]], message: str) -> tuple[str, ...] | UnmatchedReply | None:
    """Return the names a reply chooses, among the candidates or a new one.

    ``UnmatchedReply.CANCELLED`` means that it is about something else, None that it is unclear.
    """
    names = [str(candidate["name"]) for candidate in candidates]
    reply_words = [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(message.lower())]
    if new := _new_name(names, message):
        return (new,)
    if _EXCEPT & {*reply_words}:
        return _except(names, reply_words)
    named = _chosen_by_name(names, reply_words)
    rest = [word for word in reply_words if word not in _FILLER]
    left_over = [word for word in rest if not any(_matches_name(word, name) for name in named)]
    if named:
        return named if len(left_over) <= _LEFT_OVER else UnmatchedReply.CANCELLED
    if placed := _chosen_by_position(names, message, reply_words if len(reply_words) == 1 else rest):
        return placed
    is_new_question = message.rstrip().endswith("?") or len(rest) > _LEFT_OVER
    return (
        UnmatchedReply.CANCELLED
        if is_new_question or leaves_topic(message) or not _CANCELLING.isdisjoint(reply_words)
        else None
    )


def _except(names: list[str], reply_words: list[str]) -> tuple[str, ...] | UnmatchedReply | None:
    """Interpret "not the first one", "all but Vienna": return the rest if it is one name or all others were asked
    for.
    """
    rest = [word for word in reply_words if word not in _FILLER and word not in _EXCEPT and word not in _ALL]
    excluded = _chosen_by_name(names, reply_words) or _chosen_by_position(names, "", rest)
    remaining = tuple(name for name in names if name not in excluded)
    if excluded and remaining and (len(remaining) == 1 or _ALL & {*reply_words}):
        return remaining
    return None if excluded else UnmatchedReply.CANCELLED


def _new_name(names: list[str], message: str) -> str:
    """Return a new name that is the whole reply and not among the candidates; empty if there is none."""
    found = [
        one for one in mentions(message) if name_words(one.name).isdisjoint(_FILLER | _CANCELLING | _PLACES.keys())
    ]
    if len(found) == 1 and not message.rstrip().endswith("?"):
        outside = _WORD.findall(f"{message[: found[0].start]} {message[found[0].end :]}".lower())
        name = found[0].name if all(word in _FILLER or word in _CANCELLING for word in outside) else ""
    elif means := _MEANS.search(message):
        name = means["name"].strip()
    else:
        return ""
    words = name_words(name)
    known = any(all(_matches_name(word, one) for word in words) for one in names) or not words.isdisjoint(
        _FILLER | _PLACES.keys() | _ALL
    )
    return name if words and not known and len(name.split()) <= _LONGEST_NAME else ""


def _matches_name(word: str, name: str) -> bool:
    """Return whether a word is part of a name, or a prefix of a part."""
    return any(word == one or (len(word) >= _PREFIX and one.startswith(word)) for one in name_words(name))


def _chosen_by_name(names: list[str], reply_words: list[str]) -> tuple[str, ...]:
    """Return the candidates with a unique word in the reply; otherwise those with a unique prefix in it."""
    each = [name_words(name) for name in names]
    shared = {word for mine in each for word in mine if sum(word in other for other in each) > 1}
    whole = tuple(name for name, mine in zip(names, each, strict=True) if (mine - shared or mine) & {*reply_words})
    if whole:
        return whole
    begun = [
        (word, [name for name in names if _matches_name(word, name)]) for word in reply_words if word not in _FILLER
    ]
    return tuple(dict.fromkeys(mine[0] for _, mine in begun if len(mine) == 1))


def _chosen_by_position(names: list[str], message: str, rest: list[str]) -> tuple[str, ...]:
    """Interpret "2", "1 and 3", "the first two", "the middle one", "both", if the reply contains nothing else."""
    if span := _RANGE.search(message):
        first, last = int(span[1]), int(span[2])
        return tuple(names[first - 1 : last]) if first < last <= len(names) else ()
    match rest:
        case [word] | [word, _] if word in _ALL:
            return tuple(names)
        case ["first" | "last" as end, count] if count in _COUNTS:
            many = _PLACES[count] + 1
            return () if many > len(names) else tuple(names[:many] if end == "first" else names[-many:])
        case [word] if word in _MIDDLE:
            return (names[len(names) // 2],) if len(names) % 2 else ()
    places = [_PLACES.get(word, len(names)) for word in rest]
    if not places or not all(place < len(names) for place in places):
        return ()
    return tuple(dict.fromkeys(names[place] for place in places))


def filled_in(message: str, reference: str, chosen: Sequence[str]) -> str:
    """Replace the ambiguous reference in a message by the chosen names."""
    for one in references(message):
        if one.text == reference:
            return put(message, one, chosen)
    return message
