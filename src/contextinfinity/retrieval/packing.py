"""Choose the passages for a prompt: by value, within a token target, without repetition.

    1  take the best passage of each message first; if room is left, further passages of the same messages
    2  with vectors, reduce the value of a passage similar to one already taken (MMR), and skip near duplicates
    3  for a question that asks for several things, prefer passages from days not yet represented
    4  add a newer statement about the same subject to an older one, and mark the older one as superseded
    5  skip what does not fit; shorten the best one to the sentences that answer, or to its summary
    6  join adjacent passages of one message

The result does not depend on the order of the candidates. Everything omitted is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, groupby
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Chunk, TextPosition, place_of
from contextinfinity.retrieval.candidates import Candidate
from contextinfinity.retrieval.slices import best_slice
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.superseding import Key, Vectors, superseded
from contextinfinity.text.keywords import terms

Form: TypeAlias = Literal["whole", "slice", "summary"]

TARGET = 800
DIVERSITY = 0.02
"""The penalty for similarity to passages already taken. A higher one costs answers, because related passages are
similar as well.
"""
SPREAD = 0.02
"""The bonus for a day that is not represented yet, if the question asks for several things."""
SAME = 0.985
"""The cosine from which two texts are near duplicates."""
ENOUGH = 40
"""Packing stops after this many consecutive candidates that did not fit."""
_TAKEN = -10.0


class PackedPassage(Struct, frozen=True, kw_only=True):
    """A passage for the prompt: a span of one message, or its summary."""

    text: str
    chunks: tuple[Chunk, ...]
    """Its chunks, best first."""
    start: int
    end: int
    form: Form
    score: float
    turn_seq: int
    said_at: datetime
    tokens: int
    speaker: str = ""
    superseded_by: int = 0
    """The turn with a newer statement about the same subject; 0 if there is none."""


class PackingBudget(Struct, frozen=True, kw_only=True):
    """The limits in tokens; ``border`` is the overhead of each passage."""

    target: int = TARGET
    border: int = 0
    most: int | None = None
    """The maximum number of passages."""
    apart: bool = False
    """Whether to return whole chunks, unjoined and possibly repeated."""


USUAL = PackingBudget()


class Packed(Struct, frozen=True, kw_only=True):
    """The chosen passages, best first, and what was omitted."""

    pieces: tuple[PackedPassage, ...]
    left_out: tuple[LeftOut, ...]
    tokens: int


def pack(
    candidates: Sequence[Candidate],
    question: str,
    count: Count,
    *,
    room: PackingBudget = USUAL,
    vectors: Vectors | None = None,
) -> Packed:
    """Choose the passages that fit; ``vectors`` are the known vectors of the candidates' chunks."""
    left: list[LeftOut] = []
    best, others = (_whole_chunks(candidates), []) if room.apart else _distinct(candidates, left)
    newer = {} if room.apart else superseded(best, vectors)
    tray = _Packing(count, frozenset(terms(question)), room)
    refused = 0
    for candidate in chain(_by_value(best, vectors, left), others):
        following = newer.get(_key(candidate))
        if following is not None:
            tray.take(following, newer.get(_key(following)))
        reason = tray.take(candidate, following)
        refused = refused + 1 if reason else 0
        if reason:
            left.append(_left(candidate, reason))
        if refused == ENOUGH:
            left.append(LeftOut(what="lower-ranked results", reason=reason))
            break
    pieces = sorted(tray.pieces(), key=lambda piece: (-piece.score, -piece.turn_seq, piece.start, piece.chunks[0].id))
    tokens = sum(piece.tokens + room.border for piece in pieces)
    return Packed(pieces=tuple(pieces), left_out=tuple(left), tokens=tokens)


