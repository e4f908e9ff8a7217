"""Search earlier messages by keywords and by vectors, rank the candidates, and pack them for a prompt or for people.

Either search may fail (an embedder that does not answer, a broken index): the other's results are used, and the failure
is reported.

A change is often stated in words that the question lacks ("rip it out, a dict is enough"). It is found from the older
exchange: the later exchange most similar to it and to the question goes into the prompt too, and if it scores far above
all others, the older one is marked as superseded (docs/decisions/0024-ranking.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import ChunkId, TurnId, now
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import (
    Hit,
    Hits,
    IndexedMessage,
    Scope,
    TextPosition,
    VectorHit,
    WordHits,
    packed,
    place_of,
    unpacked,
    unpacked_rows,
)
from contextinfinity.embedders.static import NAME as STATIC
from contextinfinity.engine.artifacts import Need, artifact_of
from contextinfinity.engine.engine_setup import RetrievalParts
from contextinfinity.engine.indexing import current_embedder
from contextinfinity.engine.optional_stage import run_optional
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.prompt.quoting import quote
from contextinfinity.prompt.redact import Redactor, hidden, secrets_in, without_halves
from contextinfinity.retrieval.calibration import KNOWN, RARE, Calibration, calibration_of
from contextinfinity.retrieval.candidates import Candidate, candidate_of, passages_to_rank
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.packing import PackedPassage, PackingBudget, pack
from contextinfinity.retrieval.question import SearchQuestion, exact_terms, search_terms, vector_text
from contextinfinity.retrieval.ranking import RankingInputs, SearchResults, rank
from contextinfinity.retrieval.speakers import possible_names, speakers_of, with_speakers
from contextinfinity.retrieval.superseding import may_be_outdated
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.figures import RetrievalFigures, note
from contextinfinity.telemetry.stage_times import timed
from contextinfinity.text.cues import carries_content, words
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding

OLDER: Final = 2
"""The number of best exchanges for which later ones are searched."""
COMPARED: Final = 16
"""The number of later exchanges that are compared by their words."""
APART: Final = 12
"""The minimum number of turns between them: what follows sooner continues the same talk."""
QUESTION, SHARED = 0.5, 3.0
"""The weights of the similarity to the question and of the share of common words; the similarity to the older exchange
has weight 1. Similarities are measured in calibration steps.
"""
RELATED, STANDS_OUT, OTHERS = 1.0, 1.5, 4
"""The similarity from which a later exchange goes into the prompt; and the value from which the older one is marked:
half the similarity and its lead over the exchange that is ``OTHERS`` places behind.
"""
LEAST_WORDS: Final = 3
"""The minimum number of content words of a message that is compared."""
LONGEST: Final = 480
"""The maximum number of characters of a message that goes into the prompt as a whole."""


class LaterStatements(NamedTuple):
    """Passages of later exchanges for the prompt, and a map from superseded turns to the later turns."""

    passages: list[Candidate]
    superseded: dict[int, int]


class _ComparedExchange(NamedTuple):
    """The messages of a turn that say something, and its similarity to an older exchange."""

    said: list[IndexedMessage]
    similarity: float = 0.0

    @property
    def turn_seq(self) -> int:
        return self.said[0].turn_seq

    @property
    def words(self) -> frozenset[str]:
        return frozenset[str]().union(*(terms(entry.text[:LONGEST]) for entry in self.said))


def _compared(
    exchange: _ComparedExchange, found: Mapping[TextPosition, float], words: frozenset[str], calibration: Calibration
) -> _ComparedExchange:
    """Return a later exchange with its similarity: that of its nearer message, and the share of common words."""
    nearest = max(found.get(entry.place, 0.0) for entry in exchange.said) / (1 + QUESTION)
    shared = len(words & exchange.words) / max(1, min(len(words), len(exchange.words)))
    return exchange._replace(similarity=(1 + QUESTION) * calibration.step(nearest) + SHARED * shared)


def _has_content(entry: IndexedMessage) -> bool:
    """Return whether a message says something: "Noted." does not."""
    return len(set(terms(entry.text[:LONGEST]))) >= LEAST_WORDS


def _passages(exchange: _ComparedExchange, older: Candidate) -> Iterator[Candidate]:
    """Yield the short messages of an exchange as passages with the value of the older one."""
    for spot in passages_to_rank([entry for entry in exchange.said if len(entry.text) <= LONGEST], {}):
        yield candidate_of(spot, older.score, encoding(ENCODING).count, exact=False, lists=older.lists)


def with_mark(piece: PackedPassage, later: Mapping[int, int]) -> PackedPassage:
    """Mark a passage that a later turn supersedes, unless it is marked already."""
    seq = 0 if piece.superseded_by else later.get(piece.turn_seq, 0)
    return msgspec.structs.replace(piece, superseded_by=seq) if seq else piece


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.domain.search import Rows

    Row: TypeAlias = NDArray[np.float32]

TURNS = 32
"""The number of turns with hits that are ranked, together with their neighbours."""
FEW_TURNS = 16
"""The same for a search without a budget."""
NEAREST = 128
"""The number of nearest chunks that a search without a budget reads."""
MOST_TURNS = 512
SHORT = 20
"""One turn is ranked for this many tokens of the budget, so that there are more candidates than fit."""
SPEAKERS_FROM = 16
"""The number of hits that are read to learn the speakers' names."""
UNLIMITED = 2**31
QUESTION_SECONDS = 3.0
"""The time limit for embedding the question."""
AWAY_SECONDS = 30.0
"""How long an embedder behind an endpoint is not called after it failed to answer."""
EMPTY = 2
"""Up to this many content words, a message is searched together with words of the conversation."""
MOST_LEFT_OUT = 8
"""The maximum number of omitted passages that a plan lists."""


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """Ranked candidates, best first, and the searches that failed."""

    candidates: tuple[Candidate, ...]
    entries: dict[TextPosition, IndexedMessage]
    placed: _Placed
    namespace: str
    """The vector namespace that was searched."""
    vector: bytes
    """The vector of the question; empty if it could not be computed."""
    calibration: Calibration
    worded: frozenset[TextPosition]
    """The positions that contain words of the question."""
    missing: tuple[LeftOut, ...] = ()

    def is_cut(self, piece: PackedPassage) -> bool:
        """Return whether the chunks of a passage are stored; those of the newest turns may not be yet."""
        return bool(self.entries[place_of(piece.chunks[0])].chunks)

    def is_meant(self, candidate: Candidate) -> bool:
        """Return whether the candidate contains a word of the question or is similar enough to show to a person."""
        return candidate.score >= RARE / 2 or place_of(candidate.chunk) in self.worded


