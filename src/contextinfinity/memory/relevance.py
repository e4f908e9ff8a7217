"""Which memories matter for a question.

Relevance is the better of two: rare words that question and memory share, and how near their vectors lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.memory import Memory, MemoryMatch, MemoryRecall
from contextinfinity.domain.vectors import unpacked, unpacked_rows

MOST = 8
"""Memories that ride with one question."""
LEAST = 0.42
"""Relevance under which a memory is not about the question; over what two texts of one person share anyhow."""
_RARE = 14.0
"""The match at which words alone are nearly enough: two rare words."""


def ranked(recalled: MemoryRecall, question: Embedding | None) -> list[tuple[float, Memory]]:
    """Give what matters for a question with its relevance from 0 to 1, the best first."""
    candidates = {each.memory.id: each for each in (*recalled.standing, *recalled.found)}
    near = _nearness([*candidates.values()], question)
    scored = [
        (max(1 - exp(-each.match / _RARE), nearness), each.memory)
        for each, nearness in zip(candidates.values(), near, strict=True)
    ]
    found = [(score, memory) for score, memory in scored if score >= LEAST]
    return sorted(found, key=lambda pair: (-pair[0], -pair[1].weight, pair[1].id))


def _nearness(candidates: Sequence[MemoryMatch], question: Embedding | None) -> list[float]:
    """Tell how near each lies to the question; 0 where it was placed by somebody else, or not at all."""
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
