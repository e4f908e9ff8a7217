"""Find statements that a newer statement about the same thing supersedes.

The same person made both, and the older one says something that the newer does not. Beside that, either the newer one
says that something changed, and they share words or are similar by their vectors; or both are almost the same sentence
with another value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
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

MOST = 24
"""Candidates that are compared, the best first."""
LONGEST = 240
"""Characters of a passage that may be one statement."""
NEAR = 0.45
"""The cosine from which on two statements may be about the same thing."""
ALIKE, ALMOST = 0.34, 0.6
"""The share of words in common: of statements about the same thing, and of the same sentence with another value."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


def superseded(candidates: Sequence[Candidate], vectors: Vectors | None = None) -> dict[Key, Candidate]:
    """Return for each superseded passage the newest one that supersedes it."""
    stated = [each for each in candidates if may_state(each)][:MOST]
    newest = sorted(stated, key=lambda each: (each.said_at, each.turn_seq), reverse=True)
    found: dict[Key, Candidate] = {}
    for old in stated:
        for new in newest:
            if new is old:
                break
            if supersedes(new, old, _cosine(old, new, vectors)):
                found[old.chunk.id, old.start] = new
                break
    return found


def supersedes(new: Candidate, old: Candidate, cosine: float = 1.0) -> bool:
    """Return whether a statement supersedes an older one; ``cosine`` is that of their vectors."""
    if not (_same_person(old, new) and old.turn_seq < new.turn_seq):
        return False
    before, after = _words(old.text), _words(new.text)
    shared = len(before & after)
    share = shared / max(1, min(len(before), len(after)))
    if not shared or not before - after:
        return False
    if _changes(new.text) and ((shared >= 2 and share >= ALIKE) or cosine >= NEAR):
        return True
    return shared >= 2 and share >= ALMOST and bool(after - before)


@lru_cache(maxsize=1 << 10)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(_statements(text)))


@lru_cache(maxsize=1 << 10)
def _changes(text: str) -> bool:
    return pattern("changes").search(_statements(text)) is not None


def may_state(candidate: Candidate) -> bool:
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


def _cosine(one: Candidate, other: Candidate, vectors: Vectors | None) -> float:
    if vectors is None or one.chunk.id not in vectors or other.chunk.id not in vectors:
        return 0.0
    return float(vectors[one.chunk.id] @ vectors[other.chunk.id])
