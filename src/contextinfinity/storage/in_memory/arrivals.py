"""Messages from elsewhere, in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from contextinfinity.domain.arrival import Arrival, Arrived, Origin
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, from_millis, to_millis
from contextinfinity.domain.session import Branch
from contextinfinity.storage.arrivals import check_arrivals, exchange_of, hash_of, pairs_of
from contextinfinity.storage.in_memory.contents import check_blobs
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.in_memory.turns import answer, last_turn, record, settled
from contextinfinity.storage.rules import can_be_answered, row_limit


class InMemoryArrivals:
    """The ``Arrivals`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, branch_id: BranchId, arrivals: Sequence[Arrival]) -> Arrived:
        """Append those that the session does not have yet."""
        check_arrivals(arrivals)
        check_text(arrivals)
        with self._tables.transaction() as tables:
            session_id = tables.branch(branch_id).session_id
            fresh, there, clashing = _sift(tables.origins_of_session.get(session_id, []), arrivals)
            if fresh:
                _add(tables, settled(tables, branch_id), fresh, there)
            skipped = len(arrivals) - len(fresh) - len(clashing)
            return Arrived(added=len(fresh), skipped=skipped, clashing=tuple(clashing))

    async def origins(self, turn_ids: Collection[TurnId]) -> dict[TurnId, tuple[Origin, ...]]:
        """Tell where the messages of turns came from."""
        with self._tables.transaction() as tables:
            found = {turn_id: tables.origins_of.get(turn_id, []) for turn_id in turn_ids}
            return {turn_id: tuple(origins) for turn_id, origins in found.items() if origins}

    async def beginning(self, session_id: SessionId, *, limit: int = 64) -> tuple[Origin, ...]:
        """Read the origins of a session with the lowest places."""
        with self._tables.transaction() as tables:
            origins = sorted(tables.origins_of_session.get(session_id, []), key=lambda origin: origin.place)
            return tuple(origins[: row_limit(limit)])


def _sift(origins: Sequence[Origin], arrivals: Sequence[Arrival]) -> tuple[list[Arrival], list[int], list[int]]:
    """Give what is new, the places of what was there before, and of what has an id that other words have."""
    before: dict[object, str] = {(each.place, each.content_hash): each.content_hash for each in origins}
    before |= {each.external_id: each.content_hash for each in origins if each.external_id is not None}
    new: dict[object, str] = {}
    fresh: list[Arrival] = []
    there: list[int] = []
    clashing: list[int] = []
    for each in arrivals:
        digest = hash_of(each).hex()
        key = each.external_id or (each.place, digest)
        known = before.get(key) or new.get(key)
        if known is None:
            new[key] = digest
            fresh.append(each)
        elif known != digest:
            clashing.append(each.place)
        elif key in before:
            there.append(each.place)
    return fresh, there, clashing


def _add(tables: Tables, branch: Branch, fresh: Sequence[Arrival], there: Sequence[int]) -> None:
    """Answer the newest turn, if it came from elsewhere, stood before it, and waits for it; append the rest."""
    check_blobs(tables, *(each.message for each in fresh))  # before anything is written
    first = fresh[0]
    turn = last_turn(tables, branch) if first.message.role == "assistant" else None
    stood = max((origin.place for origin in tables.origins_of.get(turn.id, ())), default=None) if turn else None
    if turn and stood is not None and stood < first.place and can_be_answered(turn, tables.head(branch)):
        answer(tables, branch, turn, first.message)
        _note(tables, turn.id, branch, (first,), answers=True)
        branch, fresh = tables.branches[branch.id], fresh[1:]
    if fresh:
        pairs = pairs_of(fresh, there)
        for pair, made in zip(pairs, record(tables, branch, [exchange_of(each) for each in pairs]), strict=True):
            _note(tables, made.id, branch, pair.said, answers=False)
            _note(tables, made.id, branch, () if pair.answer is None else (pair.answer,), answers=True)


def _note(tables: Tables, turn_id: TurnId, branch: Branch, said: Sequence[Arrival], *, answers: bool) -> None:
    for each in said:
        origin = Origin(
            side="assistant" if answers else "user",
            place=each.place,
            content_hash=hash_of(each).hex(),
            external_id=each.external_id,
            created_at=None if each.created_at is None else from_millis(to_millis(each.created_at)),
            details=each.details,
        )
        tables.origins_of.setdefault(turn_id, []).append(origin)
        tables.origins_of_session.setdefault(branch.session_id, []).append(origin)
