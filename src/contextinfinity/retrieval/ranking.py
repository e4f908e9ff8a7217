"""Rank passages by how well they answer a question: a linear score of six terms.

    near      the calibrated cosine of the passage's chunk and the question
    words     the share of the question's words in the passage, weighted by rarity; for a short passage words of the
              messages around it count in part, since an answer rarely repeats its question; words of the conversation
              that a follow-up may refer to count a little
    around    the cosines of the messages around a short passage
    speaker   whether the speaker is the person named in the question
    role      without names: whether the user speaks, unless the question asks for what the assistant said
    time      whether the message is from the time that the question names

A passage with an exact word of the question ranks above every passage without one. An earlier question that adds no
word to this one cannot answer it: it ranks last and does not support the messages around it. In a chat with an
assistant a short reply ranks at least as high as the message it answers: the question names the subject, and the reply
rarely repeats it. A question with a name that no passage contains needs a far better passage.

Weights and ablation: docs/decisions/0024-ranking.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from math import log1p
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import IndexedMessage, WordHits
from contextinfinity.retrieval.calibration import RARE, Calibration, confident
from contextinfinity.retrieval.candidates import Candidate, PassageSpan, Value, candidate_of, passages_to_rank
from contextinfinity.retrieval.dates import nearness
from contextinfinity.retrieval.exact import holding
from contextinfinity.retrieval.question import (
    QUESTION_MARKS,
    ParsedQuestion,
    SearchQuestion,
    read_question,
    search_terms,
)
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.speakers import speakers_of, with_speakers
from contextinfinity.retrieval.vocabulary import pattern
from contextinfinity.text.keywords import containing, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float32]
    Matrix: TypeAlias = NDArray[np.float32]
    Places: TypeAlias = NDArray[np.intp]

WORDS_AROUND = {-1: 0.8, -2: 0.64, -3: 0.51, -4: 0.41, 1: 0.3, 2: 0.2}
"""The weight of a word in a message before (-) or after (+) a short passage, by distance."""
NEAR_AROUND = {-1: 0.15, 1: 0.15, -2: 0.1, 2: 0.1}
SHORT = 120
"""Up to this many characters the messages around a passage have their full weight, which decreases with length."""
NOT_READ = 3
"""The maximum gap in turns between neighbouring messages: only the neighbours of hits are read."""
SITTING = timedelta(hours=6)
"""A longer pause separates sittings: messages on its two sides are unrelated."""
RECENCY = 0.2
STEP = 0.3
"""The weight of one calibration step (from an average to a rare pair of texts)."""
ENOUGH_WORDS = 0.5
"""A passage with this share of the question's words always passes."""
NEAREST, HALFWAY = 8, 0.5
"""The number of nearest passages that always pass, and the minimum calibration step for that: an answer in other words
shares only its meaning with the question.
"""
NAMELESS = 2
"""The same if no passage contains a name of the question; then nothing else passes without a high score."""
HELPER = 0.15
"""The weight of a conversation word that a follow-up may refer to, relative to a word of the question."""
SHORT_REPLY = 480
"""The maximum length of a reply that ranks with the message it answers."""
MOST = 128
FIRST = 10.0
"""More than any other terms of a score can add up to."""
_TIE = 1e-6
_END = 100


class RankingWeights(Struct, frozen=True, kw_only=True):
    """The weight of each term."""

    near: float = 1.0
    words: float = 0.7
    speaker: float = 0.15
    role: float = 0.1
    time: float = 0.5
    words_around: dict[int, float] = field(default_factory=lambda: dict(WORDS_AROUND))
    near_around: dict[int, float] = field(default_factory=lambda: dict(NEAR_AROUND))


CHOSEN = RankingWeights()


class SearchResults(Struct, frozen=True, kw_only=True):
    """The result of a store's search: all hits with their neighbours."""

    words: WordHits
    """The hits for ``search_terms``, in the same order."""
    entries: Sequence[IndexedMessage]
    cosines: Mapping[ChunkId, float]
    """The known cosines of chunks and the question."""


class RankingInputs(Struct, frozen=True, kw_only=True):
    """The parameters of a ranking: the embedder's calibration, a token counter, the weights."""

    calibration: Calibration
    count: Count
    weights: RankingWeights = CHOSEN
    recency: float = 0.1
    """The bonus of the newest passage over the oldest, as a multiple of ``RECENCY``."""


