"""Quotations of earlier turns for a prompt: built from search results and attachments, or rebuilt from a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, SessionId, is_id
from contextinfinity.domain.plan import Retrieved
from contextinfinity.domain.search import Chunk, IndexedMessage, Scope, TextPosition, place_of
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import NotFound
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.prompt.redact import Redactor, secrets_in, without_halves
from contextinfinity.storage.contract import Store

if TYPE_CHECKING:
    from contextinfinity.retrieval.packing import PackedPassage


def artifact_of(piece: PackedPassage, session_id: SessionId, *, is_cut: bool = True) -> Artifact:
    """Convert a packed passage into the artifact that the prompt of a conversation shows."""
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
        uncut=None if is_cut else first.source_turn,
        conversation=first.session_id if first.session_id != session_id else "",
        superseded_by=piece.superseded_by,
    )


async def artifact_again(store: Store, session_id: SessionId, placed: Retrieved) -> Artifact | None:
    """Rebuild an artifact from its entry in a plan; return None if its source was deleted."""
    place = await _place(store, placed)
    entries = () if place is None else await store.index.read([place])
    if not entries:
        return None
    text = entries[0].text[placed.start : placed.end] if placed.summary is None else placed.summary
    artifact = _artifact(entries[0], session_id, placed.chunk_id, text)
    return replace(
        artifact,
        start=placed.start,
        end=placed.end,
        score=placed.similarity,
        conversation=entries[0].session_id if placed.elsewhere else "",
        superseded_by=placed.superseded_by,
    )


async def attachments(
    store: Store, session_id: SessionId, wanted: Sequence[ChunkId], redactor: Redactor | None
) -> tuple[Artifact, ...]:
    """Return the attached chunks as artifacts, without secrets that a chunk halves; raise ``NotFound`` for a chunk of
    another owner.
    """
    own = await store.sessions.get(session_id) if wanted else None
    found = []
    for chunk_id in wanted:
        chunk = await owned_chunk(store, None if own is None else own.owner, chunk_id)
        (entry,) = await store.index.read([place_of(chunk)])
        secrets = [] if redactor is None else secrets_in(entry.text, redactor)
        start, end = without_halves(chunk.start, chunk.end, secrets)
        artifact = _artifact(entry, session_id, chunk.id, entry.text[start:end])
        found.append(replace(artifact, start=start, end=end, tokens=chunk.token_est))
    return tuple(artifact for artifact in found if artifact.text)


async def owned_chunk(store: Store, owner: Owner | None, chunk_id: ChunkId) -> Chunk:
    """Return a chunk of one of the owner's threads; raise ``NotFound`` if there is none."""
    chunk = await store.chunks.get(chunk_id) if is_id(chunk_id) else None
    session = None if chunk is None else await store.sessions.get(chunk.session_id)
    if chunk is None or session is None or session.owner != owner:
        raise NotFound(
            f"There is no chunk {chunk_id}.",
            hint="`cix search` shows chunk ids; new messages get theirs in a moment.",
        )
    return chunk


async def _place(store: Store, placed: Retrieved) -> TextPosition | None:
    """Return the turn and side that an artifact quotes; None if its chunk was deleted."""
    if placed.uncut is not None:
        turn_id, side = placed.uncut
        return TextPosition(turn_id, side)
    chunk = await store.chunks.get(placed.chunk_id)
    return None if chunk is None else place_of(chunk)


def _artifact(entry: IndexedMessage, session_id: SessionId, chunk_id: ChunkId, text: str) -> Artifact:
    return Artifact(
        chunk_id=chunk_id,
        side=entry.place.side,
        text=text,
        start=0,
        end=len(text),
        tokens=0,
        said_at=entry.said_at,
        speaker=entry.speaker,
        turn_seq=entry.turn_seq if entry.session_id == session_id else 0,
    )


@dataclass(frozen=True, kw_only=True)
class Need:
    """The search request of one turn: the question, the turns already shown, and the token limits."""

    turn: Turn
    explicit: str | None
    first_shown: int
    """The first turn that the prompt shows verbatim; all later turns are shown as well."""
    room: int
    """The maximum number of tokens for retrieved text."""
    window: int
    """The context window of the branch's model."""
    attached: tuple[ChunkId, ...] = ()
    terms: tuple[str, ...] = ()
    """Words of the conversation that the message omits; the search uses them if the rewritten question is uncertain."""
    scope: Scope | None = None
    """Where to search; None: the turns that the branch sees."""
