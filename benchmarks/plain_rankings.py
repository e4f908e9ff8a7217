"""Plain ways to rank the passages of a conversation, to compare with: BM25, BM25 with neighbours, raw vectors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.asked import Talk
from contextinfinity.embedders.static import built_in
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.passages import passages_of
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.float64]

K1, B = 1.2, 0.75
count = encoding(ENCODING).count


class Passages:
    """The passages of a conversation, with what plain rankings need."""

    def __init__(self, talk: Talk) -> None:
        self._ids = [said.id for said in talk.said]
        cut = [(n, text) for n, said in enumerate(talk.said) for *_, text in passages_of(said.text)]
        self._messages = np.array([message for message, _ in cut])
        self._texts = [text for _, text in cut]
        self._tokens = [count(text) for text in self._texts]
        self._counts = [Counter(terms(text)) for text in self._texts]
        self._lengths = np.array([max(1, sum(each.values())) for each in self._counts])
        self._said = Counter(term for each in self._counts for term in each)
        self._rows = built_in().encode(self._texts)

    def bm25(self, question: str) -> Column:
        """Score every passage."""
        scores, total = np.zeros(len(self._texts)), len(self._texts)
        norm = K1 * (1 - B + B * self._lengths / self._lengths.mean())
        for term in set(terms(question)):
            held = np.array([each.get(term, 0) for each in self._counts])
            rare = math.log1p((total - self._said[term] + 0.5) / (self._said[term] + 0.5))
            scores += rare * held * (K1 + 1) / (held + norm)
        return scores

    def with_neighbours(self, question: str) -> Column:
        """Score every passage, and for a half the messages before and after it."""
        own = self.bm25(question)
        best = np.zeros(len(self._ids) + 2)
        np.maximum.at(best, self._messages + 1, own)
        scores: Column = own + 0.5 * np.maximum(best[self._messages], best[self._messages + 2])
        return scores

    def vectors(self, question: str) -> Column:
        """Score every passage by its cosine to the question as it is asked."""
        scores: Column = (self._rows @ built_in().encode([question])[0]).astype(np.float64)
        return scores

    def packed(self, ranking: Ranking, question: str, budget: int) -> set[str]:
        """Return the ids of the messages of which the best passage fits."""
        taken: set[str] = set()
        for row in np.argsort(-ranking(self, question), kind="stable").tolist():
            message, tokens = self._ids[self._messages[row]], self._tokens[row]
            if message not in taken and tokens <= budget:
                budget -= tokens
                taken.add(message)
        return taken


Ranking: TypeAlias = Callable[[Passages, str], "Column"]

PLAIN: dict[str, Ranking] = {
    "BM25": Passages.bm25,
    "BM25 with neighbours": Passages.with_neighbours,
    "static vectors": Passages.vectors,
}