def rank(
    question: SearchQuestion, found: SearchResults, means: RankingInputs, *, most: int = MOST
) -> tuple[Candidate, ...]:
    """Return the passages that were found, best first, with calibrated scores between 0 and 1."""
    import numpy as np

    entries = with_speakers(found.entries, question.full)
    if not entries:
        return ()
    asked = read_question(question, speakers_of(entries), newest=max(entry.said_at for entry in entries))
    spots = passages_to_rank(entries, found.cosines, _value(asked, found, means))
    if not spots:
        return ()
    exact = _exact(asked, spots)
    if asked.only_exact:
        kept = np.flatnonzero(exact)
        spots, exact = [spots[row] for row in kept.tolist()], exact[kept]
        if not spots:
            return ()
    scores = _scores(asked, search_terms(question), found, spots, means)
    order = np.lexsort((-scores, -exact))[:most].tolist()
    ends = _falling([max(float(scores[row]), RARE) if exact[row] else float(scores[row]) for row in order])
    return tuple(
        candidate_of(spots[row], score, means.count, exact=bool(exact[row]), lists=asked.lists)
        for row, score in zip(order, ends, strict=True)
    )


def _value(asked: ParsedQuestion, found: SearchResults, means: RankingInputs) -> Value:
    """Estimate what chunks score: from cosine, side and the words of the message; those with exact words come first."""
    near, weights = means.calibration, means.weights
    total = max(found.words.total, 1, *found.words.counts)
    rare = [log1p((total - count + 0.5) / (count + 0.5)) for count in found.words.counts]
    unit = weights.words / (sum(rare) or 1.0)
    words = {
        hit.place: unit
        * sum(each * (1 if hit.own >> at & 1 else (hit.lent >> at & 1) / 2) for at, each in enumerate(rare))
        for hit in found.words.hits
    }

    def estimate(span: PassageSpan) -> float:
        entry, cosine = span.entry, found.cosines.get(span.cut.id, near.mean) if span.cut else near.mean
        role = 0.0 if entry.speaker else weights.role if entry.place.side == "user" else -weights.role
        return STEP * weights.near * near.step(cosine) + words.get(entry.place, 0.0) + role

    def values(spans: Sequence[PassageSpan]) -> list[float]:
        exact = _exact(asked, spans).tolist()
        return [estimate(span) + FIRST * held for span, held in zip(spans, exact, strict=True)]

    return values


def _exact(asked: ParsedQuestion, spots: Sequence[PassageSpan]) -> NDArray[np.int64]:
    import numpy as np

    return np.array(holding(asked.exact, [spot.text for spot in spots]), dtype=np.int64)


def _falling(scores: list[float]) -> list[float]:
    """Raise scores where needed, so that they decrease strictly within 0 to 1."""
    least = 0.0
    for place in reversed(range(len(scores))):
        scores[place] = least = min(max(scores[place], least + _TIE), 1 - _TIE * place)
    return scores


def _scores(
    asked: ParsedQuestion,
    known: Sequence[str],
    found: SearchResults,
    spots: Sequence[PassageSpan],
    means: RankingInputs,
) -> Column:
    """Return the calibrated score of each passage."""
    import numpy as np

    weights, rare = means.weights, _rarities(asked, known, found.words)
    messages = _PassageMessages(spots)
    met = _met((*asked.words, *asked.helpers), spots)
    own = len(asked.words)
    echoes = _echoes(asked, spots, met[:, :own])
    met[echoes] = 0
    steps = means.calibration.steps(_cosines(spots, found, means.calibration.mean))
    steps[echoes] = 0
    short = np.minimum(1, SHORT / np.array([max(1, len(spot.text)) for spot in spots], dtype=np.float32))
    words = np.maximum(met, messages.best_around(met, weights.words_around) * short[:, None]) @ rare
    around = messages.sum_around(steps, weights.near_around) * short
    content = STEP * weights.near * (steps + around) + weights.words * words + weights.time * _times(asked, spots)
    content += weights.speaker * _speakers(asked, spots)
    content[echoes] = 0
    sums = content + weights.role * _roles(asked, spots)
    sums += RECENCY * means.recency * _recency(spots)
    sums[echoes] = 0
    _answers_after_statements(sums, spots, echoes, met)
    alone = (steps >= 1) | (met[:, :own] @ rare[:own] >= ENOUGH_WORDS)
    contained = {word for word, column in zip(asked.words, met.T, strict=False) if column.any()}
    strict = not all(map(contained.intersection, asked.names))
    if asked.is_question:
        nearest = (steps >= HALFWAY) & (steps >= np.sort(steps)[-NAMELESS if strict else -NEAREST :][0])
        alone = nearest if strict else alone | nearest
    return _with_replies(confident(sums, content, alone, strict=strict), spots)


