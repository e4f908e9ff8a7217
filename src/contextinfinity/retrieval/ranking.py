"""What was found, in the order in which it answers a question.

    heard     the words of the question, each by its rarity, as well as they are met here or in what was said around
              here: an answer seldom repeats the question before it
    near      how near the text's vector is, and those of what was said around it
    voice     whether the person speaks whom the question is about
    time      whether it was said, or tells of, when the question says
    asking    what only asks is seldom an answer

Their weighted sum puts candidates in order. It is a share of what the question itself would reach, and calibrated: what
texts come to that have nothing to do with the question is 0, what one in a thousand of them exceeds is 0.72. Words
count by what they add up to, so a question of many rare words goes by its words, one of few common words by its vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct, field

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Entry, WordHits
from contextinfinity.retrieval import signals
from contextinfinity.retrieval.asking import Question, read_question, search_terms
from contextinfinity.retrieval.calibration import RARE, SHARES, Calibration
from contextinfinity.retrieval.lexicon import Lexicon
from contextinfinity.retrieval.packing import Candidate
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.spots import Spot, chunk_of, spots_of
from contextinfinity.retrieval.voices import speakers_of, with_speakers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.retrieval.signals import Column

HEARD = {-1: 0.8, -2: 0.64, -3: 0.51, -4: 0.41, 1: 0.3, 2: 0.2}
"""What a word counts that was said so many texts before (-) or after (+), beside one that is said here."""
NEAR = {-1: 0.4, 1: 0.4, -2: 0.3, 2: 0.3}
"""The same of a vector."""
MOST = 128
"""Candidates that are given at most."""
MOST_CHARACTERS = 160_000
"""Of text that is read for one question."""
TOLD = 64
"""Candidates whose words are searched for times, where the question names one: the best without it."""
_TIE = 1e-6
"""What keeps two scores apart that would be the same."""
_LEAST = 1e-3


class Weights(Struct, frozen=True, kw_only=True):
    """What each signal counts; chosen on data, see docs/decisions/0011."""

    heard: float = 3.5
    near: float = 1.3
    voice: float = 1.5
    time: float = 5.3
    asking: float = -3.4
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


class Means(Struct, frozen=True, kw_only=True):
    """What a ranking works with: the embedder's calibration, the words, how tokens are counted, the weights."""

    calibration: Calibration
    lexicon: Lexicon
    count: Count
    weights: Weights = CHOSEN
    recency: float = 0.1
    """What the newest candidate gains over the oldest: a tenth of what speaks for it."""


def rank(question: Question, found: Found, means: Means, *, most: int = MOST) -> tuple[Candidate, ...]:
    """Put what was found in order, the best first."""
    entries = with_speakers(found.entries, question.full)
    spots = _bounded(spots_of(entries, found.cosines), found)
    if not spots:
        return ()
    scores = _scores(question, found, spots, means)
    order = (-scores).argsort(kind="stable")[:most].tolist()
    ends = [min(max(float(scores[row]), _TIE * (len(order) - at)), 1 - _TIE * at) for at, row in enumerate(order)]
    return tuple(_candidate(spots[row], score, means) for row, score in zip(order, ends, strict=True))


def _bounded(spots: list[Spot], found: Found) -> list[Spot]:
    """Leave out the least promising of very much text, so that no search takes long; the order of saying stays."""
    if sum(len(spot.text) for spot in spots) <= MOST_CHARACTERS:
        return spots
    held = {hit.place: hit.own.bit_count() + hit.lent.bit_count() / 2 for hit in found.words.hits}
    near = [found.cosines.get(spot.cut.id, 0.0) if spot.cut else 0.0 for spot in spots]
    order = sorted(range(len(spots)), key=lambda row: (-held.get(spots[row].entry.place, 0.0) - near[row], row))
    sizes = accumulate(len(spots[row].text) for row in order)
    kept = sorted(row for row, size in zip(order, sizes, strict=True) if size <= MOST_CHARACTERS)
    return [spots[row] for row in kept]


def _scores(question: Question, found: Found, spots: Sequence[Spot], means: Means) -> Column:
    """Give the scores; below 0 and above 1 they go on, so that the order is kept."""
    weights, newest = means.weights, max(spot.entry.said_at for spot in spots)
    asked = read_question(question, speakers_of(spot.entry for spot in spots), newest=newest)
    beside = signals.around(spots)
    texts = [spot.text for spot in spots]
    rare = signals.rarities([word.term for word in asked.words], search_terms(question), found.words)
    met = signals.met(asked, texts, rare, means.lexicon)
    steps = means.calibration.steps(_cosines(spots, found, means.calibration.mean))
    sums: Column = (
        weights.heard * (signals.heard(met, beside, weights.heard_around) @ rare)
        + weights.near * signals.near(steps, beside, weights.near_around)
        + weights.voice * signals.voices(asked, spots)
        + weights.asking * signals.asking(texts)
    )
    if asked.spans:
        likeliest = (-sums).argsort(kind="stable")[:TOLD].tolist()
        sums += weights.time * signals.times(asked, spots, likeliest)
    every = max(float(rare.sum()), _LEAST)
    whole = weights.heard * every + weights.near * means.calibration.most_steps
    shares = sums / whole * (1 + means.recency * _recency(spots))
    alone = (steps >= 1) | (met @ rare / every >= SHARES.rare)
    return _lifted(SHARES.scores(shares), alone)


def _cosines(spots: Sequence[Spot], found: Found, unknown: float) -> Column:
    import numpy as np

    known = (found.cosines.get(spot.cut.id, unknown) if spot.cut else unknown for spot in spots)
    return np.fromiter(known, dtype=np.float32, count=len(spots))


def _lifted(scores: Column, alone: NDArray[np.bool_]) -> Column:
    """Let pass what one signal alone says is no chance, be the rest against it; among such the order stays."""
    import numpy as np

    return np.where(alone & (scores < RARE), RARE + _TIE * scores, scores)


def _recency(spots: Sequence[Spot]) -> Column:
    """Give 0 for the oldest, 1 for the newest."""
    import numpy as np

    times = np.array([spot.entry.said_at.timestamp() for spot in spots])
    stretch = float(times.max() - times.min())
    found: Column = ((times - times.min()) / (stretch or 1.0)).astype(np.float32)
    return found


def _candidate(spot: Spot, score: float, means: Means) -> Candidate:
    return Candidate(
        chunk=chunk_of(spot, means.count),
        score=score,
        turn_seq=spot.entry.turn_seq,
        said_at=spot.entry.said_at,
        speaker=spot.entry.speaker,
    )