def _whole_chunks(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return each chunk once, whole, with the score of its best passage; best first."""
    best: dict[ChunkId, Candidate] = {}
    for candidate in sorted(candidates, key=_rank):
        chunk = candidate.chunk
        best.setdefault(chunk.id, replace(candidate, start=chunk.start, end=chunk.end, text=chunk.rendered_text))
    return [*best.values()]


def _distinct(candidates: Sequence[Candidate], left: list[LeftOut]) -> tuple[list[Candidate], list[Candidate]]:
    """Return the best passage of each message, and the others; repeated text is kept only once."""
    best: dict[TextPosition, Candidate] = {}
    others: list[Candidate] = []
    said: set[tuple[str, str]] = set()
    for candidate in sorted(candidates, key=_rank):
        words = (candidate.chunk.side, candidate.text.strip())
        if words in said:
            left.append(_left(candidate, "a duplicate is included"))
        elif best.setdefault(place_of(candidate.chunk), candidate) is not candidate:
            others.append(candidate)
        said.add(words)
    return [*best.values()], others


def _rank(candidate: Candidate) -> tuple[bool, float, int, str, int]:
    return not candidate.exact, -candidate.score, -candidate.turn_seq, candidate.chunk.id, candidate.start


def _key(candidate: Candidate) -> Key:
    return candidate.chunk.id, candidate.start


def _left(candidate: Candidate, reason: str) -> LeftOut:
    what = f"turn {candidate.turn_seq}, chunk {candidate.chunk.id}"
    return LeftOut(what=what, reason=reason, tokens=candidate.chunk.token_est)


def _by_value(wanted: Sequence[Candidate], vectors: Vectors | None, left: list[LeftOut]) -> Iterator[Candidate]:
    """Yield candidates by decreasing marginal value, given those yielded before."""
    if not wanted or (not vectors and not wanted[0].lists):
        yield from wanted
        return
    import numpy as np

    nowhere = np.zeros(len(next(iter(vectors.values()))) if vectors else 1, dtype=np.float32)
    rows = np.array([nowhere if not vectors else vectors.get(each.chunk.id, nowhere) for each in wanted])
    lists = wanted[0].lists
    sittings = np.array([f"{each.chunk.session_id} {each.said_at.date()}" for each in wanted if lists])
    worth = np.array([each.score + each.exact for each in wanted])  # exact words come first
    near = np.zeros(len(wanted))
    fresh = np.full(len(wanted), SPREAD if lists else 0.0)
    for _ in wanted:
        place = int(np.argmax(worth + fresh - DIVERSITY * near))
        worth[place] = _TAKEN
        if near[place] >= SAME:
            left.append(_left(wanted[place], "a near-duplicate is included"))
            continue
        yield wanted[place]
        near = np.maximum(near, rows @ rows[place])
        if lists:
            fresh[sittings == sittings[place]] = 0


class _Packing:
    """The passages taken so far."""

    def __init__(self, count: Count, words: frozenset[str], room: PackingBudget) -> None:
        self._count = count
        self._words = words
        self._room = room
        self._taken: dict[Key, PackedPassage] = {}
        self._used = 0

    def take(self, candidate: Candidate, newer: Candidate | None) -> str:
        """Take a candidate if it fits; otherwise return the reason. ``newer`` supersedes it."""
        room = self._room
        if _key(candidate) in self._taken:
            return ""
        if room.most is not None and len(self._taken) >= room.most:
            return f"{room.most} results are included already"
        piece = self._fitting(candidate, room.target - self._used - room.border)
        if piece is None:
            return f"the budget of {room.target} tokens is used up"
        self._taken[_key(candidate)] = replace(piece, superseded_by=0 if newer is None else newer.turn_seq)
        self._used += piece.tokens + room.border
        return ""

    def _fitting(self, candidate: Candidate, free: int) -> PackedPassage | None:
        """Return the passage, its best sentences, or its chunk's summary, whichever fits first; None if none does."""
        chunk = candidate.chunk
        is_whole = (candidate.start, candidate.end) == (chunk.start, chunk.end)
        count: Count = (lambda _: chunk.token_est) if is_whole and self._room.apart else self._count
        piece = _piece(candidate, candidate.text, "whole" if is_whole else "slice", count)
        if piece.tokens <= free:
            return piece
        if self._taken:
            return None
        found = best_slice(candidate.text, self._words, free, self._count)
        if found is not None:
            start, end = candidate.start + found[0], candidate.start + found[1]
            part = replace(candidate, start=start, end=end, text=candidate.text[slice(*found)])
            piece = _piece(part, part.text, "slice", self._count)
            if piece.tokens <= free:
                return piece
        brief = _piece(candidate, chunk.summary, "summary", self._count)
        return brief if chunk.summary and brief.tokens <= free else None

    def pieces(self) -> Iterator[PackedPassage]:
        """Yield the passages taken; adjacent ones of a message are joined."""
        order = sorted(self._taken.values(), key=_order)
        for _, group in groupby(order, key=lambda piece: _order(piece)[:3]):
            current: PackedPassage | None = None
            for piece in group:
                if current is not None and (joined := self._joined(current, piece)) is not None:
                    current = joined
                    continue
                if current is not None:
                    yield current
                current = piece
            if current is not None:
                yield current

    def _joined(self, one: PackedPassage, other: PackedPassage) -> PackedPassage | None:
        """Join two spans of one message that touch or overlap; summaries are not joined."""
        if self._room.apart or "summary" in (one.form, other.form) or other.start > one.end:
            return None
        text = one.text + other.text[max(0, one.end - other.start) :]
        tokens = self._count(text)
        if tokens > one.tokens + other.tokens + self._room.border:
            return None
        chunks = (*one.chunks, *other.chunks) if one.score >= other.score else (*other.chunks, *one.chunks)
        return replace(
            one,
            text=text,
            chunks=tuple({chunk.id: chunk for chunk in chunks}.values()),
            end=max(one.end, other.end),
            form="whole" if one.form == other.form == "whole" else "slice",
            score=max(one.score, other.score),
            tokens=tokens,
            superseded_by=one.superseded_by and other.superseded_by,
        )


def _piece(candidate: Candidate, text: str, form: Form, count: Count) -> PackedPassage:
    chunk = candidate.chunk
    is_summary = form == "summary"
    return PackedPassage(
        text=text,
        chunks=(chunk,),
        start=chunk.start if is_summary else candidate.start,
        end=chunk.end if is_summary else candidate.end,
        form=form,
        score=candidate.score,
        turn_seq=candidate.turn_seq,
        said_at=candidate.said_at,
        tokens=count(text),
        speaker=candidate.speaker,
    )


def _order(piece: PackedPassage) -> tuple[str, str, str, int, int]:
    chunk = piece.chunks[0]
    return chunk.session_id, chunk.source_turn, chunk.side, piece.start, -piece.end