def _with_replies(scores: Column, spots: Sequence[PassageSpan]) -> Column:
    """Raise short replies of an assistant to the score of the message they answer."""
    if any(spot.entry.speaker for spot in spots):
        return scores
    best: dict[str, float] = {}
    for spot, score in zip(spots, scores.tolist(), strict=True):
        place = spot.entry.place
        if place.side == "user":
            best[place.turn_id] = max(score, best.get(place.turn_id, 0.0))
    for row, spot in enumerate(spots):
        place = spot.entry.place
        if place.side == "assistant" and len(spot.entry.text) <= SHORT_REPLY:
            scores[row] = max(float(scores[row]), best.get(place.turn_id, 0.0) - _TIE)
    return scores


def _rarities(asked: ParsedQuestion, known: Sequence[str], hits: WordHits) -> Column:
    """Return the weight of each word by its rarity; the question's own words add up to 1, helpers get a fraction."""
    import numpy as np

    counts = dict(zip(known, hits.counts, strict=False))
    said = np.array([counts.get(word, 0) for word in (*asked.words, *asked.helpers)], dtype=np.float32)
    total = np.float32(max(hits.total, 1, *said) if len(said) else 1)
    rare: Column = np.log1p((total - said + 0.5) / (said + 0.5)).astype(np.float32)
    own = len(asked.words)
    rare[own:] *= HELPER
    return rare / max(float(rare[:own].sum()), 1e-3) if own else np.zeros_like(rare)


def _met(words: Sequence[str], spots: Sequence[PassageSpan]) -> Matrix:
    """Return a matrix of which passages contain which words."""
    import numpy as np

    columns = {word: column for column, word in enumerate(words)}
    found = np.zeros((len(spots), len(words)), dtype=np.float32)
    for row, word in containing([spot.text for spot in spots], words):
        found[row, columns[word]] = 1
    return found


def _echoes(asked: ParsedQuestion, spots: Sequence[PassageSpan], met: Matrix) -> Places:
    """Return the passages that are questions without any additional word."""
    import numpy as np

    known = set(asked.words).union(terms(" ".join(asked.speakers)))
    rows = [
        row
        for row in np.flatnonzero(met.any(axis=1)).tolist()
        if spots[row].entry.place.side == "user" and _asks_no_more(spots[row].text, known)
    ]
    return np.array(rows, dtype=np.intp)


def _asks_no_more(text: str, known: set[str]) -> bool:
    asks = pattern("asks")
    if not text.rstrip().endswith(QUESTION_MARKS) and asks.match(text.lstrip()) is None:
        return False
    end = text[-_END:].partition(" ")[2]  # most questions say more, and already at their end
    return all(known.issuperset(terms(asks.sub(" ", part))) for part in (end, text))


def _answers_after_statements(sums: Column, spots: Sequence[PassageSpan], echoes: Places, met: Matrix) -> None:
    """Rank earlier answers to the same question below statements of users, which are their source."""
    import numpy as np

    turns = {spots[row].entry.place.turn_id for row in echoes.tolist()}
    if not turns:
        return
    users = np.array([spot.entry.place.side == "user" for spot in spots])
    answers = ~users & np.array([spot.entry.place.turn_id in turns for spot in spots])
    stated = users & met.any(axis=1)
    if answers.any() and stated.any():
        sums[answers] = np.minimum(sums[answers], sums[stated].max() - _TIE)


