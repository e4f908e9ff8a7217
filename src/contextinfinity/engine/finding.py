"""Finding the past: candidates by words and by vectors, ranked, and packed for a prompt or for people.

Either way may fail (an embedder that does not answer, an index that is broken): what the other finds is used, and what
was missing is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, now
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Entry, Hit, Hits, NearHit, Place, Scope, WordHits
from contextinfinity.domain.vectors import packed, unpacked
from contextinfinity.embedders.static import NAME as STATIC
from contextinfinity.engine.artifacts import artifact_of
from contextinfinity.engine.indexing import EMBED_SECONDS, placing
from contextinfinity.engine.parts import Need, Parts
from contextinfinity.engine.sparing import spared
from contextinfinity.prompt.redact import Redactor, hidden, secrets_in
from contextinfinity.prompt.sections import Artifact
from contextinfinity.retrieval.asking import Question, search_terms, speakers_of, vector_text
from contextinfinity.retrieval.calibration import KNOWN, Calibration, calibration_of
from contextinfinity.retrieval.chunks import ENCODING
from contextinfinity.retrieval.lexicon import built_in_lexicon
from contextinfinity.retrieval.packing import Candidate, Piece, Room, pack
from contextinfinity.retrieval.ranking import Found, rank
from contextinfinity.text.tokens.encodings import encoding

CANDIDATES = 128
"""How many candidates are looked at, of words and of vectors each."""
SURROUNDED = 128
"""Of how many of them what stands around is looked at as well."""
UNLIMITED = 2**31
MOST_LEFT_OUT = 8
"""How many of the pieces that did not go in a plan names; it stays small."""


class Looked(Struct, frozen=True, kw_only=True):
    """What was found, the best first, and what could not be asked."""

    candidates: tuple[Candidate, ...]
    entries: dict[Place, Entry]
    missing: tuple[LeftOut, ...] = ()


async def bring_back(parts: Parts, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
    """Bring back what was said before in this lineage and matters now."""
    turn, retrieval = need.turn, parts.setup.retrieval
    if retrieval is None:
        return ()
    text = turn.user_message.rendered_text
    question = Question(text=text, asked_at=turn.created_at, standalone=need.explicit or "")
    scope = Scope(session_id=turn.session_id, branch_id=turn.branch_id, before=need.first_shown)
    looked = await look(parts, question, scope)
    missing += looked.missing
    good = [one for one in looked.candidates if one.score >= retrieval.threshold and one.chunk.id not in need.attached]
    room = Room(target=min(retrieval.target, need.room), most=retrieval.top_k)
    chosen = pack(good[: retrieval.overfetch_k], question.full, encoding(ENCODING).count, room=room)
    missing += chosen.left_out[:MOST_LEFT_OUT]
    pieces = [_without_halves(piece, looked.entries, parts.setup.redactor) for piece in chosen.pieces]
    return tuple(artifact_of(piece, turn.session_id) for piece in pieces if piece.text.strip())


async def search(parts: Parts, question: str, scope: Scope, *, budget: int | None, limit: int) -> Hits:
    """Find what was said; with a budget, what would be packed into it."""
    looked = await look(parts, Question(text=question, asked_at=now()), scope)
    room = Room(target=budget or UNLIMITED, ceiling=budget or UNLIMITED, most=None if budget else limit)
    chosen = pack(looked.candidates, question, encoding(ENCODING).count, room=room)
    return Hits(
        hits=tuple(_hit(piece, looked.entries) for piece in chosen.pieces),
        tokens=chosen.tokens,
        missing=tuple(f"{left.what}: {left.reason}" for left in looked.missing),
    )


def _hit(piece: Piece, entries: Mapping[Place, Entry]) -> Hit:
    chunk = piece.chunks[0]
    entry = entries[Place(chunk.source_turn, chunk.side)]
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


def _without_halves(piece: Piece, entries: Mapping[Place, Entry], redactor: Redactor | None) -> Piece:
    """Leave no half of a secret at the ends of a piece: no pattern finds a half."""
    entry = entries.get(Place(piece.chunks[0].source_turn, piece.chunks[0].side))
    if redactor is None or entry is None or piece.form == "summary":
        return piece
    start, end = piece.start, piece.end
    for first, last in secrets_in(entry.text, redactor):
        start = last if first < start < last else start
        end = first if first < end < last else end
    return replace(piece, start=start, end=max(start, end), text=entry.text[start : max(start, end)])


# --- looking ---


async def look(parts: Parts, question: Question, scope: Scope) -> Looked:
    """Look by words and by vectors, read what was found and what stands around it, and rank it."""
    missing: list[LeftOut] = []
    index, asked = parts.store.index, search_terms(question)
    words = await spared("keywords", missing, lambda: index.find_words(asked, scope, most=CANDIDATES)) or WordHits()
    entries = await _read(parts, [hit.place for hit in words.hits], {})
    near = await spared("vectors", missing, lambda: _near(parts, question, entries.values(), scope)) or _NOTHING_NEAR
    entries = await _read(parts, [hit.place for hit in near.hits], entries)
    entries = await _read(parts, await index.around([*entries][:SURROUNDED]), entries)
    admitted = await _admitted(parts, entries.values(), scope)
    cosines = await spared("vectors", missing, lambda: _cosines(parts, near, admitted)) or {}
    found = Found(words=words, entries=admitted, cosines=cosines)
    ranked = rank(question, found, near.calibration, built_in_lexicon(), encoding(ENCODING).count)
    fitting = (one for one in ranked if not scope.types or one.chunk.chunk_type in scope.types)
    return Looked(candidates=tuple(fitting), entries=entries, missing=tuple(missing))


class _Near(Struct, frozen=True, kw_only=True):
    """What is near to a question, and what it was compared by."""

    hits: tuple[NearHit, ...] = ()
    vector: bytes = b""
    namespace: str = ""
    calibration: Calibration = KNOWN[STATIC]


_NOTHING_NEAR = _Near()


async def _near(parts: Parts, question: Question, entries: Iterable[Entry], scope: Scope) -> _Near:
    embedder = await placing(parts)
    if embedder is None:
        return _NOTHING_NEAR
    text = hidden(vector_text(question, speakers_of([*entries])), parts.setup.redactor)
    async with asyncio.timeout(EMBED_SECONDS):
        (row,) = await embedder.embed([text], kind="query")
        calibration = await calibration_of(embedder)
    vector = packed(row)
    hits = await parts.store.vectors.near(vector, embedder.name, scope, most=CANDIDATES)
    return _Near(hits=hits, vector=vector, namespace=embedder.name, calibration=calibration)


async def _cosines(parts: Parts, near: _Near, entries: Sequence[Entry]) -> dict[ChunkId, float]:
    """Tell how near the chunks are: those that were found so, and the others by their vectors."""
    cosines = {hit.chunk_id: hit.similarity for hit in near.hits}
    others = [chunk.id for entry in entries for chunk in entry.chunks if chunk.id not in cosines]
    if near.vector and others:
        import numpy as np

        bodies = await parts.store.vectors.bodies(near.namespace, others)
        known = [(chunk, unpacked(body)) for chunk, body in zip(others, bodies, strict=True) if body is not None]
        if known:
            rows = np.stack([row for _, row in known]) @ unpacked(near.vector)
            cosines.update(zip((chunk for chunk, _ in known), rows.tolist(), strict=True))
    return cosines


async def _read(parts: Parts, places: Iterable[Place], known: dict[Place, Entry]) -> dict[Place, Entry]:
    """Read places that are not known yet."""
    wanted = [place for place in dict.fromkeys(places) if place not in known]
    return {**known, **{entry.place: entry for entry in (await parts.store.index.read(wanted) if wanted else ())}}


async def _admitted(parts: Parts, entries: Iterable[Entry], scope: Scope) -> list[Entry]:
    """Leave out what stands around something and is not to be shown itself: beyond a fork, or of another kind."""
    lineage = None if scope.branch_id is None else await parts.store.branches.lineage(scope.branch_id)
    return [
        entry
        for entry in entries
        if (lineage is None or lineage.owner_of(entry.turn_seq) == entry.branch_id)
        and (scope.before is None or entry.turn_seq < scope.before)
        and (not scope.sides or entry.place.side in scope.sides)
        and (scope.since is None or entry.said_at >= scope.since)
        and (scope.until is None or entry.said_at < scope.until)
    ]
