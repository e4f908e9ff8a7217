"""Find words of the conversation that a follow-up omits, for the search only.

"How much is it?" finds nothing by its own words. The words of the turns before it are scored by their position; the
best few are added to the search with a low weight, and are never shown to a model. A message without references that
names its subject gets none.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from contextinfinity.rewriting.reference_context import ReferenceContext
from contextinfinity.text.cues import EMPTY_WORDS
from contextinfinity.text.vocabulary import everywhere

MOST: Final = 6
"""The maximum number of words."""
TURNS: Final = 8
"""The number of newest turns whose words are scored, besides the user's first."""
LEAST: Final = 0.02
"""The minimum probability of a word."""

WEIGHTS: Final = {
    "bias": -5.1,
    "opener": 2.1,
    "question": 0.6,
    "users": 0.6,
    "answer": 0.5,
    "answer_start": 1.3,
    "capital": 1.6,
    "often": 0.5,
    "length": -0.8,
}
"""Fitted on half of CANARD and half of CAsT, evaluated on the other halves."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’_.-][^\W_]+)*")
_EMPTY: Final = EMPTY_WORDS | everywhere("plain", "empty")
_START: Final = 80
"""The number of characters at the start of an answer that get a feature of their own."""


class _TermOccurrences(Struct):
    """The occurrences of a word."""

    text: str
    order: int
    turns: set[int]
    count: int = 0
    capital: bool = False
    at_start: bool = False


def search_terms(message: str, conversation: ReferenceContext) -> tuple[str, ...]:
    """Return the words that the message most likely omits, in the order in which they occur."""
    own = {stem for stem, _, _ in _read(message)}
    seen = {stem: one for stem, one in _occurrences(conversation).items() if stem not in own}
    scored = sorted(((_probability(one, conversation), one) for one in seen.values()), key=lambda pair: -pair[0])
    chosen = [one for probability, one in scored[:MOST] if probability >= LEAST]
    return tuple(one.text for one in sorted(chosen, key=lambda one: one.order))


def features(seen: _TermOccurrences, conversation: ReferenceContext) -> dict[str, float]:
    """Return the features of a word."""
    users = conversation.users
    return {
        "bias": 1.0,
        "opener": float(bool(users) and users[0] in seen.turns),
        "question": float(bool(users) and users[-1] in seen.turns),
        "users": math.log1p(sum(turn in seen.turns for turn in users)),
        "answer": float(conversation.answer in seen.turns),
        "answer_start": float(seen.at_start),
        "capital": float(seen.capital),
        "often": math.log1p(seen.count),
        "length": min(len(seen.text), 10) / 10,
    }


def _probability(seen: _TermOccurrences, conversation: ReferenceContext) -> float:
    return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in features(seen, conversation).items())))


def _occurrences(conversation: ReferenceContext) -> dict[str, _TermOccurrences]:
    found: dict[str, _TermOccurrences] = {}
    for turn, text in enumerate(conversation.texts):
        if turn < conversation.newest - TURNS and turn not in conversation.users[:1]:
            continue
        for stem, word, place in _read(text):
            one = found.get(stem) or found.setdefault(stem, _TermOccurrences(word, len(found), set()))
            one.turns.add(turn)
            one.count += 1
            one.capital |= place > 0 and word[0].isupper()
            one.at_start |= turn == conversation.newest and place < _START
    return found


@lru_cache(maxsize=256)
def _read(text: str) -> tuple[tuple[str, str, int], ...]:
    """Return the stems of a text, with the words and their positions; cached, because messages share their history."""
    read = ((_without_possessive(match[0]), match.start()) for match in _WORD.finditer(text))
    return tuple((_stem(word), word, place) for word, place in read if word)


@lru_cache(maxsize=1 << 14)
def _without_possessive(word: str) -> str:
    """Return a word without its ending 's; empty if it has no meaning of its own."""
    plain = word.replace("’", "'").removesuffix("'s")
    return plain if len(plain) > 1 and plain.lower().partition("'")[0] not in _EMPTY else ""


def _stem(word: str) -> str:
    low = word.lower()
    return low[:-1] if low.endswith("s") and len(low) > 3 else low
