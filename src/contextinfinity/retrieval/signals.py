"""What speaks for each of the texts that were found, as columns of numbers: a row a text, in the order of saying."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from contextinfinity.domain.search import WordHits
from contextinfinity.retrieval.asking import Asked
from contextinfinity.retrieval.dates import TimeSpan, nearness, told_of
from contextinfinity.retrieval.lexicon import LONGEST, Lexicon
from contextinfinity.retrieval.spots import Spot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float32]
    Matrix: TypeAlias = NDArray[np.float32]
    Places: TypeAlias = NDArray[np.intp]

BLOCK = 16
"""Words of which two neighbouring blocks are looked at as one: what stands far apart in a text does not belong
together, and a long text must not win because it has many words."""

_ENDS = re.compile(r"[.!?。！？\n]")


def rarities(terms: Sequence[str], known: Sequence[str], hits: WordHits) -> Column:
    """Give how rare each term is: 1 for one that nobody said, near 0 for one that everybody says."""
    import numpy as np

    counts = dict(zip(known, hits.counts, strict=False))
    held = np.array([counts.get(term, 0) for term in terms], dtype=np.float32)
    total = np.float32(max(hits.total, 1, *held) if len(held) else 1)
    rare: Column = np.log1p((total - held + 0.5) / (held + 0.5)) / np.log1p((total + 0.5) / 0.5)
    return rare.astype(np.float32)


def met(asked: Asked, texts: Sequence[str], rare: Column, lexicon: Lexicon) -> Matrix:
    """Give how well each word of the question is met in each text, in the stretch of it that meets them best."""
    import numpy as np

    found = np.zeros((len(texts), len(asked.words)), dtype=np.float32)
    if not asked.words:
        return found
    lengths, rows, likeness = lexicon.read(asked.words, texts)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return found
    lengths = lengths[filled]
    blocks = -(-lengths // BLOCK)
    firsts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    owners = np.repeat(np.arange(len(filled)), blocks)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    stretches = np.maximum.reduceat(likeness[rows], firsts[owners] + BLOCK * within, axis=0)
    goes_on = np.append(owners[1:] == owners[:-1], False)
    following = np.vstack((stretches[1:], stretches[:1]))
    stretches = np.where(goes_on[:, None], np.maximum(stretches, following), stretches)
    found[filled] = stretches[_best(stretches @ rare, owners)]
    return found


def _best(worths: Column, owners: Places) -> Places:
    """Give the place of the largest worth of each owner; owners stand together."""
    import numpy as np

    order = np.lexsort((-worths, owners))
    firsts: Places = order[np.append(True, owners[1:] != owners[:-1])]
    return firsts


class Around(NamedTuple):
    """Which rows stand beside each other in a conversation: those of one run."""

    runs: Places

    def moved(self, values: Column | Matrix, by: int) -> Column | Matrix:
        """Give for each row the value of the row so far behind it, 0 where the conversation does not go so far."""
        import numpy as np

        found = np.zeros_like(values)
        if abs(by) >= len(values):
            return found
        here, there = (slice(0, len(values) - by), slice(by, None)) if by > 0 else (slice(-by, None), slice(0, by))
        same = self.runs[here] == self.runs[there]
        found[here] = np.where(same.reshape(-1, *[1] * (values.ndim - 1)), values[there], 0)
        return found


def around(spots: Sequence[Spot]) -> Around:
    """Tell which spots follow each other without a gap."""
    import numpy as np

    parted = [
        one.entry.session_id != other.entry.session_id or other.entry.turn_seq - one.entry.turn_seq > 1
        for one, other in pairwise(spots)
    ]
    return Around(np.cumsum([False, *parted]))


def heard(met: Matrix, beside: Around, shares: Mapping[int, float]) -> Matrix:
    """Give how well each word is met in a text or, for a share, in those around it."""
    import numpy as np

    best = met
    for by, share in shares.items():
        best = np.maximum(best, share * beside.moved(met, by))
    return best


def near(scores: Column, beside: Around, shares: Mapping[int, float]) -> Column:
    """Add up how near a text is and, for a share, those around it."""
    total = scores.copy()
    for by, share in shares.items():
        total += share * beside.moved(scores, by)
    return total


def voices(asked: Asked, spots: Sequence[Spot]) -> Column:
    """Tell where the person speaks whom the question is about; a quarter where nobody is named."""
    import numpy as np

    if len(asked.speakers) == 1:
        return np.array([spot.entry.speaker.lower() in asked.speakers for spot in spots], dtype=np.float32)
    if asked.side is None or asked.speakers:
        return np.zeros(len(spots), dtype=np.float32)
    return np.float32(0.25) * np.array([spot.entry.place.side == asked.side for spot in spots], dtype=np.float32)


def times(asked: Asked, spots: Sequence[Spot], told: Iterable[int]) -> Column:
    """Tell how well it fits the times of the question, when each was said; of some rows also, what they tell of."""
    import numpy as np

    moments = [spot.entry.said_at for spot in spots]
    fits = {moment: max(span.certainty * nearness(span, moment) for span in asked.spans) for moment in set(moments)}
    found = np.array([fits[moment] for moment in moments], dtype=np.float32)
    for row in told:
        for other in _told_of(spots[row].text, moments[row]):
            found[row] = max(found[row], *(span.certainty * _overlap(span, other) for span in asked.spans))
    return found


@lru_cache(maxsize=1 << 12)
def _told_of(text: str, said_at: datetime) -> tuple[TimeSpan, ...]:
    return told_of(text, said_at)


def _overlap(span: TimeSpan, told: TimeSpan) -> float:
    """Tell how much of what is told of lies in a span."""
    shared = min(span.end, told.end) - max(span.start, told.start)
    return max(0.0, told.certainty * (shared / (told.end - told.start)))


def asking(texts: Sequence[str]) -> Column:
    """Give the share of each text that asks."""
    import numpy as np

    return np.array([_asks(text[:LONGEST]) for text in texts], dtype=np.float32)


@lru_cache(maxsize=1 << 12)
def _asks(text: str) -> float:
    start = asks = 0
    for end in _ENDS.finditer(text):
        if end[0] in "?？":
            asks += end.end() - start
        start = end.end()
    return asks / max(1, len(text))
