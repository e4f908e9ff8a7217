"""Find newer statements about retrieved passages, so that outdated passages are marked as superseded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from contextinfinity.domain.search import Scope
from contextinfinity.domain.vectors import packed, unpacked
from contextinfinity.engine.artifacts import Need
from contextinfinity.engine.parts import Parts
from contextinfinity.retrieval.candidates import Candidate, candidate_of, spots_of
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.packing import PackedPassage
from contextinfinity.retrieval.superseding import BEST_NEW, BEST_OLD, RIVALS, may_be_outdated, may_state, supersedes
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    from contextinfinity.engine.history_search import SearchOutcome

STATEMENTS, SIMILAR = 3, 8
"""The number of best statements to check, and of similar chunks to compare with each."""


async def newer_statements(
    parts: Parts, looked: SearchOutcome, good: Sequence[Candidate], scope: Scope
) -> list[Candidate]:
    """Return newer statements similar to the best ones: they may supersede them in words that the question lacks."""
    known = {one.chunk.id for one in looked.candidates}
    stated = [one for one in good if may_state(one) and one.chunk.id in looked.placed.places][:STATEMENTS]
    found: list[Candidate] = []
    for one in stated:
        row = looked.placed.by_chunk([one])[one.chunk.id]
        hits = await parts.store.vectors.near(packed(row), looked.namespace, scope, most=SIMILAR)
        places = [hit.place for hit in hits if hit.chunk_id not in known and hit.place.side == one.chunk.side]
        for entry in await parts.store.index.read(places) if places else ():
            looked.entries[entry.place] = entry
            for spot in spots_of([entry], {}) if entry.turn_seq > one.turn_seq else ():
                made = candidate_of(spot, one.score, encoding(ENCODING).count, exact=False, lists=one.lists)
                found += [made] if supersedes(made, one) else []
    return found


async def answered_later(parts: Parts, need: Need, looked: SearchOutcome, good: Sequence[Candidate]) -> dict[int, int]:
    """Return a map from the turns of the best passages to the newer, verbatim turns that supersede them."""
    if need.scope is not None or need.first_shown >= need.turn.turn_seq or not looked.vector:
        return {}
    rivals = [one for one in good if may_be_outdated(one) and one.chunk.id in looked.placed.places]
    best = [*dict.fromkeys(one.turn_seq for one in rivals)][:BEST_OLD]
    scope = Scope(session_id=need.turn.session_id, branch_id=need.turn.branch_id, before=need.turn.turn_seq)
    hits = await parts.store.vectors.near(looked.vector, looked.namespace, scope, most=2 * BEST_NEW) if best else ()
    entries = await parts.store.index.read([hit.place for hit in hits]) if hits else ()
    near = {hit.chunk_id for hit in hits}
    shown = {
        chunk.id: entry.turn_seq
        for entry in entries
        for chunk in entry.chunks
        if entry.turn_seq >= need.first_shown and chunk.id in near
    }
    bodies = await parts.store.vectors.bodies(looked.namespace, [*shown]) if shown else ()
    rows = [(seq, unpacked(body)) for seq, body in zip(shown.values(), bodies, strict=False) if body is not None]
    found: dict[int, int] = {}
    for one in rivals:
        row = looked.placed.by_chunk([one])[one.chunk.id]
        newer = [seq for seq, other in rows if float(row @ other) >= RIVALS]
        if newer and one.turn_seq in best:
            found[one.turn_seq] = max(newer)
    return found


def with_mark(piece: PackedPassage, later: Mapping[int, int]) -> PackedPassage:
    """Mark a passage that a verbatim turn supersedes, unless it is marked already."""
    seq = 0 if piece.superseded_by else later.get(piece.turn_seq, 0)
    return msgspec.structs.replace(piece, superseded_by=seq) if seq else piece
