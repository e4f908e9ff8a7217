"""The candidates of a ranking: the passages of the messages that were found, in chronological order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct

from contextinfinity.domain import wire
from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Chunk, IndexedMessage, chunk_id
from contextinfinity.retrieval.chunk_kinds import kind_of
from contextinfinity.retrieval.passages import passages_of
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.statement_value import summary_of

_ORDER = {"user": 0, "tool": 1, "assistant": 2}
MOST_CHUNKS = 16
"""Messages with up to this many chunks are ranked completely; of longer ones only the first and the nearest chunks, if
vectors are known.
"""
LONGEST_UNCUT = 4_000
"""The number of characters that are ranked of a message without chunks."""
MOST_CHARACTERS = 400_000
"""The maximum number of characters that are ranked for one question."""


class PassageSpan(Struct, frozen=True):
    """A passage: ``start`` to ``end`` of one side of a turn; ``cut`` is its chunk, if it is stored."""

    entry: IndexedMessage
    start: int
    end: int
    text: str
    cut: Chunk | None = None


Value: TypeAlias = Callable[[Sequence[PassageSpan]], Sequence[float]]
"""Estimates how well each chunk answers the question, before it is split into passages."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A ranked passage; ``said_at`` is the time of its message."""

    chunk: Chunk
    start: int
    end: int
    text: str
    score: float
    turn_seq: int
    said_at: datetime
    speaker: str = ""
    exact: bool = False
    """Whether it contains an exact word of the question."""
    lists: bool = False
    """Whether the question asks for several things or for a count."""


def passages_to_rank(
    entries: Sequence[IndexedMessage], cosines: Mapping[ChunkId, float], value: Value | None = None
) -> list[PassageSpan]:
    """Return the passages to rank, in chronological order.

    With ``value``, those of the most valuable chunks that have ``MOST_CHARACTERS`` together.
    """
    once = {entry.place: entry for entry in entries}
    spans = [span for entry in sorted(once.values(), key=_place) for span in _spans(entry, cosines)]
    if value is not None and sum(len(span.text) for span in spans) > MOST_CHARACTERS:
        values = value(spans)
        order = sorted(range(len(spans)), key=lambda row: -values[row])
        sizes = accumulate(len(spans[row].text) for row in order)
        kept = sorted(row for row, size in zip(order, sizes, strict=True) if size <= MOST_CHARACTERS)
        spans = [spans[row] for row in kept]
    return [
        PassageSpan(span.entry, span.start + start, span.start + end, text, span.cut)
        for span in spans
        for start, end, text in passages_of(span.text)
    ]


def _place(entry: IndexedMessage) -> tuple[str, int, str, int]:
    return entry.session_id, entry.turn_seq, entry.place.turn_id, _ORDER[entry.place.side]


def _spans(entry: IndexedMessage, cosines: Mapping[ChunkId, float]) -> Iterator[PassageSpan]:
    """Yield the chunks of a message that are ranked, or the beginning of a message without chunks."""
    if not entry.chunks:
        text = entry.text[:LONGEST_UNCUT]
        yield PassageSpan(entry, 0, len(text), text)
    is_whole = len(entry.chunks) <= MOST_CHUNKS or not cosines
    for number, chunk in enumerate(entry.chunks):
        if is_whole or not number or chunk.id in cosines:
            yield PassageSpan(entry, chunk.start, chunk.end, chunk.rendered_text, chunk)


def candidate_of(spot: PassageSpan, score: float, count: Count, *, exact: bool, lists: bool) -> Candidate:
    """Return a passage as a candidate with its score and chunk."""
    return Candidate(
        chunk=spot.cut or _uncut(spot.entry, count),
        start=spot.start,
        end=spot.end,
        text=spot.text,
        score=score,
        turn_seq=spot.entry.turn_seq,
        said_at=spot.entry.said_at,
        speaker=spot.entry.speaker,
        exact=exact,
        lists=lists,
    )


def _uncut(entry: IndexedMessage, count: Count) -> Chunk:
    """Build the chunk of a message without stored chunks; for a short message its id is the final one."""
    text = entry.text[:LONGEST_UNCUT]
    side, digest = entry.place.side, wire.text_hash(text).hex()
    kind = kind_of(text, side, code=0.0, result=float(side == "tool"))
    return Chunk(
        id=chunk_id(entry.place.turn_id, kind, digest),
        session_id=entry.session_id,
        branch_id=entry.branch_id,
        source_turn=entry.place.turn_id,
        side=side,
        start=0,
        end=len(text),
        rendered_text=text,
        summary=summary_of(text),
        chunk_type=kind,
        token_est=count(text),
        content_hash=digest,
        created_at=entry.said_at,
    )
