"""The texts that were found, in the order in which they were said: a chunk each, or a side that is not cut yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from contextinfinity.domain import wire
from contextinfinity.domain.chunk import Chunk, chunk_id
from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Entry
from contextinfinity.retrieval.kinds import kind_of
from contextinfinity.retrieval.spans import Count
from contextinfinity.retrieval.telling import summary_of

_ORDER = {"user": 0, "tool": 1, "assistant": 2}
MOST_CHUNKS = 16
"""Chunks of one side that are all looked at; of a longer one only those that are near, and the first."""
LONGEST_UNCUT = 4_000
"""Characters of a side that is not cut yet."""


class Spot(Struct, frozen=True):
    """A text, and where it stands."""

    entry: Entry
    chunk: Chunk


def spots_of(entries: Sequence[Entry], cosines: Mapping[ChunkId, float], count: Count) -> list[Spot]:
    """Give what is to be ranked, in the order of saying."""
    once = {entry.place: entry for entry in entries}
    return [
        Spot(entry, chunk) for entry in sorted(once.values(), key=_place) for chunk in _chunks(entry, cosines, count)
    ]


def _place(entry: Entry) -> tuple[str, int, str, int]:
    return entry.session_id, entry.turn_seq, entry.place.turn_id, _ORDER[entry.place.side]


def _chunks(entry: Entry, cosines: Mapping[ChunkId, float], count: Count) -> Iterator[Chunk]:
    if not entry.chunks:
        yield _uncut(entry, count)
    elif len(entry.chunks) <= MOST_CHUNKS:
        yield from entry.chunks
    else:
        yield from (chunk for number, chunk in enumerate(entry.chunks) if not number or chunk.id in cosines)


def _uncut(entry: Entry, count: Count) -> Chunk:
    """Give a side that is not cut yet as one chunk: a short one has the same id when it is cut."""
    text = entry.text[:LONGEST_UNCUT]
    side = entry.place.side
    kind = kind_of(text, side, code=0.0, result=float(side == "tool"))
    digest = wire.text_hash(text).hex()
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
