"""What of the found goes into a prompt, in few tokens.

    1  what says the same as something better is left out
    2  the best first; with vectors, what is near to something taken already counts less (MMR)
    3  what does not fit whole goes in as its most telling slice, else as its summary, else not at all
    4  neighbouring chunks of one message become one piece, without saying anything twice

The same candidates always give the same pieces, whatever their order. All that was left out is named with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.chunk import Chunk
from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.plan import LeftOut
from contextinfinity.retrieval.slices import best_slice
from contextinfinity.retrieval.spans import Count
from contextinfinity.text import cues

if TYPE_CHECKING:
    from contextinfinity.text.topics import Matrix

Form: TypeAlias = Literal["whole", "slice", "summary"]

TARGET = 800
DIVERSITY = 0.1
"""How much nearness to what was taken counts against a candidate's own score. More costs answers: what belongs together
is near to each other as well."""
_TAKEN = -10.0
SAME = 0.985
"""Vectors nearer to each other than this say the same."""
ENOUGH = 8
"""After so many candidates in a row for which there is no room, there is none."""
SMALLEST_SLICE = 60
"""Tokens under which a slice says nothing."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A chunk that was found; ``said_at`` is when its words were said."""

    chunk: Chunk
    score: float
    turn_seq: int
    said_at: datetime
    speaker: str = ""


class Piece(Struct, frozen=True, kw_only=True):
    """A piece for the prompt: a span of one message, or the summary of one."""

    text: str
    chunks: tuple[Chunk, ...]
    """Those it is made of, the best first."""
    start: int
    end: int
    form: Form
    score: float
    turn_seq: int
    said_at: datetime
    tokens: int
    speaker: str = ""


class Room(Struct, frozen=True, kw_only=True):
    """How much may go in, in tokens; ``border`` is what each piece costs beside its words."""

    target: int = TARGET
    border: int = 0
    most: int | None = None
    """How many pieces at most."""
    apart: bool = False
    """Whether each chunk stays by itself, and the same words may come from several."""


USUAL = Room()


class Packed(Struct, frozen=True, kw_only=True):
    """The pieces, the best first, and what was left out."""

    pieces: tuple[Piece, ...]
    left_out: tuple[LeftOut, ...]
    tokens: int


def pack(
    candidates: Sequence[Candidate],
    question: str,
    count: Count,
    *,
    room: Room = USUAL,
    vectors: Matrix | None = None,
) -> Packed:
    """Choose what goes into a prompt; ``vectors`` are the rows of the candidates, of length 1."""
    rows = {candidate.chunk.id: place for place, candidate in enumerate(candidates)}
    left: list[LeftOut] = []
    wanted = [*_wanted(candidates, left, apart=room.apart)]
    tray = _Tray(count, cues.content(cues.words(question)), room)
    refused = 0
    for looked, candidate in enumerate(_diverse(wanted, rows, vectors, left), start=1):
        reason = tray.take(candidate)
        refused = refused + 1 if reason else 0
        if reason:
            left.append(_left(candidate, reason))
        if refused == ENOUGH and looked < len(wanted):
            left.append(LeftOut(what="all that is worth less", reason=reason))
            break
    pieces = sorted(tray.pieces(), key=lambda piece: (-piece.score, piece.turn_seq, piece.start, piece.chunks[0].id))
    return Packed(
        pieces=tuple(pieces), left_out=tuple(left), tokens=sum(piece.tokens + room.border for piece in pieces)
    )


def _wanted(candidates: Sequence[Candidate], left: list[LeftOut], *, apart: bool) -> Iterator[Candidate]:
    """Give each chunk once, the best first, and the same words only once."""
    best: dict[ChunkId, Candidate] = {}
    for candidate in candidates:
        known = best.get(candidate.chunk.id)
        if known is None or candidate.score > known.score:
            best[candidate.chunk.id] = candidate
    said: set[tuple[str, str]] = set()
    for candidate in sorted(best.values(), key=_rank):
        words = (candidate.chunk.side, candidate.chunk.rendered_text.strip())
        if words in said and not apart:
            left.append(_left(candidate, "the same words are there already"))
        else:
            said.add(words)
            yield candidate


def _rank(candidate: Candidate) -> tuple[float, int, str]:
    return -candidate.score, -candidate.turn_seq, candidate.chunk.id


