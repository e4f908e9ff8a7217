"""Finding the past: candidates by words and by vectors, ranked, and packed for a prompt or for people.

Either way may fail (an embedder that does not answer, an index that is broken): what the other finds is used, and what
was missing is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import ChunkId, TurnId, now
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Hit, Hits, IndexedMessage, Scope, TextPosition, VectorHit, WordHits, place_of
from contextinfinity.domain.vectors import packed, unpacked, unpacked_rows
from contextinfinity.embedders.static import NAME as STATIC
from contextinfinity.engine.artifacts import Need, artifact_of
from contextinfinity.engine.indexing import placing
from contextinfinity.engine.newer_statements import answered_later, newer_statements, with_mark
from contextinfinity.engine.parts import Parts
from contextinfinity.engine.recall import run_optional
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.prompt.quoting import quote
from contextinfinity.prompt.redact import Redactor, hidden, secrets_in
from contextinfinity.retrieval.calibration import KNOWN, RARE, Calibration, calibration_of
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.packing import PackedPassage, PackingBudget, pack
from contextinfinity.retrieval.question import (
    SearchQuestion,
    exact_terms,
    may_name_a_speaker,
    search_terms,
    vector_text,
)
from contextinfinity.retrieval.ranking import RankingInputs, SearchResults, rank
from contextinfinity.retrieval.speakers import speakers_of, with_speakers
from contextinfinity.telemetry.stages import timed
from contextinfinity.telemetry.turn_metrics import RetrievalFigures, note
from contextinfinity.text.cues import carries_content, words
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.domain.vectors import Rows

    Row: TypeAlias = NDArray[np.float32]

TURNS = 32
"""How many of the turns in which something was found are ranked, with the turns beside them."""
FEW_TURNS = 20
"""The same for a search without a budget."""
NEAREST = 128
"""Chunks whose cosines such a search knows."""
MOST_TURNS = 512
SHORT = 20
"""Tokens of a budget for which one more turn is ranked: more turns than may go in, so that the best of them do."""
SPEAKERS_FROM = 16
"""Hits that are read to know the names of the speakers."""
UNLIMITED = 2**31
QUESTION_SECONDS = 3.0
"""How long a question waits for its vector."""
AWAY_SECONDS = 30.0
"""How long an embedder that did not answer is not asked again."""
EMPTY = 2
"""Words with content up to which a message is searched for with words of the conversation as if they were its own."""
MOST_LEFT_OUT = 8
"""How many of the pieces that did not go in a plan names; it stays small."""


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """What was found, the best first, and what could not be asked."""

    candidates: tuple[Candidate, ...]
    entries: dict[TextPosition, IndexedMessage]
    placed: _Placed
    namespace: str
    """Whose vectors were compared."""
    vector: bytes
    """The vector of the question; empty where none could be made."""
    worded: frozenset[TextPosition]
    """Where words of the question stand."""
    missing: tuple[LeftOut, ...] = ()

    def is_cut(self, piece: PackedPassage) -> bool:
        """Return whether the chunks of a piece are stored; those of what was just said may not be."""
        return bool(self.entries[place_of(piece.chunks[0])].chunks)

    def is_meant(self, candidate: Candidate) -> bool:
        """Return whether a person who searches may want to see it: it holds a word of the question, or is similar."""
        return candidate.score >= RARE / 2 or place_of(candidate.chunk) in self.worded


async def bring_back(parts: Parts, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
    """Bring back what was said before in this lineage and matters now, by value up to the packing target."""
    turn, retrieval = need.turn, parts.setup.retrieval
    if retrieval is None or retrieval.top_k == 0:
        return ()
    text = turn.user_message.rendered_text
    is_empty = sum(map(carries_content, words(text))) <= EMPTY
    standalone = need.explicit or (" ".join((text, *need.terms)) if need.terms and is_empty else "")
    question = SearchQuestion(text=text, asked_at=turn.created_at, standalone=standalone, terms=need.terms)
    scope = need.scope or Scope(session_id=turn.session_id, branch_id=turn.branch_id, before=need.first_shown)
    room = PackingBudget(target=min(retrieval.target_of(need.window), need.room))
    looked = await look(parts, question, scope, turns=_turns_for(room.target, retrieval.overfetch_k))
    missing += looked.missing
    good = [one for one in looked.candidates if one.score >= retrieval.threshold and one.chunk.id not in need.attached]
    newer = await run_optional("newer statements", missing, lambda: newer_statements(parts, looked, good, scope))
    good += newer or ()
    vectors = looked.placed.by_chunk(good) if retrieval.mmr else None
    chosen = await asyncio.to_thread(pack, good, question.full, _quoted, room=room, vectors=vectors)
    missing += chosen.left_out[:MOST_LEFT_OUT]
    later = await run_optional("newer turns", missing, lambda: answered_later(parts, need, looked, good)) or {}
    marked = [with_mark(piece, later) for piece in chosen.pieces]
    pieces = [_without_halves(piece, looked.entries, parts.setup.redactor) for piece in marked]
    placed = [piece for piece in pieces if piece.text.strip()]
    similarities = tuple(piece.score for piece in placed)
    note(RetrievalFigures(len(looked.candidates), chosen.tokens, similarities))
    return tuple(artifact_of(piece, turn.session_id, is_cut=looked.is_cut(piece)) for piece in placed)


async def search(parts: Parts, question: str, scope: Scope, *, budget: int | None, limit: int) -> Hits:
    """Find what was said; with a budget, what would be packed into it."""
    turns = max(FEW_TURNS, limit) if budget is None else _turns_for(budget)
    asked = SearchQuestion(text=question, asked_at=now())
    looked = await look(parts, asked, scope, turns=min(turns, MOST_TURNS), with_vectors=budget is not None)
    if budget is None:
        looked = replace(looked, candidates=tuple(one for one in looked.candidates if looked.is_meant(one)))
    room = PackingBudget(target=budget or UNLIMITED, most=None if budget else limit, apart=budget is None)
    mmr = budget is not None and parts.setup.retrieval is not None and parts.setup.retrieval.mmr
    vectors = looked.placed.by_chunk(looked.candidates) if mmr else None
    chosen = await asyncio.to_thread(
        pack, looked.candidates, question, encoding(ENCODING).count, room=room, vectors=vectors
    )
    return Hits(
        hits=tuple(_hit(piece, looked.entries) for piece in chosen.pieces),
        tokens=chosen.tokens,
        missing=tuple(f"{left.what}: {left.reason}" for left in looked.missing),
    )


def _turns_for(budget: int, least: int = TURNS) -> int:
    """Return how many turns to rank for a budget in tokens."""
    return min(max(TURNS, least, budget // SHORT), MOST_TURNS)


def _quoted(text: str) -> int:
    """Count a text as a prompt quotes it: a bar before every line."""
    return encoding(ENCODING).count(quote(text))


def _hit(piece: PackedPassage, entries: Mapping[TextPosition, IndexedMessage]) -> Hit:
    chunk = piece.chunks[0]
    entry = entries[place_of(chunk)]
    return Hit(
        thread_id=chunk.session_id,
        turn_id=chunk.source_turn,
        turn_seq=piece.turn_seq,
        chunk_id=chunk.id,
        role=chunk.side,
        score=round(piece.score, 4),
        text=piece.text,
        offsets=(piece.start, piece.end),
        type=chunk.chunk_type,
        created_at=piece.said_at,
        external_ids=entry.external_ids,
        speaker=piece.speaker,
    )


def _without_halves(
    piece: PackedPassage, entries: Mapping[TextPosition, IndexedMessage], redactor: Redactor | None
) -> PackedPassage:
    """Leave no half of a secret at the ends of a piece: no pattern finds a half."""
    entry = entries.get(place_of(piece.chunks[0]))
    if redactor is None:
        return piece
    if entry is None or piece.form == "summary":  # made of pieces itself
        return msgspec.structs.replace(piece, text="")
    start, end = piece.start, piece.end
    for first, last in secrets_in(entry.text, redactor):
        start = last if first < start < last else start
        end = first if first < end < last else end
    return msgspec.structs.replace(piece, start=start, end=max(start, end), text=entry.text[start : max(start, end)])


# --- looking ---


async def look(
    parts: Parts, question: SearchQuestion, scope: Scope, *, turns: int, with_vectors: bool = True
) -> SearchOutcome:
    """Look by words and by vectors, read what was found and what stands around it, and rank it.

    ``turns`` is how many of the turns in which something was found are ranked, with those beside them. Without
    ``with_vectors`` only the cosines of the nearest chunks are known; it is quicker.
    """
    missing: list[LeftOut] = []
    index, asked = parts.store.index, search_terms(question)
    words = (
        await run_optional("keywords", missing, lambda: index.find_words(asked, scope, most=2 * turns)) or WordHits()
    )
    exact = exact_terms(question)
    holding = _most_held(await index.find_words(exact, scope, most=turns)) if exact and words.hits else []
    heard: Sequence[IndexedMessage] = ()
    most = 2 * turns if with_vectors else NEAREST
    if may_name_a_speaker(question):
        heard = await index.read([hit.place for hit in words.hits[:SPEAKERS_FROM]])
    near = await run_optional("vectors", missing, lambda: _near(parts, question, heard, scope, most)) or _NOTHING_NEAR
    best = [*holding, *_best_turns(words, near)]
    entries = {entry.place: entry for entry in await index.around([*dict.fromkeys(best)][:turns])}
    admitted = await _admitted(parts, entries.values(), scope)
    cosines, placed = near.cosines(admitted), _Placed({})
    if with_vectors:
        placed = await run_optional("vectors", missing, lambda: _placed(parts, near, admitted)) or placed
        cosines |= placed.cosines(near.vector)
    found = SearchResults(words=words, entries=admitted, cosines=cosines)
    means = RankingInputs(
        calibration=near.calibration,
        count=encoding(ENCODING).count,
        recency=parts.setup.retrieval.recency_boost if parts.setup.retrieval else 0,
    )
    ranked = await asyncio.to_thread(rank, question, found, means, most=4 * turns)
    fitting = (
        one
        for one in ranked
        if (not scope.types or one.chunk.chunk_type in scope.types)
        and (not scope.sides or one.chunk.side in scope.sides)
    )
    return SearchOutcome(
        candidates=tuple(_as_kept(one, entries) for one in fitting),
        entries=entries,
        placed=placed,
        namespace=near.namespace,
        vector=near.vector,
        worded=frozenset(hit.place for hit in words.hits if hit.own),
        missing=tuple(missing),
    )


def _as_kept(candidate: Candidate, entries: Mapping[TextPosition, IndexedMessage]) -> Candidate:
    """Show the name that was kept, not one that was guessed for the ranking: a plan is made again from the ledger."""
    kept = entries[place_of(candidate.chunk)].speaker
    return candidate if candidate.speaker == kept else msgspec.structs.replace(candidate, speaker=kept)


def _most_held(words: WordHits) -> list[TurnId]:
    """Return the turns that hold the most of the words themselves."""
    most = max((hit.own.bit_count() for hit in words.hits), default=0)
    return [hit.place.turn_id for hit in words.hits if hit.own.bit_count() == most > 0]


def _best_turns(words: WordHits, near: _Near) -> list[TurnId]:
    """Return the turns in which words and vectors found something, alternating between the two."""
    by_words, by_vectors = [hit.place.turn_id for hit in words.hits], [hit.place.turn_id for hit in near.hits]
    found = dict.fromkeys(turn_id for pair in zip_longest(by_words, by_vectors) for turn_id in pair if turn_id)
    return [*found]


class _Near(Struct, frozen=True, kw_only=True):
    """What is near to a question, and what it was compared by."""

    hits: tuple[VectorHit, ...] = ()
    vector: bytes = b""
    namespace: str = ""
    calibration: Calibration = KNOWN[STATIC]

    def cosines(self, entries: Iterable[IndexedMessage]) -> dict[ChunkId, float]:
        """Return the cosines of chunks; for one that is not among the nearest, halfway from the last to the mean."""
        known = {hit.chunk_id: hit.similarity for hit in self.hits}
        if not known:
            return {}
        other = (min(known.values()) + self.calibration.mean) / 2
        return {chunk.id: known.get(chunk.id, other) for entry in entries for chunk in entry.chunks}


_NOTHING_NEAR = _Near()
_AWAY: dict[str, float] = {}
"""Until when embedders that did not answer are left alone."""
_CALIBRATIONS: dict[str, Calibration] = {}
"""Of embedders that were asked; measuring one takes some 160 texts."""


async def _near(
    parts: Parts, question: SearchQuestion, heard: Iterable[IndexedMessage], scope: Scope, most: int
) -> _Near:
    """Find what is near; a question is placed without the names of those who speak, told by what words found."""
    if parts.setup.retrieval is None:
        return _NOTHING_NEAR
    embedder = await placing(parts)
    if embedder is None:
        raise ProviderError("nobody can make the vectors that are searched any more; `cix reindex` makes others")
    if monotonic() < _AWAY.get(embedder.name, 0):
        raise ProviderError(f"{embedder.name} did not answer a moment ago, and is left alone for a while")
    speakers = speakers_of(with_speakers(heard, question.full))
    text = hidden(vector_text(question, speakers), parts.setup.redactor)
    _AWAY[embedder.name] = monotonic() + AWAY_SECONDS  # until it has answered
    async with asyncio.timeout(QUESTION_SECONDS):
        with timed("embed"):
            (row,) = await embedder.embed([text], kind="query")
        if embedder.name not in _CALIBRATIONS:
            _CALIBRATIONS[embedder.name] = await calibration_of(embedder)
    del _AWAY[embedder.name]
    vector = packed(row)
    hits = await parts.store.vectors.near(vector, embedder.name, scope, most=most)
    return _Near(hits=hits, vector=vector, namespace=embedder.name, calibration=_CALIBRATIONS[embedder.name])


class _Placed(NamedTuple):
    """The vectors of chunks, as far as they are known."""

    places: dict[ChunkId, int]
    rows: Rows | None = None

    def by_chunk(self, candidates: Iterable[Candidate]) -> dict[ChunkId, Row]:
        """Return the vectors of the candidates' chunks, as far as they are known."""
        if self.rows is None:
            return {}
        return {one.chunk.id: self.rows[self.places[one.chunk.id]] for one in candidates if one.chunk.id in self.places}

    def cosines(self, vector: bytes) -> dict[ChunkId, float]:
        """Tell how near each is to a vector."""
        near = [] if self.rows is None else (self.rows @ unpacked(vector)).tolist()
        return dict(zip(self.places, near, strict=True))


async def _placed(parts: Parts, near: _Near, entries: Sequence[IndexedMessage]) -> _Placed:
    """Read the vectors of all chunks that are to be ranked."""
    chunks = [chunk.id for entry in entries for chunk in entry.chunks] if near.vector else []
    bodies = await parts.store.vectors.bodies(near.namespace, chunks)
    known = {chunk: body for chunk, body in zip(chunks, bodies, strict=True) if body is not None}
    rows = unpacked_rows([*known.values()]) if known else None
    return _Placed({chunk: place for place, chunk in enumerate(known)}, rows)


async def _admitted(parts: Parts, entries: Iterable[IndexedMessage], scope: Scope) -> list[IndexedMessage]:
    """Leave out what stands around something and may not be shown: beyond a fork, or of another time."""
    lineage = None if scope.branch_id is None else await parts.store.branches.lineage(scope.branch_id)
    return [
        entry
        for entry in entries
        if (lineage is None or lineage.owner_of(entry.turn_seq) == entry.branch_id)
        and (scope.before is None or entry.turn_seq < scope.before)
        and (scope.since is None or entry.said_at >= scope.since)
        and (scope.until is None or entry.said_at < scope.until)
    ]
