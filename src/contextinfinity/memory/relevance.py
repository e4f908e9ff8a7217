"""Rank memories by their relevance to a question.

Relevance is the maximum of two scores: the rare words that question and memory share, and the cosine of their vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from contextinfinity.domain.memory import Memory, MemoryMatch, MemoryRecall
from contextinfinity.domain.search import Embedding, unpacked, unpacked_rows

MOST = 8
"""The maximum number of memories shown with one question."""
LEAST = 0.42
"""The minimum relevance; it is above what any two texts of one person share."""
_RARE = 14.0
"""The scale of the word score: two rare words are nearly enough."""


def ranked(recalled: MemoryRecall, question: Embedding | None) -> list[tuple[float, Memory]]:
    """Return the relevant memories with their relevance from 0 to 1, best first."""
    candidates = {each.memory.id: each for each in (*recalled.standing, *recalled.found)}
    near = _nearness([*candidates.values()], question)
    scored = [
        (max(1 - exp(-each.match / _RARE), nearness), each.memory)
        for each, nearness in zip(candidates.values(), near, strict=True)
    ]
    found = [(score, memory) for score, memory in scored if score >= LEAST]
    return sorted(found, key=lambda pair: (-pair[0], -pair[1].weight, pair[1].id))


def _nearness(candidates: Sequence[MemoryMatch], question: Embedding | None) -> list[float]:
    """Return the cosine of each memory with the question; 0 without a vector of the same embedder."""
    near = [0.0] * len(candidates)
    if question is None:
        return near
    placed = [
        (place, each.vector.values)
        for place, each in enumerate(candidates)
        if each.vector is not None and each.vector.model == question.model and each.vector.dim == question.dim
    ]
    if placed:
        cosines = unpacked_rows([values for _, values in placed]) @ unpacked(question.values)
        for (place, _), cosine in zip(placed, cosines.tolist(), strict=True):
            near[place] = cosine
    return near
