"""Estimate how likely a sentence is needed later: a logistic score of eighteen features.

The rarest words of a sentence contribute most; the norm of a word's static vector serves as its inverse document
frequency, so that no corpus is needed. The weights were fitted on public conversations by ``benchmarks/summaries.py``
and checked on the held-out set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from operator import mul

from contextinfinity.librarian.summary_vocabulary import PHRASES
from contextinfinity.librarian.summary_vocabulary import SIGNS as WORDS
from contextinfinity.text.sentences import asks

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\W\d_]+(?:'[^\W\d_]+)?")
_NAME = re.compile(r"(?<=[a-z,;:\d\"'(] )[A-Z][\w'’-]+|\b[A-Z][A-Za-z]*[A-Z\d]\w*")
_DIGIT = re.compile(r"\d")
_ADDED_DATE = re.compile(r" \((?:~|around )?(?:\d{1,2} )?(?:[A-Z][a-z]+ ?)?(?:\d{4})?\)")
_SIGNS_OF = {
    word: {name for name, (known, _) in WORDS.items() if word in known} for words, _ in WORDS.values() for word in words
}
_MOST_WORDS = 50_000


class _Rarities(dict[str, float]):
    """The rarities of words, computed when first asked for."""

    def __missing__(self, word: str) -> float:
        from contextinfinity.embedders.static import built_in

        if len(self) >= _MOST_WORDS:
            self.clear()
        found = self[word] = built_in().norm(word)
        return found


_rarities = _Rarities()


WEIGHTS: dict[str, float] = {
    "bias": -5.7,
    "rarest": 0.1,
    "rare": 1.75,
    "names": 0.15,
    "digits": 1.35,
    "first": 0.8,
    "greeting": -0.65,
    "question": -0.25,
    "exclaims": -0.3,
    "words": 0.9,
    "words_squared": -0.9,
    "sentences": -0.4,
    "first_person": 0.75,
    "second_person": -0.45,
    "past": 0.25,
    "date": 0.4,
    "rule": 0.25,
    "people": 0.6,
    "opinion": -0.5,
}
"""The weight of each feature, fitted on facts that questions ask for and on facts planted in chats."""
SIGNS = tuple(WEIGHTS)[1:]
_BIAS, *_WEIGHTS = WEIGHTS.values()


def norm(word: str) -> float:
    """Return the rarity of a word: about 2 for "the", 25 for a name."""
    return _rarities[word]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, with straight apostrophes; Chinese in pairs of characters."""
    return _WORD.findall(text.lower().replace("’", "'"))


def signs_in(text: str, words: Iterable[str]) -> set[str]:
    """Return the names of the features of which a text has a word."""
    found = set[str]().union(*(_SIGNS_OF[word] for word in words if word in _SIGNS_OF))
    if "ed" in text and any(word.endswith("ed") and len(word) > 3 for word in words):
        found.add("past")
    if not text.isascii():
        found.update(name for name, (_, eastern) in WORDS.items() if any(each in text for each in eastern))
    return found


def signs(text: str, words: Sequence[str], place: int, total: int) -> list[float]:
    """Return the features of a sentence, in the order of ``SIGNS``; it is at ``place`` of ``total`` in its message."""
    text = _ADDED_DATE.sub("", text) if " (" in text else text  # ignore a date that we added
    known = frozenset(words)
    rare = sorted(map(_rarities.__getitem__, known), reverse=True) or [0.0]
    length = math.log1p(len(words))
    found = signs_in(text, known)
    return [
        rare[0] / 10,
        sum(rare[:4]) / 40,
        min(3.0, len(_NAME.findall(text))),
        1.0 if _DIGIT.search(text) else 0.0,
        1.0 if place == 0 else 0.0,
        1.0 if PHRASES["greeting"].match(text) else 0.0,
        1.0 if asks(text) else 0.0,
        1.0 if text.endswith("!") else 0.0,
        length,
        length * length / 4,
        math.log(total),
        *[1.0 if name in found else 0.0 for name in WORDS],
    ]


def score(text: str, words: Sequence[str], place: int = 0, total: int = 1) -> float:
    """Return the probability that a sentence is needed later."""
    return 1 / (1 + math.exp(-_BIAS - sum(map(mul, signs(text, words, place, total), _WEIGHTS))))
