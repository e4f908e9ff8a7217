"""Resolve "he" and "she": a linear score of the people who were named.

The weights were fitted on half of CANARD and are evaluated on the other half, on CAsT and on chats with an assistant
(``python -m benchmarks rewriting``). A name is certain only if its probability and its margin over the next candidate
are high; other guesses are not shown to a model.
"""

from __future__ import annotations

import math
import re
from typing import Final

from msgspec import Struct

from contextinfinity.rewriting.names import Gender, mentions
from contextinfinity.rewriting.question_detection import asks
from contextinfinity.rewriting.reference_context import ReferenceContext, ReferredThing

LEAST: Final = 0.65
"""The minimum probability of a certain name."""
MARGIN: Final = 0.3
"""The minimum margin over the next candidate."""

WEIGHTS: Final = {
    "bias": -2.7,
    "person": 1.0,
    "full": 0.6,
    "introduced": 1.5,
    "by_user": 0.8,
    "answer": 0.5,
    "answer_start": 0.9,
    "often": 0.5,
    "most": 1.3,
    "rivals": -0.4,
}

_INTRODUCES: Final = re.compile(r"\b(?i:who(?:'s| is| was)|tell me (?:more )?about|talk about) (?=[A-ZÀ-Ý])")
_ASKS_WHO: Final = re.compile(r"(?:^|[.!?:] )\W*(?:and |so )?who\b", re.I)


class Scored(Struct, frozen=True):
    """A candidate and the probability that it is meant."""

    thing: ReferredThing
    probability: float


def candidates(conversation: ReferenceContext, pronoun: Gender) -> list[Scored]:
    """Return the people that a pronoun may mean, most likely first."""
    people = [
        thing for thing in conversation.things if thing.may_be_person and thing.gender in ("", pronoun) and thing.turns
    ]
    introduction = introduced_in(conversation)
    scored = [Scored(thing, _logistic(features(thing, people, conversation, introduction))) for thing in people]
    return sorted(scored, key=lambda one: -one.probability)


def certain(scored: list[Scored], conversation: ReferenceContext, pronoun: Gender) -> ReferredThing | None:
    """Return the person that is meant; None if it is not certain.

    A person who was first named after the user had begun to say "he" is excluded.
    """
    if not scored or scored[0].probability < LEAST or not scored[0].thing.is_person:
        return None
    best, second = scored[0], next((one.probability for one in scored[1:] if one.thing.is_person), 0.0)
    if any(one.thing in best.thing.beside and len(one.thing.turns) >= len(best.thing.turns) for one in scored[1:]):
        return None
    used = conversation.pronoun_turns(pronoun)
    is_late = bool(used) and best.thing.turns[0] >= used[0]
    is_late &= ({*conversation.users} - {*used}).isdisjoint(best.thing.turns)
    return None if is_late or best.probability - second < MARGIN else best.thing


def features(
    thing: ReferredThing, people: list[ReferredThing], conversation: ReferenceContext, introduction: int
) -> dict[str, float]:
    """Return the features of a candidate."""
    users = conversation.users
    outdone = any(one.is_person and introduction in one.turns for one in people)
    rivals = [one for one in people if one is not thing]
    text = conversation.texts[conversation.answer] if conversation.answer >= 0 else ""
    return {
        "bias": 1.0,
        "person": float(thing.is_person),
        "full": float(" " in thing.name),
        "introduced": float(thing.turns[0] < 0 or (introduction in thing.turns and (thing.is_person or not outdone))),
        "by_user": float(not {*users}.isdisjoint(thing.turns)),
        "answer": float(conversation.answer in thing.turns),
        "answer_start": float(any(word in text[:40].lower() for word in thing.words)),
        "often": math.log1p(len(thing.turns)),
        "most": float(len(thing.turns) > max((len(one.turns) for one in rivals), default=0)),
        "rivals": math.log1p(len(rivals)),
    }


def introduced_in(conversation: ReferenceContext) -> int:
    """Return the turn that introduces the person the conversation is about.

    That is a turn in which the user asks about a person ("Who was Ada Lovelace?") or mentions one, or the answer to
    a question for a name ("Who wrote it?"); otherwise the user's first turn.
    """
    for turn in reversed(conversation.users):
        text = conversation.texts[turn]
        if _INTRODUCES.search(text):
            return turn
        if _ASKS_WHO.search(text):
            return turn + 1
        if not asks(text) and any(mention.is_person for mention in mentions(text)):
            return turn
    return conversation.users[0] if conversation.users else -2


def _logistic(found: dict[str, float]) -> float:
    return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in found.items())))
