"""A conversation as a store gives it to the ranking: what words find, what is near, and what stands around both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.asked import Said, Talk
from contextinfinity.domain.chunk import Chunk
from contextinfinity.domain.search import Entry, Place, WordHits
from contextinfinity.embedders.static import built_in
from contextinfinity.retrieval.asking import Question, search_terms, vector_text
from contextinfinity.retrieval.chunks import ENCODING
from contextinfinity.retrieval.ranking import Found
from contextinfinity.retrieval.voices import speakers_of, with_speakers
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 128
"""Messages that words and vectors find at most, each."""
count = encoding(ENCODING).count


class Shelf:
    """One conversation, indexed. A message is one chunk, and its place in the list is the chunk's id."""

    def __init__(self, talk: Talk) -> None:
        self.entries = [_entry(seq, place, said) for place, (seq, said) in enumerate(_turns(talk.said))]
        self.rows = built_in().encode([entry.text for entry in self.entries])
        self._held = [frozenset(terms(entry.text)) for entry in self.entries]
        self._counts = Counter(term for held in self._held for term in held)
        self._turns: dict[int, list[int]] = {}
        for place, entry in enumerate(self.entries):
            self._turns.setdefault(entry.turn_seq, []).append(place)

    def find(self, question: Question) -> Found:
        """Give what a store would."""
        hits, by_words = self._by_words(search_terms(question))
        speakers = speakers_of(with_speakers([self.entries[place] for place in by_words], question.full))
        near = self.rows @ built_in().encode([vector_text(question, speakers)])[0]
        by_vector = np.argsort(-near, kind="stable")[:MOST].tolist()
        places = sorted(self._around({*by_words, *by_vector}))
        return Found(
            words=hits,
            entries=[self.entries[place] for place in places],
            cosines={str(place): float(near[place]) for place in places},
        )

    def vectors(self, places: Iterable[int]) -> NDArray[np.float32]:
        """Give the rows of messages."""
        return self.rows[list(places)]

    def _by_words(self, asked: Sequence[str]) -> tuple[WordHits, list[int]]:
        total, counts = len(self.entries), tuple(self._counts[term] for term in asked)
        weights = {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in zip(asked, counts, strict=True)}
        worth = [sum(weights[term] for term in held & weights.keys()) for held in self._held]
        lent = [max(worth[max(0, place - 3) : place], default=0.0) for place in range(total)]
        found = np.array(worth) + np.array(lent) / 2
        best = [place for place in np.argsort(-found, kind="stable")[:MOST].tolist() if found[place] > 0]
        return WordHits(counts=counts, total=total), best

    def _around(self, places: Iterable[int]) -> set[int]:
        turns = {self.entries[place].turn_seq + by for place in places for by in (-1, 0, 1)}
        return {place for turn in turns for place in self._turns.get(turn, ())}


def _turns(said: Sequence[Said]) -> Iterable[tuple[int, Said]]:
    """Number the turns: a question and its answer are one."""
    seq, is_open = 0, False
    for each in said:
        seq += each.side == "user" or not is_open
        is_open = each.side == "user"
        yield seq, each


def _entry(seq: int, place: int, said: Said) -> Entry:
    where = Place(f"turn-{seq:05}", said.side)
    chunk = Chunk(
        id=str(place),
        session_id="session",
        branch_id="branch",
        source_turn=where.turn_id,
        side=said.side,
        start=0,
        end=len(said.text),
        rendered_text=said.text,
        summary="",
        chunk_type="Other",
        token_est=count(said.text),
        content_hash="",
        created_at=said.at,
    )
    return Entry(
        place=where,
        session_id="session",
        branch_id="branch",
        turn_seq=seq,
        said_at=said.at,
        text=said.text,
        speaker=said.speaker,
        external_ids=(said.id,),
        chunks=(chunk,),
    )