def _left(candidate: Candidate, reason: str) -> LeftOut:
    return LeftOut(what=f"chunk {candidate.chunk.id}", reason=reason, tokens=candidate.chunk.token_est)


def _diverse(
    wanted: list[Candidate], rows: dict[ChunkId, int], vectors: Matrix | None, left: list[LeftOut]
) -> Iterator[Candidate]:
    """Give candidates in the order in which they are worth most beside those given before."""
    if vectors is None or not wanted:
        yield from wanted
        return
    import numpy as np

    placed = np.array([each.chunk.id in rows for each in wanted])
    own = vectors[[rows.get(each.chunk.id, 0) for each in wanted]]
    worth = np.array([(1 - DIVERSITY) * each.score for each in wanted])
    near = np.zeros(len(wanted))
    for _ in wanted:
        place = int(np.argmax(worth - DIVERSITY * near))
        chosen = wanted[place]
        worth[place] = _TAKEN
        if near[place] >= SAME:
            left.append(_left(chosen, "something nearly the same is there already"))
            continue
        yield chosen
        if placed[place]:
            near = np.maximum(near, np.where(placed, own @ own[place], 0))


class _Tray:
    """What was taken so far."""

    def __init__(self, count: Count, terms: frozenset[str], room: Room) -> None:
        self._count = count
        self._terms = terms
        self._room = room
        self._taken: list[Piece] = []
        self._used = 0

    def take(self, candidate: Candidate) -> str:
        """Take a candidate as far as there is room; say why not otherwise."""
        room = self._room
        if room.most is not None and len(self._taken) >= room.most:
            return f"{room.most} pieces are there already"
        piece = self._fitting(candidate, room.target - self._used - room.border)
        if piece is None:
            return f"no room within {room.target} tokens"
        self._taken.append(piece)
        self._used += piece.tokens + room.border
        return ""

    def _fitting(self, candidate: Candidate, free: int) -> Piece | None:
        chunk = candidate.chunk
        whole = _piece(candidate, chunk.rendered_text, "whole", self._count)
        if whole.tokens <= free:
            return whole
        found = best_slice(chunk.rendered_text, self._terms, free, self._count) if free >= SMALLEST_SLICE else None
        if found is not None:
            part = _piece(candidate, chunk.rendered_text[slice(*found)], "slice", self._count, found[0])
            if part.tokens <= free:
                return part
        brief = _piece(candidate, chunk.summary, "summary", self._count)
        return brief if chunk.summary and brief.tokens <= free else None

    def pieces(self) -> Iterator[Piece]:
        """Give what was taken, with neighbours joined."""
        order = sorted(self._taken, key=_stands)
        for _, group in groupby(order, key=lambda piece: _stands(piece)[:3]):
            current: Piece | None = None
            for piece in group:
                if current is not None and (joined := self._joined(current, piece)) is not None:
                    current = joined
                    continue
                if current is not None:
                    yield current
                current = piece
            if current is not None:
                yield current

    def _joined(self, one: Piece, other: Piece) -> Piece | None:
        """Join two spans of one message that touch or overlap; a summary stands alone."""
        if self._room.apart or "summary" in (one.form, other.form) or other.start > one.end:
            return None
        text = one.text + other.text[max(0, one.end - other.start) :]
        tokens = self._count(text)
        if tokens > one.tokens + other.tokens + self._room.border:
            return None
        return replace(
            one,
            text=text,
            chunks=(*one.chunks, *other.chunks) if one.score >= other.score else (*other.chunks, *one.chunks),
            end=max(one.end, other.end),
            form="whole" if one.form == other.form == "whole" else "slice",
            score=max(one.score, other.score),
            tokens=tokens,
        )


def _piece(candidate: Candidate, text: str, form: Form, count: Count, offset: int = 0) -> Piece:
    chunk = candidate.chunk
    start = chunk.start + offset
    return Piece(
        text=text,
        chunks=(chunk,),
        start=start,
        end=chunk.end if form == "summary" else start + len(text),
        form=form,
        score=candidate.score,
        turn_seq=candidate.turn_seq,
        said_at=candidate.said_at,
        tokens=count(text),
        speaker=candidate.speaker,
    )


def _stands(piece: Piece) -> tuple[str, str, str, int, int]:
    chunk = piece.chunks[0]
    return chunk.session_id, chunk.source_turn, chunk.side, piece.start, -piece.end