@dataclass(frozen=True, kw_only=True)
class HistorySearch:
    """Searches the messages of a ledger."""

    store: Store
    retrieval: RetrievalParts | None
    """None: messages are searched by keywords only."""
    redactor: Redactor | None

    async def retrieve(self, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
        """Return earlier passages of this lineage that are relevant now, packed by value up to the target size.

        Failures and omitted passages are appended to ``missing``.
        """
        turn, retrieval = need.turn, self.retrieval
        if retrieval is None or retrieval.top_k == 0:
            return ()
        text = turn.user_message.rendered_text
        is_empty = sum(map(carries_content, words(text))) <= EMPTY
        standalone = need.explicit or (" ".join((text, *need.terms)) if need.terms and is_empty else "")
        question = SearchQuestion(text=text, asked_at=turn.created_at, standalone=standalone, terms=need.terms)
        scope = need.scope or Scope(session_id=turn.session_id, branch_id=turn.branch_id, before=need.first_shown)
        room = PackingBudget(target=min(retrieval.target_of(need.window), need.room))
        looked = await self._candidates(question, scope, turns=_turns_for(room.target, retrieval.overfetch_k))
        missing += looked.missing
        good = [
            one for one in looked.candidates if one.score >= retrieval.threshold and one.chunk.id not in need.attached
        ]
        later = await run_optional("later statements", missing, lambda: self._later_statements(need, looked, good))
        later = later or LaterStatements([], {})
        good += later.passages
        vectors = looked.placed.by_chunk(good) if retrieval.mmr else None
        chosen = await asyncio.to_thread(pack, good, question.full, _quoted, room=room, vectors=vectors)
        if need.scope is None:  # a search of all conversations would list passages of this one a second time
            missing += chosen.left_out[:MOST_LEFT_OUT]
        marked = [with_mark(piece, later.superseded) for piece in chosen.pieces]
        pieces = [_without_halves(piece, looked.entries, self.redactor) for piece in marked]
        placed = [piece for piece in pieces if piece.text.strip()]
        similarities = tuple(piece.score for piece in placed)
        note(RetrievalFigures(len(looked.candidates), chosen.tokens, similarities))
        return tuple(artifact_of(piece, turn.session_id, is_cut=looked.is_cut(piece)) for piece in placed)

    async def search(self, question: str, scope: Scope, *, budget: int | None, limit: int) -> Hits:
        """Search stored messages; with a budget, return the passages that fit into it."""
        turns = max(FEW_TURNS, limit) if budget is None else _turns_for(budget)
        asked = SearchQuestion(text=question, asked_at=now())
        looked = await self._candidates(asked, scope, turns=min(turns, MOST_TURNS), with_vectors=budget is not None)
        if budget is None:
            looked = replace(looked, candidates=tuple(one for one in looked.candidates if looked.is_meant(one)))
        room = PackingBudget(target=budget or UNLIMITED, most=None if budget else limit, apart=budget is None)
        mmr = budget is not None and self.retrieval is not None and self.retrieval.mmr
        vectors = looked.placed.by_chunk(looked.candidates) if mmr else None
        chosen = await asyncio.to_thread(
            pack, looked.candidates, question, encoding(ENCODING).count, room=room, vectors=vectors
        )
        return Hits(
            hits=tuple(_hit(piece, looked.entries) for piece in chosen.pieces),
            tokens=chosen.tokens,
            missing=tuple(f"{left.what}: {left.reason}" for left in looked.missing),
        )

    async def _later_statements(self, need: Need, looked: SearchOutcome, good: Sequence[Candidate]) -> LaterStatements:
        """Find later exchanges about the subject of the best passages, also among the turns that are shown verbatim."""
        found = LaterStatements([], {})
        if need.scope is not None or not looked.vector:
            return found
        best = {one.turn_seq: one for one in reversed(good) if may_be_outdated(one) and not one.exact}
        for one in [*reversed(best.values())][:OLDER]:
            turn_id = one.chunk.source_turn
            said = [
                entry for entry in looked.entries.values() if entry.place.turn_id == turn_id and _has_content(entry)
            ]
            ranked = await self._ranked(need, looked, _ComparedExchange(said)) if said else []
            if not ranked or ranked[0].similarity < RELATED:
                continue
            newest = ranked[0]
            lead = newest.similarity - ranked[min(OTHERS, len(ranked) - 1)].similarity
            if lead + newest.similarity / 2 >= STANDS_OUT:
                found.superseded[one.turn_seq] = newest.turn_seq
            if newest.turn_seq < need.first_shown:
                looked.entries.update({entry.place: entry for entry in newest.said})
                found.passages.extend(each for each in _passages(newest, one) if each.chunk.id not in need.attached)
        return found

    async def _ranked(self, need: Need, looked: SearchOutcome, older: _ComparedExchange) -> list[_ComparedExchange]:
        """Return the later exchanges, the most similar first."""
        import numpy as np

        chunks = [chunk.id for entry in older.said for chunk in entry.chunks[:1] if chunk.id in looked.placed.places]
        if looked.placed.rows is None or not chunks:
            return []
        exchange = looked.placed.rows[[looked.placed.places[chunk] for chunk in chunks]].sum(axis=0)
        asked = exchange / (np.linalg.norm(exchange) or 1) + QUESTION * unpacked(looked.vector)
        size = float(np.linalg.norm(asked)) or 1.0
        turn = need.turn
        since = older.said[0].said_at
        scope = Scope(session_id=turn.session_id, branch_id=turn.branch_id, before=turn.turn_seq, since=since)
        hits = await self.store.vectors.near(packed(asked / size), looked.namespace, scope, most=4 * COMPARED)
        found = {hit.place: hit.similarity * size for hit in reversed(hits)}
        turns = [*dict.fromkeys(hit.place.turn_id for hit in hits)][:COMPARED]
        places = [TextPosition(turn_id, side) for turn_id in turns for side in ("user", "assistant")]
        later: dict[TurnId, list[IndexedMessage]] = {}
        for entry in await self.store.index.read(places) if places else ():
            if entry.turn_seq >= older.turn_seq + APART and _has_content(entry):
                later.setdefault(entry.place.turn_id, []).append(entry)
        made = [_compared(_ComparedExchange(said), found, older.words, looked.calibration) for said in later.values()]
        return sorted(made, key=lambda each: (-each.similarity, each.turn_seq))

    async def _candidates(
        self, question: SearchQuestion, scope: Scope, *, turns: int, with_vectors: bool = True
    ) -> SearchOutcome:
        """Search by keywords and by vectors, read the hits with their neighbours, and rank them.

        ``turns`` limits the turns with hits that are ranked. Without ``with_vectors`` the cosines of chunks beyond the
        nearest are estimated, which is faster.
        """
        missing: list[LeftOut] = []
        index, asked = self.store.index, search_terms(question)
        words = (
            await run_optional("keywords", missing, lambda: index.find_words(asked, scope, most=2 * turns))
            or WordHits()
        )
        exact = exact_terms(question)
        holding = _most_held(await index.find_words(exact, scope, most=turns)) if exact and words.hits else []
        heard: Sequence[IndexedMessage] = ()
        most = 2 * turns if with_vectors else NEAREST
        if possible_names(question.full):
            heard = await index.read([hit.place for hit in words.hits[:SPEAKERS_FROM]])
        near = await run_optional("vectors", missing, lambda: self._near(question, heard, scope, most)) or _NOTHING_NEAR
        best = [*holding, *_best_turns(words, near)]
        entries = {entry.place: entry for entry in await index.around([*dict.fromkeys(best)][:turns])}
        admitted = await self._admitted(entries.values(), scope)
        cosines, placed = near.cosines(admitted), _Placed({})
        if with_vectors:
            placed = await run_optional("vectors", missing, lambda: self._placed(near, admitted)) or placed
            cosines |= placed.cosines(near.vector)
        found = SearchResults(words=words, entries=admitted, cosines=cosines)
        means = RankingInputs(
            calibration=near.calibration,
            count=encoding(ENCODING).count,
            recency=self.retrieval.recency_boost if self.retrieval else 0,
        )
        few = with_vectors and not scope.types and not scope.sides  # a filter leaves only some of them
        ranked = await asyncio.to_thread(rank, question, found, means, most=(2 if few else 4) * turns)
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
            calibration=near.calibration,
            worded=frozenset(hit.place for hit in words.hits if hit.own),
            missing=tuple(missing),
        )

    async def _near(self, question: SearchQuestion, heard: Iterable[IndexedMessage], scope: Scope, most: int) -> _Near:
        """Embed the question without speaker names (taken from ``heard``) and return the nearest chunks.

        Raise ``ProviderError`` if the embedder is unavailable.
        """
        if self.retrieval is None:
            return _NOTHING_NEAR
        embedder = await current_embedder(self.store.vectors, self.retrieval)
        if embedder is None:
            raise ProviderError(
                "the embedder of the stored vectors is no longer configured; `cix reindex` creates new vectors"
            )
        if monotonic() < _AWAY.get(embedder.name, 0):
            raise ProviderError(f"{embedder.name} failed a moment ago and is not called for a while")
        speakers = speakers_of(with_speakers(heard, question.full))
        text = hidden(vector_text(question, speakers), self.redactor)
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                with timed("embed"):
                    (row,) = await embedder.embed([text], kind="query")
                if embedder.name not in _CALIBRATIONS:
                    _CALIBRATIONS[embedder.name] = await calibration_of(embedder)
        except (ProviderError, TimeoutError):
            if embedder.is_remote:  # one in this process is slow for a moment at most
                _AWAY[embedder.name] = monotonic() + AWAY_SECONDS
            raise
        vector = packed(row)
        hits = await self.store.vectors.near(vector, embedder.name, scope, most=most)
        return _Near(hits=hits, vector=vector, namespace=embedder.name, calibration=_CALIBRATIONS[embedder.name])

    async def _placed(self, near: _Near, entries: Sequence[IndexedMessage]) -> _Placed:
        """Read the stored vectors of all chunks to be ranked."""
        chunks = [chunk.id for entry in entries for chunk in entry.chunks] if near.vector else []
        bodies = await self.store.vectors.bodies(near.namespace, chunks)
        known = {chunk: body for chunk, body in zip(chunks, bodies, strict=True) if body is not None}
        rows = unpacked_rows([*known.values()]) if known else None
        return _Placed({chunk: place for place, chunk in enumerate(known)}, rows)

    async def _admitted(self, entries: Iterable[IndexedMessage], scope: Scope) -> list[IndexedMessage]:
        """Drop neighbours of hits outside the scope: beyond a fork, or outside the time range."""
        lineage = None if scope.branch_id is None else await self.store.branches.lineage(scope.branch_id)
        return [
            entry
            for entry in entries
            if (lineage is None or lineage.owner_of(entry.turn_seq) == entry.branch_id)
            and (scope.before is None or entry.turn_seq < scope.before)
            and (scope.since is None or entry.said_at >= scope.since)
            and (scope.until is None or entry.said_at < scope.until)
        ]


