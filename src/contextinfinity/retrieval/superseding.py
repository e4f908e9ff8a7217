"""Find statements that are superseded by a newer statement about the same subject.

If speakers have names, the messages of one person are compared; in a chat with an assistant, whole exchanges, because
the assistant reports as done what the user asked for. The older one says something that the newer one does not, and one
of these conditions holds:

    the newer one says that something changed, and shares two words with the older that few other texts found contain
    the newer one says that something changed, and both share many words, or one word and nearly the same vector
    both are almost the same sentence with another value

Changes in other words are found by ``engine/history_search.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice
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
"""The chunk of a passage and the start of the passage."""

MOST = 24
"""The number of best candidates that are compared."""
RARE_WORDS, HELD_BY = 2, 3
"""The number of shared words that indicate the same subject, and the maximum number of exchanges that contain each."""
LONGEST = 240
"""The maximum length of a passage that may be a single statement."""
NEAR = 0.6
"""The minimum cosine of two statements about the same subject."""
ALIKE, ALMOST = 0.34, 0.6
"""The share of common words: of statements about the same subject, and of one sentence with another value."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


class _Exchange:
    """The statements of one turn that were found: of one named person, or of user and assistant."""

    def __init__(self, said: Sequence[Candidate]) -> None:
        self.said = said
        self.turn_seq = said[0].turn_seq
        self.whose = said[0].chunk.session_id, said[0].speaker
        self.words = frozenset[str]().union(*(_words(each.text) for each in said))
        self.changes = any(_changes(each.text) for each in said)


def superseded(candidates: Sequence[Candidate], vectors: Vectors | None = None) -> dict[Key, Candidate]:
    """Return for each superseded passage the newest one that supersedes it."""
    turns: dict[tuple[str, str, int], list[Candidate]] = {}
    for each in islice(filter(_is_statement, candidates), MOST):
        turns.setdefault((each.chunk.session_id, each.speaker, each.turn_seq), []).append(each)
    newest = sorted(map(_Exchange, turns.values()), key=lambda exchange: exchange.turn_seq, reverse=True)
    held = Counter(word for exchange in newest for word in exchange.words)
    found: dict[Key, Candidate] = {}
    for new, old in combinations(newest, 2):
        if new.whose != old.whose:
            continue
        rare = [word for word in new.words & old.words if held[word] <= HELD_BY]
        is_about_it = new.changes and len(rare) >= RARE_WORDS and not old.said[0].speaker
        for each in old.said:
            if (is_about_it and _words(each.text) - new.words) or any(
                supersedes(one, each, _cosine(each, one, vectors)) for one in new.said
            ):
                found.setdefault((each.chunk.id, each.start), new.said[0])
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


def may_be_outdated(candidate: Candidate) -> bool:
    """Return whether a later answer may supersede it: an assistant chat, and a question about one thing."""
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
