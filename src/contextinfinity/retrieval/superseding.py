"""Find statements that a newer statement about the same thing supersedes.

Two statements are about the same thing if the same person made them, most of the words of the shorter one are in the
other or their vectors are similar, and each says something the other does not. One of two conditions must hold beside
that: the newer one says that something changed, or both are almost the same sentence with another value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.domain.ids import ChunkId
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.vocabulary import pattern
from contextinfinity.text.keywords import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "Mapping[ChunkId, NDArray[np.float32]]"
Key: TypeAlias = tuple[ChunkId, int]
"""The chunk of a passage, and where the passage begins."""

MOST = 48
"""Candidates that are compared, the best first."""
LONGEST = 400
"""Characters of a passage that may be one statement."""
NEAR = 0.55
"""The cosine from which on two statements may be about the same thing."""
ALIKE, ALMOST = 0.34, 0.6
"""The share of words in common: of statements about the same thing, and of the same sentence with another value."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


def superseded(candidates: Sequence[Candidate], vectors: Vectors | None = None) -> dict[Key, Candidate]:
    """Return for each superseded passage the newest one that supersedes it."""
    stated = [each for each in candidates[:MOST] if _may_state(each)]
    texts = [_statements(each.text) for each in stated]
    words = [frozenset(terms(text)) for text in texts]
    changes = [pattern("changes").search(text) is not None for text in texts]
    order = sorted(range(len(stated)), key=lambda place: (stated[place].said_at, stated[place].turn_seq))
    found: dict[Key, Candidate] = {}
    for at, old in enumerate(order):
        for new in reversed(order[at + 1 :]):
            one, other = stated[old], stated[new]
            if _same_person(one, other) and one.turn_seq < other.turn_seq and words[old] - words[new]:
                shared = _shared(words[old], words[new])
                near = vectors is not None and _cosine(one, other, vectors) >= NEAR
                same_thing = changes[new] and (shared >= ALIKE or (near and shared > 0))
                if same_thing or (shared >= ALMOST and words[new] - words[old]):
                    found[one.chunk.id, one.start] = other
                    break
    return found


def _may_state(candidate: Candidate) -> bool:
    """Return whether a passage is short, by a person, and more than a question."""
    is_person = candidate.chunk.side == "user" or bool(candidate.speaker)
    return is_person and len(candidate.text) <= LONGEST and bool(_statements(candidate.text))


def _statements(text: str) -> str:
    """Return a text without its questions."""
    sentences = (match.group().strip() for match in _SENTENCE.finditer(text))
    return " ".join(each for each in sentences if each and not each.endswith(("?", "？")))


def _same_person(one: Candidate, other: Candidate) -> bool:
    return (one.chunk.session_id, one.chunk.side, one.speaker) == (
        other.chunk.session_id,
        other.chunk.side,
        other.speaker,
    )


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def _cosine(one: Candidate, other: Candidate, vectors: Vectors) -> float:
    if one.chunk.id not in vectors or other.chunk.id not in vectors:
        return 0.0
    return float(vectors[one.chunk.id] @ vectors[other.chunk.id])
