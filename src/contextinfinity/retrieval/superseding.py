"""Find statements that a newer statement about the same thing supersedes.

Of people with names the messages of one person are compared, of a chat with an assistant whole exchanges: what one side
asks for, the other reports as done. The older one says something that the newer does not, and one of these holds:

    the newer one says that something changed, and shares two words with the older that hardly any other text found has
    the newer one says that something changed, and both share many words, or one and nearly the same vector
    both are almost the same sentence with another value
    in a chat with an assistant: the older one is among the two best of a question for one thing, the newer one among
    the four best, and their vectors are near: both answer, and one of them later
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
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
RARE_WORDS, HELD_BY = 2, 3
"""How many words two exchanges share that are about the same thing, if so many of the exchanges found hold each."""
BEST_OLD, BEST_NEW, RIVALS = 2, 4, 0.4
"""Among how many of the best exchanges an older and a newer answer to the same question are, and their cosine."""
LONGEST = 240
"""Characters of a passage that may be one statement."""
NEAR = 0.6
"""The cosine from which on two statements may be about the same thing."""
ALIKE, ALMOST = 0.34, 0.6
"""The share of words in common: of statements about the same thing, and of the same sentence with another value."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


class _Exchange:
    """The statements of one turn that were found: of one person with a name, or of user and assistant."""

    def __init__(self, said: Sequence[Candidate]) -> None:
        self.said = said
        self.turn_seq = said[0].turn_seq
        self.whose = said[0].chunk.session_id, said[0].speaker
        self.words = frozenset[str]().union(*(_words(each.text) for each in said))
        self.changes = any(_changes(each.text) for each in said)


def superseded(candidates: Sequence[Candidate], vectors: Vectors | None = None) -> dict[Key, Candidate]:
    """Return for each superseded passage the newest one that supersedes it."""
    turns: dict[tuple[str, str, int], list[Candidate]] = {}
    for each in [each for each in candidates if _is_statement(each)][:MOST]:
        turns.setdefault((each.chunk.session_id, each.speaker, each.turn_seq), []).append(each)
    found_exchanges = [*map(_Exchange, turns.values())]
    ranks = {id(exchange): rank for rank, exchange in enumerate(found_exchanges)}
    newest = sorted(found_exchanges, key=lambda exchange: exchange.turn_seq, reverse=True)
    held = Counter(word for exchange in newest for word in exchange.words)
    found: dict[Key, Candidate] = {}
    for new, old in combinations(newest, 2):
        if new.whose != old.whose:
            continue
        rare = [word for word in new.words & old.words if held[word] <= HELD_BY]
        is_about_it = new.changes and len(rare) >= RARE_WORDS and not old.said[0].speaker
        if ranks[id(old)] < BEST_OLD and ranks[id(new)] < BEST_NEW:
            is_about_it |= _answer_the_same(new, old, vectors)
        for each in old.said:
            if (is_about_it and _words(each.text) - new.words) or any(
                supersedes(one, each, _cosine(each, one, vectors)) for one in new.said
            ):
                found.setdefault((each.chunk.id, each.start), new.said[0])
    return found


def _answer_the_same(new: _Exchange, old: _Exchange, vectors: Vectors | None) -> bool:
    """Return whether two of the best exchanges for a question for one thing are near each other."""
    if not may_be_outdated(old.said[0]):
        return False
    return any(_cosine(one, other, vectors) >= RIVALS for one in new.said for other in old.said)


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
    return (candidate.chunk.side == "user" or bool(candidate.speaker)) and _is_statement(candidate)


def may_be_outdated(candidate: Candidate) -> bool:
    """Return whether a later answer to a question for one thing supersedes it, in a chat with an assistant."""
    return not candidate.speaker and not candidate.lists and _is_statement(candidate)


def _is_statement(candidate: Candidate) -> bool:
    return len(candidate.text) <= LONGEST and bool(_statements(candidate.text))


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
