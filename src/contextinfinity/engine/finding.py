"""Finding the past: candidates by words and by vectors, ranked, and packed for a prompt or for people.

Either way may fail (an embedder that does not answer, an index that is broken): what the other finds is used, and what
was missing is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.search import Entry, Hit, Hits, Place, Scope
from contextinfinity.engine.artifacts import artifact_of
from contextinfinity.engine.parts import Need, Parts
from contextinfinity.engine.sparing import spared
from contextinfinity.prompt.redact import Redactor, secrets_in
from contextinfinity.prompt.sections import Artifact
from contextinfinity.retrieval.chunks import ENCODING
from contextinfinity.retrieval.packing import Candidate, Piece, Room, pack
from contextinfinity.storage.index import MOST_TERMS
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

CANDIDATES = 128
"""How many candidates are looked at, of words and of vectors each."""
UNLIMITED = 2**31
MOST_LEFT_OUT = 8
"""How many of the pieces that did not go in a plan names; it stays small."""


class Wish(Struct, frozen=True, kw_only=True):
    """What is looked for: the words of a question, and the same made explicit where that was needed."""

    question: str
    explicit: str | None = None
    asked_at: datetime
    scope: Scope = Scope()

    @property
    def forms(self) -> tuple[str, ...]:
        """The question in all its forms, the explicit one first."""
        return tuple(dict.fromkeys(filter(None, (self.explicit, self.question))))


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
    wish = Wish(
        question=turn.user_message.rendered_text,
        explicit=need.explicit,
        asked_at=turn.created_at,
        scope=Scope(session_id=turn.session_id, branch_id=turn.branch_id, before=need.first_shown),
    )
    looked = await look(parts, wish)
    missing += looked.missing
    good = [one for one in looked.candidates if one.score >= retrieval.threshold and one.chunk.id not in need.attached]
    room = Room(target=min(retrieval.target, need.room), most=retrieval.top_k)
    chosen = pack(good[: retrieval.overfetch_k], wish.forms[0], encoding(ENCODING).count, room=room)
    missing += chosen.left_out[:MOST_LEFT_OUT]
    pieces = [_without_halves(piece, looked.entries, parts.setup.redactor) for piece in chosen.pieces]
    return tuple(artifact_of(piece, turn.session_id) for piece in pieces if piece.text.strip())


async def search(parts: Parts, question: str, scope: Scope, *, budget: int | None, limit: int) -> Hits:
    """Find what was said; with a budget, what would be packed into it."""
    looked = await look(parts, Wish(question=question, asked_at=now(), scope=scope))
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


async def look(parts: Parts, wish: Wish) -> Looked:
    """Look by words and by vectors at once, read what was found, and rank it."""
    missing: list[LeftOut] = []
    asked = tuple(dict.fromkeys(term for form in wish.forms for term in terms(form)))[:MOST_TERMS]
    words, near = await asyncio.gather(
        spared("keywords", missing, lambda: parts.store.index.find_words(asked, wish.scope, most=CANDIDATES)),
        spared("vectors", missing, lambda: _near(parts, wish)),
    )
