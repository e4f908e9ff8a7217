"""Pieces of the past as a prompt shows them: made from what was found or attached, and made again from a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, SessionId
from contextinfinity.domain.plan import Retrieved
from contextinfinity.domain.search import Entry, Place
from contextinfinity.errors import NotFound
from contextinfinity.prompt.sections import Artifact
from contextinfinity.storage.contract import Store

if TYPE_CHECKING:
    from contextinfinity.retrieval.packing import Piece


def artifact_of(piece: Piece, session_id: SessionId) -> Artifact:
    """Give a packed piece as the prompt of a conversation shows it."""
    first = piece.chunks[0]
    return Artifact(
        chunk_id=first.id,
        side=first.side,
        text=piece.text,
        start=piece.start,
        end=piece.end,
        tokens=piece.tokens,
        said_at=piece.said_at,
        speaker=piece.speaker,
        turn_seq=piece.turn_seq if first.session_id == session_id else 0,
        is_summary=piece.form == "summary",
        score=piece.score,
    )


async def artifact_again(store: Store, session_id: SessionId, placed: Retrieved) -> Artifact | None:
    """Make a piece again from what a plan says of it; None where what it is of is gone."""
    whole = await _whole(store, session_id, placed.chunk_id)
    if whole is None:
        return None
    artifact, entry = whole
    return replace(
        artifact,
        text=entry.text[placed.start : placed.end] if placed.summary is None else placed.summary,
        start=placed.start,
        end=placed.end,
        is_summary=placed.summary is not None,
        score=placed.similarity,
    )


async def attachments(store: Store, session_id: SessionId, wanted: Sequence[ChunkId]) -> tuple[Artifact, ...]:
    """Fetch the pieces that were asked for by name; only what belongs to the same owner is there."""
    own = await store.sessions.get(session_id) if wanted else None
    found = []
    for chunk_id in wanted:
        whole = await _whole(store, session_id, chunk_id)
        its = None if whole is None else await store.sessions.get(whole[1].session_id)
        if whole is None or own is None or its is None or its.owner != own.owner:
            raise NotFound(f"There is no chunk {chunk_id}.", hint="`cix search` shows the ids there are.")
        found.append(whole[0])
    return tuple(found)


async def _whole(store: Store, session_id: SessionId, chunk_id: ChunkId) -> tuple[Artifact, Entry] | None:
    """Give a whole chunk as a prompt shows it, and the side of the turn that it is of."""
    chunk = await store.chunks.get(chunk_id)
    entries = () if chunk is None else await store.index.read([Place(chunk.source_turn, chunk.side)])
    if chunk is None or not entries:
        return None
    entry = entries[0]
    artifact = Artifact(
        chunk_id=chunk.id,
        side=chunk.side,
        text=chunk.rendered_text,
        start=chunk.start,
        end=chunk.end,
        tokens=chunk.token_est,
        said_at=entry.said_at,
        speaker=entry.speaker,
        turn_seq=entry.turn_seq if entry.session_id == session_id else 0,
    )
    return artifact, entry
