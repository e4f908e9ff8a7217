"""Find later exchanges about the subject of the best passages, so that outdated passages are marked as superseded.

A change is often stated in words that the question lacks ("rip it out, a dict is enough"). It is found from the older
exchange: the later exchange that is most similar to it and to the question, by vectors and by shared words, goes into
the prompt too. If it scores far above all other later exchanges, the older one is marked. Weights and figures:
docs/decisions/0024-ranking.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.search import IndexedMessage, Scope, TextPosition
from contextinfinity.domain.vectors import packed, unpacked
from contextinfinity.engine.artifacts import Need
from contextinfinity.engine.parts import Parts
from contextinfinity.retrieval.calibration import Calibration
from contextinfinity.retrieval.candidates import Candidate, candidate_of, passages_to_rank
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.packing import PackedPassage
from contextinfinity.retrieval.superseding import may_be_outdated
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding

if TYPE_CHECKING:
    from contextinfinity.engine.history_search import SearchOutcome

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


async def later_statements(
    parts: Parts, need: Need, looked: SearchOutcome, good: Sequence[Candidate]
) -> LaterStatements:
    """Find later exchanges about the subject of the best passages, also among the turns that are shown verbatim."""
    found = LaterStatements([], {})
    if need.scope is not None or not looked.vector:
        return found
    best = {one.turn_seq: one for one in reversed(good) if may_be_outdated(one) and not one.exact}
    for one in [*reversed(best.values())][:OLDER]:
        turn_id = one.chunk.source_turn
        said = [entry for entry in looked.entries.values() if entry.place.turn_id == turn_id and _has_content(entry)]
        ranked = await _ranked(parts, need, looked, _ComparedExchange(said)) if said else []
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


async def _ranked(parts: Parts, need: Need, looked: SearchOutcome, older: _ComparedExchange) -> list[_ComparedExchange]:
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
    hits = await parts.store.vectors.near(packed(asked / size), looked.namespace, scope, most=4 * COMPARED)
    found = {hit.place: hit.similarity * size for hit in reversed(hits)}
    turns = [*dict.fromkeys(hit.place.turn_id for hit in hits)][:COMPARED]
    places = [TextPosition(turn_id, side) for turn_id in turns for side in ("user", "assistant")]
    later: dict[TurnId, list[IndexedMessage]] = {}
    for entry in await parts.store.index.read(places) if places else ():
        if entry.turn_seq >= older.turn_seq + APART and _has_content(entry):
            later.setdefault(entry.place.turn_id, []).append(entry)
    made = [_compared(_ComparedExchange(said), found, older.words, looked.calibration) for said in later.values()]
    return sorted(made, key=lambda each: (-each.similarity, each.turn_seq))


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
