"""A conversation as a store finds it, for tests of the ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from contextinfinity.domain.search import ChunkSide, IndexedMessage, TextPosition, WordHits
from contextinfinity.embedders.static import NAME, built_in
from contextinfinity.retrieval.calibration import KNOWN
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.question import SearchQuestion, search_terms, vector_text
from contextinfinity.retrieval.ranking import RankingInputs, RankingWeights, SearchResults, rank
from contextinfinity.retrieval.speakers import speakers_of
from contextinfinity.text.keywords import terms
from tests.unit.retrieval.turns import THEN, chunk, count

NOW = THEN + timedelta(days=400)


class Line(NamedTuple):
    """Something said; turns follow each other, question and answer in one."""

    side: ChunkSide
    text: str
    speaker: str = ""
    at: datetime = THEN


def entries_of(lines: Sequence[Line], *, cut: bool = True, session: str = "session") -> list[IndexedMessage]:
    """Return lines as entries, each one chunk."""
    entries, seq = [], 0
    for number, line in enumerate(lines):
        seq += line.side == "user" or not seq
        place = TextPosition(f"{session}-turn-{seq}", line.side)
        own = chunk(number, line.text, side=line.side, source_turn=place.turn_id, session_id=session)
        entries.append(
            IndexedMessage(
                place=place,
                session_id=session,
                branch_id="branch",
                turn_seq=seq,
                said_at=line.at,
                text=line.text,
                speaker=line.speaker,
                chunks=(own,) if cut else (),
            )
        )
    return entries


def found_for(text: str, entries: Sequence[IndexedMessage], helpers: tuple[str, ...] = ()) -> SearchResults:
    """Find everything, with true counts and cosines."""
    question = SearchQuestion(text=text, asked_at=NOW, terms=helpers)
    counts = Counter(term for entry in entries for term in set(terms(entry.text)))
    asked = built_in().encode([vector_text(question, speakers_of(entries))])[0]
    chunks = [each for entry in entries for each in entry.chunks]
    near = built_in().encode([each.rendered_text for each in chunks]) @ asked
    return SearchResults(
        words=WordHits(counts=tuple(counts[term] for term in search_terms(question)), total=len(entries)),
        entries=entries,
        cosines={each.id: float(cosine) for each, cosine in zip(chunks, near, strict=True)},
    )


def means(weights: RankingWeights | None = None, recency: float = 0.0) -> RankingInputs:
    """Return what a ranking works with, for the built-in embedder."""
    return RankingInputs(
        calibration=KNOWN[NAME],
        count=count,
        weights=weights or RankingWeights(),
        recency=recency,
    )


def ranked(text: str, entries: Sequence[IndexedMessage], **more: float) -> tuple[Candidate, ...]:
    """Rank all entries for a question."""
    return rank(SearchQuestion(text=text, asked_at=NOW), found_for(text, entries), means(**more))  # type: ignore[arg-type]


def texts(candidates: Sequence[Candidate]) -> list[str]:
    """Return what was said, in the order of the ranking."""
    return [each.text for each in candidates]