def _turns_for(budget: int, least: int = TURNS) -> int:
    """Return how many turns to rank for a budget in tokens."""
    return min(max(TURNS, least, budget // SHORT), MOST_TURNS)


def _quoted(text: str) -> int:
    """Return the tokens of a text as a prompt quotes it, with a bar before every line."""
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
    """Cut partial secrets off the ends of a passage: the redaction patterns would not match them."""
    entry = entries.get(place_of(piece.chunks[0]))
    if redactor is None:
        return piece
    if entry is None or piece.form == "summary":  # a summary is composed of several passages
        return msgspec.structs.replace(piece, text="")
    start, end = without_halves(piece.start, piece.end, secrets_in(entry.text, redactor))
    return msgspec.structs.replace(piece, start=start, end=end, text=entry.text[start:end])


# --- search ---


def _as_kept(candidate: Candidate, entries: Mapping[TextPosition, IndexedMessage]) -> Candidate:
    """Restore the stored speaker name, which ranking may have replaced by a guess: a plan is rebuilt from the
    ledger.
    """
    kept = entries[place_of(candidate.chunk)].speaker
    return candidate if candidate.speaker == kept else msgspec.structs.replace(candidate, speaker=kept)


def _most_held(words: WordHits) -> list[TurnId]:
    """Return the turns that contain the most of the exact words."""
    most = max((hit.own.bit_count() for hit in words.hits), default=0)
    return [hit.place.turn_id for hit in words.hits if hit.own.bit_count() == most > 0]


def _best_turns(words: WordHits, near: _Near) -> list[TurnId]:
    """Return the turns with hits, alternating between keyword and vector hits."""
    by_words, by_vectors = [hit.place.turn_id for hit in words.hits], [hit.place.turn_id for hit in near.hits]
    found = dict.fromkeys(turn_id for pair in zip_longest(by_words, by_vectors) for turn_id in pair if turn_id)
    return [*found]


class _Near(Struct, frozen=True, kw_only=True):
    """The result of a vector search."""

    hits: tuple[VectorHit, ...] = ()
    vector: bytes = b""
    namespace: str = ""
    calibration: Calibration = KNOWN[STATIC]

    def cosines(self, entries: Iterable[IndexedMessage]) -> dict[ChunkId, float]:
        """Return the cosine of each chunk.

        A chunk that is not among the nearest gets the midpoint between the lowest known cosine and the mean.
        """
        known = {hit.chunk_id: hit.similarity for hit in self.hits}
        if not known:
            return {}
        other = (min(known.values()) + self.calibration.mean) / 2
        return {chunk.id: known.get(chunk.id, other) for entry in entries for chunk in entry.chunks}


_NOTHING_NEAR = _Near()
_AWAY: dict[str, float] = {}
"""When endpoints that did not answer may be called again, by the name of the embedder."""
_CALIBRATIONS: dict[str, Calibration] = {}
"""The calibrations of embedders; measuring one takes about 160 texts."""


class _Placed(NamedTuple):
    """The stored vectors of chunks."""

    places: dict[ChunkId, int]
    rows: Rows | None = None

    def by_chunk(self, candidates: Iterable[Candidate]) -> dict[ChunkId, Row]:
        """Return the stored vectors of the candidates' chunks."""
        if self.rows is None:
            return {}
        return {one.chunk.id: self.rows[self.places[one.chunk.id]] for one in candidates if one.chunk.id in self.places}

    def cosines(self, vector: bytes) -> dict[ChunkId, float]:
        """Return the cosine of each chunk with a vector."""
        near = [] if self.rows is None else (self.rows @ unpacked(vector)).tolist()
        return dict(zip(self.places, near, strict=True))
