"""What was found, in the order in which it answers a question.

    heard     the words of the question, each by its rarity, as well as they are met here or in what was said around
              here: an answer seldom repeats the question before it
    near      how near the text's vector is, and those of what was said around it
    voice     whether the person speaks whom the question is about
    time      whether it was said, or tells of, when the question says
    asking    what only asks is seldom an answer

Their weighted sum puts candidates in order. Its scale is calibrated: what it comes to for texts that have nothing to do
with the question is 0, what one in a thousand of them exceeds is 0.72, the question itself is 1. Words count by what
they add up to, so a question of many rare words goes by its words, one of few common words by its vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Entry, WordHits
from contextinfinity.retrieval import signals
from contextinfinity.retrieval.asking import Question, read_question, search_terms, speakers_of
from contextinfinity.retrieval.calibration import Calibration
from contextinfinity.retrieval.lexicon import Lexicon
from contextinfinity.retrieval.packing import Candidate
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.spots import Spot, spots_of

if TYPE_CHECKING:
    from contextinfinity.retrieval.signals import Column

HEARD = {-1: 0.88, -2: 0.55, -3: 0.25, -4: 0.2, 1: 0.2, 2: 0.2, 3: 0.15, 4: 0.15}
"""What a word counts that was said so many texts before (-) or after (+), beside one that is said here."""
NEAR = {-1: 0.37, 1: 0.37, -2: 0.3, 2: 0.3}

MOST = 256
"""Candidates that are given at most."""


class Weights(Struct, frozen=True, kw_only=True):
    """What each signal counts; chosen on data, see docs/decisions/0011."""

    heard: float = 3.4
    near: float = 1.6
    voice: float = 1.5
    time: float = 4.8
    asking: float = -3.3
    heard_around: dict[int, float] = field(default_factory=lambda: dict(HEARD))
    near_around: dict[int, float] = field(default_factory=lambda: dict(NEAR))


CHOSEN = Weights()


class Found(Struct, frozen=True, kw_only=True):
    """What a store gave for a question: all that was found, with what stands around it."""

    words: WordHits
    """For the terms of ``search_terms``, in their order."""
    entries: Sequence[Entry]
    cosines: Mapping[ChunkId, float]
    """Of chunks to the question's vector, as far as they are known."""


def rank(
    question: Question,
    found: Found,
    calibration: Calibration,
    lexicon: Lexicon,
    count: Count,
    *,
    most: int = MOST,
    weights: Weights = CHOSEN,
) -> tuple[Candidate, ...]:
    """Put what was found in order, the best first."""
    spots = spots_of(found.entries, found.cosines, count)
    if not spots:
        return ()
    sums = _sums(_signals(question, found, spots, calibration, lexicon, weights), weights)
    order = (-sums).argsort(kind="stable")[:most]
    return tuple(_candidate(spots[row], float(sums[row])) for row in order)


class _Signals(Struct, frozen=True):
    heard: Column
    near: Column
    voice: Column
    time: Column
    asking: Column


def _signals(
    question: Question,
    found: Found,
    spots: Sequence[Spot],
    calibration: Calibration,
    lexicon: Lexicon,
    weights: Weights,
) -> _Signals:
    import numpy as np

    newest = max(spot.entry.said_at for spot in spots)
    asked = read_question(question, speakers_of(found.entries), newest=newest)
    beside = signals.around(spots)
    texts = [spot.chunk.rendered_text for spot in spots]
    rare = signals.rarities([word.term for word in asked.words], search_terms(question), found.words)
    met = signals.met(asked, texts, rare, lexicon)
    known = np.array([found.cosines.get(spot.chunk.id, calibration.mean) for spot in spots], dtype=np.float32)
    return _Signals(
        heard=signals.heard(met, beside, weights.heard_around) @ rare,
        near=signals.near(calibration.steps(known), beside, weights.near_around),
        voice=signals.voices(asked, spots),
        time=signals.times(asked, spots),
        asking=signals.asking(texts),
    )


def _sums(found: _Signals, weights: Weights) -> Column:
    total: Column = (
        weights.heard * found.heard
        + weights.near * found.near
        + weights.voice * found.voice
        + weights.time * found.time
        + weights.asking * found.asking
    )
    return total


def _candidate(spot: Spot, score: float) -> Candidate:
    return Candidate(
        chunk=spot.chunk,
        score=score,
        turn_seq=spot.entry.turn_seq,
        said_at=spot.entry.said_at,
        speaker=spot.speaker,
    )
