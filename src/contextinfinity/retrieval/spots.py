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
    """A text, and where it stands; ``cut`` is its chunk, where it is cut."""

    entry: Entry
    text: str
    cut: Chunk | None = None


def spots_of(entries: Sequence[Entry], cosines: Mapping[ChunkId, float]) -> list[Spot]:
    """Give what is to be ranked, in the order of saying."""
    once = {entry.place: entry for entry in entries}
    return [spot for entry in sorted(once.values(), key=_place) for spot in _spots(entry, cosines)]


def _place(entry: Entry) -> tuple[str, int, str, int]:
    return entry.session_id, entry.turn_seq, entry.place.turn_id, _ORDER[entry.place.side]


def _spots(entry: Entry, cosines: Mapping[ChunkId, float]) -> Iterator[Spot]:
    if not entry.chunks:
        yield Spot(entry, entry.text[:LONGEST_UNCUT])
    for number, chunk in enumerate(entry.chunks):
        if len(entry.chunks) <= MOST_CHUNKS or not number or chunk.id in cosines:
            yield Spot(entry, chunk.rendered_text, chunk)


def chunk_of(spot: Spot, count: Count) -> Chunk:
    """Give the chunk; one is made of a side that is not cut yet, and a short one keeps its id when it is cut."""
    if spot.cut is not None:
        return spot.cut
    entry, text = spot.entry, spot.text
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