def _cosines(spots: Sequence[PassageSpan], found: SearchResults, unknown: float) -> Column:
    import numpy as np

    known = (found.cosines.get(spot.cut.id, unknown) if spot.cut else unknown for spot in spots)
    return np.fromiter(known, dtype=np.float32, count=len(spots))


def _speakers(asked: ParsedQuestion, spots: Sequence[PassageSpan]) -> Column:
    """Return 1 for the only named speaker, -1 for others; 0 if none or several are named."""
    import numpy as np

    if len(asked.speakers) != 1:
        return np.zeros(len(spots), dtype=np.float32)
    named = np.array([spot.entry.speaker.lower() in asked.speakers for spot in spots])
    return np.where(named, 1, -1).astype(np.float32)


def _roles(asked: ParsedQuestion, spots: Sequence[PassageSpan]) -> Column:
    """Return 1 for the user, -1 for others; 0 if speakers have names or the question is about the assistant."""
    import numpy as np

    if asked.of_assistant or any(spot.entry.speaker for spot in spots):
        return np.zeros(len(spots), dtype=np.float32)
    users = np.array([spot.entry.place.side == "user" for spot in spots])
    return np.where(users, 1, -1).astype(np.float32)


def _times(asked: ParsedQuestion, spots: Sequence[PassageSpan]) -> Column:
    """Return how well the time of each passage fits the times of the question."""
    import numpy as np

    if not asked.spans:
        return np.zeros(len(spots), dtype=np.float32)
    moments = [spot.entry.said_at for spot in spots]
    fits = {moment: max(span.certainty * nearness(span, moment) for span in asked.spans) for moment in set(moments)}
    return np.array([fits[moment] for moment in moments], dtype=np.float32)


def _recency(spots: Sequence[PassageSpan]) -> Column:
    """Return the recency from 0 (oldest) to 1 (newest)."""
    import numpy as np

    times = np.array([spot.entry.said_at.timestamp() for spot in spots])
    found: Column = ((times - times.min()) / (float(times.max() - times.min()) or 1.0)).astype(np.float32)
    return found


class _PassageMessages:
    """The messages of passages, and which of them are consecutive in one sitting."""

    def __init__(self, spots: Sequence[PassageSpan]) -> None:
        import numpy as np

        new = [True] + [one.entry is not other.entry for one, other in pairwise(spots)]
        self._of = np.cumsum(new) - 1
        entries = [spot.entry for spot, is_new in zip(spots, new, strict=True) if is_new]
        apart = [_apart(one, other) for one, other in pairwise(entries)]
        self._sittings = np.cumsum([False, *apart])

    def best_around(self, values: Matrix, shares: Mapping[int, float]) -> Matrix:
        """Return for each passage the highest weighted value of the messages around it."""
        import numpy as np

        own = self._own(values)
        best = np.zeros_like(own)
        for by, share in shares.items():
            best = np.maximum(best, share * self._moved(own, by))
        found: Matrix = best[self._of]
        return found

    def sum_around(self, values: Column, shares: Mapping[int, float]) -> Column:
        """Return for each passage the weighted sum of the values of the messages around it."""
        import numpy as np

        own = self._own(values)
        total = np.zeros_like(own)
        for by, share in shares.items():
            total += share * self._moved(own, by)
        found: Column = total[self._of]
        return found

    def _own(self, values: Matrix) -> Matrix:
        """Return the highest value of each message."""
        import numpy as np

        starts = np.flatnonzero(np.diff(self._of, prepend=-1))
        return np.maximum.reduceat(values, starts, axis=0)

    def _moved(self, values: Matrix, by: int) -> Matrix:
        """Return for each message the value of the message ``by`` positions away, 0 beyond the sitting."""
        import numpy as np

        found = np.zeros_like(values)
        if abs(by) >= len(values):
            return found
        here, there = (slice(0, len(values) - by), slice(by, None)) if by > 0 else (slice(-by, None), slice(0, by))
        same = self._sittings[here] == self._sittings[there]
        found[here] = np.where(same.reshape(-1, *[1] * (values.ndim - 1)), values[there], 0)
        return found


def _apart(one: IndexedMessage, other: IndexedMessage) -> bool:
    return (
        one.session_id != other.session_id
        or other.turn_seq - one.turn_seq > NOT_READ
        or abs(other.said_at - one.said_at) > SITTING
    )
