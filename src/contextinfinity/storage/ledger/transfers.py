"""Reads conversations for an export, and restores them with their original ids.

Pages are ordered, so that exports of the same ledger are identical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import MemoryId, SessionId, StateId, from_millis
from contextinfinity.domain.message import Json
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import (
    UNANSWERED,
    BranchTransfer,
    DeletedTurn,
    MemoryTransfer,
    MessageTransfer,
    OriginTransfer,
    PlanTransfer,
    SessionOutline,
    SessionTransfer,
    SourceTransfer,
    StateTransfer,
    StepTransfer,
    TurnTransfer,
)
from contextinfinity.domain.turn import UNFINISHED
from contextinfinity.errors import InvalidInput, LedgerFailed
from contextinfinity.storage.database import Connection, Row, StoreResource, reads
from contextinfinity.storage.ledger.memories import find_owner
from contextinfinity.storage.ledger.restoring import (
    replace_memories,
    replace_session,
    restore_memories,
    restore_session,
)
from contextinfinity.storage.ledger.rows import (
    maybe_unpack,
    pack,
    to_usage,
    unpack,
)

T = TypeVar("T")

_UNANSWERED = wire.dumps(UNANSWERED).decode()


def read_outline(connection: Connection, session_id: SessionId) -> SessionOutline | None:
    """Return a session, its branches and its tombstones."""
    if (row := connection.one("select_session_transfer", (pack(session_id),))) is None:
        return None
    session = SessionTransfer(
        id=unpack(row[0]),
        org_id=row[1],
        user_id=row[2],
        external_id=row[3],
        kind=row[4],
        title=row[5],
        system=_hex(row[6]),
        ttl_hours=row[7],
        active_branch=unpack(row[8]),
        created_at=from_millis(row[9]),
        updated_at=from_millis(row[10]),
        metadata=_json(row[11]) or {},
    )
    branches = tuple(map(_branch, connection.many("select_branches", (pack(session_id),))))
    deleted = connection.many("select_deleted_turns", (pack(session_id),))
    return SessionOutline(
        session=session,
        branches=branches,
        deleted=tuple(DeletedTurn(id=unpack(key), seq=seq, deleted_at=from_millis(at)) for key, seq, at in deleted),
    )


def _branch(row: Row) -> BranchTransfer:
    return BranchTransfer(
        id=unpack(row[0]),
        parent_id=maybe_unpack(row[2]),
        fork_seq=row[3],
        base_state=unpack(row[4]),
        head_state=unpack(row[5]),
        head_seq=row[6],
        last_turn_seq=row[7],
        label=row[8],
        created_at=from_millis(row[9]),
    )


def read_states(
    connection: Connection, session_id: SessionId, *, after: StateId | None = None, limit: int = 500
) -> tuple[StateTransfer, ...]:
    """Return the states of a session after id ``after``, ordered by id."""
    values = {"session_id": pack(session_id), "after": pack(after) if after else b"", "limit": limit}
    return tuple(
        StateTransfer(
            id=unpack(row[0]),
            branch_id=unpack(row[1]),
            state_seq=row[2],
            parent_id=maybe_unpack(row[3]),
            turn_seq=row[4],
            covers_turn_seq=row[5],
            reason=row[6],
            summary=_hex(row[7]),
            pins=_hex(row[8]),
            token_count_est=row[9],
            created_at=from_millis(row[10]),
            schema_version=row[11],
        )
        for row in connection.many("select_states_transfer", values)
    )


def read_turns(
    connection: Connection, session_id: SessionId, *, after: tuple[int, str] = (0, ""), limit: int = 200
) -> tuple[TurnTransfer, ...]:
    """Return the turns after ``after``, ordered by (turn_seq, id); unfinished ones as failed (``UNANSWERED``)."""
    values = {"session_id": pack(session_id), "seq": after[0], "id": pack(after[1]), "limit": limit}
    return tuple(_turn(connection, row) for row in connection.many("select_turns_transfer", values))


def _turn(connection: Connection, row: Row) -> TurnTransfer:
    key = (row[0],)
    answer = None if row[19] is None else MessageTransfer(role=row[19], text=row[20], blocks=_json(row[21]))
    is_unfinished = row[3] in UNFINISHED
    return TurnTransfer(
        id=unpack(row[0]),
        branch_id=unpack(row[1]),
        turn_seq=row[2],
        phase="Failed" if is_unfinished else row[3] if row[3] in ("Failed", "ResponseFinalized") else "Done",
        outcome="failed" if is_unfinished else row[4],
        state_before=unpack(row[5]),
        state_after=maybe_unpack(row[6]),
        provider=row[7],
        model=row[8],
        step_count=row[9],
        retry_of=maybe_unpack(row[10]),
        usage=to_usage(*row[22:26]),
        error=_json(_UNANSWERED if is_unfinished else row[11]),
        metadata=_json(row[12]),
        created_at=from_millis(row[14]),
        updated_at=from_millis(row[15]),
        question=MessageTransfer(role=row[16], text=row[17], blocks=_json(row[18])),
        answer=answer,
        latency_ms=_json(row[13]),
        origins=tuple(map(_origin, connection.many("select_origins", key))),
        steps=tuple(map(_step, connection.many("select_steps_transfer", key))),
        plans=tuple(
            PlanTransfer(step_index=index, body=_json(body))
            for index, body in connection.many("select_plans_transfer", key)
        ),
    )


def _origin(row: Row) -> OriginTransfer:
    return OriginTransfer(
        answers=bool(row[0]),
        place=row[1],
        hash=row[2].hex(),
        external_id=row[3],
        said_at=_moment(row[4]),
        details=_json(row[5]),
    )


def _step(row: Row) -> StepTransfer:
    return StepTransfer(
        id=unpack(row[0]),
        step_index=row[1],
        provider=row[2],
        model_id=row[3],
        inputs=_json(row[4]),
        items=_json(row[5]),
        outcome=_json(row[6]),
        usage=to_usage(*row[12:16]),
        displayed_bytes=row[7],
        durable_bytes=row[8],
        started_at=from_millis(row[9]),
        ended_at=_moment(row[10]),
        response=row[11],
    )


def read_memories(
    connection: Connection,
    owner: Owner,
    *,
    thread: SessionId | None = None,
    after: MemoryId | None = None,
    limit: int = 500,
) -> tuple[MemoryTransfer, ...]:
    """Return the memories of a user, or of one conversation only, ordered by id."""
    values = {
        "owner": find_owner(connection, owner),
        "thread": pack(thread) if thread else b"",
        "after": pack(after) if after else b"",
        "limit": limit,
    }
    return tuple(_memory(connection, row) for row in connection.many("select_memories_transfer", values))


def _memory(connection: Connection, row: Row) -> MemoryTransfer:
    sources = connection.many("select_sources_transfer", (row[0],))
    return MemoryTransfer(
        id=unpack(row[1]),
        thread=unpack(row[2]) if row[2] else None,
        content=row[3],
        kind=row[4],
        about=row[5],
        origin=row[6],
        confidence=row[7],
        weight=row[8],
        created_at=from_millis(row[9]),
        valid_from=from_millis(row[10]),
        valid_to=_moment(row[11]),
        last_placed_at=_moment(row[12]),
        superseded_by=maybe_unpack(row[13]),
        superseded_at=_moment(row[14]),
        sources=tuple(
            SourceTransfer(
                turn_id=unpack(turn),
                session_id=unpack(session),
                branch_id=unpack(branch),
                turn_seq=seq,
                start=start,
                end=end,
                said_at=from_millis(at),
            )
            for turn, session, branch, seq, start, end, at in sources
        ),
    )


def _json(column: str | None) -> Json:
    return None if column is None else msgspec.json.decode(column)


def _hex(column: bytes | None) -> str | None:
    return None if column is None else column.hex()


def _moment(column: int | None) -> datetime | None:
    return None if column is None else from_millis(column)


def read_owners(connection: Connection) -> tuple[Owner, ...]:
    """Return all owners with a conversation or a memory."""
    return tuple(Owner(org_id=org_id, user_id=user_id) for org_id, user_id in connection.many("select_owners_transfer"))


class TransferStore(StoreResource):
    """Conversations with everything that belongs to them. The rules of ``storage.contract`` apply."""

    owners = reads(read_owners)
    outline = reads(read_outline)
    states = reads(read_states)
    turns = reads(read_turns)
    memories = reads(read_memories)

    async def restore(
        self, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
    ) -> bool:
        """Restore a session whose texts and blobs are stored; return False and write nothing if it exists.

        Raises ``InvalidInput`` for inconsistent parts, and ``AccessDenied`` if the id is or was another owner's.
        """
        return await self._restored(lambda connection: restore_session(connection, outline, states, turns))

    async def replace(
        self, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
    ) -> bool:
        """Restore a session in place of an older copy of it, in one transaction.

        Returns False and writes nothing if the copy was continued: it has turns that are not among these. Memories that
        only its turns said are deleted. Raises the errors of ``restore``.
        """
        return await self._restored(lambda connection: replace_session(connection, outline, states, turns))

    async def restore_memories(self, owner: Owner, memories: Sequence[MemoryTransfer]) -> int:
        """Add the memories that the owner does not have, and return how many."""
        return await self._restored(lambda connection: restore_memories(connection, owner, memories))

    async def replace_memories(self, owner: Owner, memories: Sequence[MemoryTransfer]) -> None:
        """Restore memories in place of older copies of them, in one transaction; others stay."""
        await self._restored(lambda connection: replace_memories(connection, owner, memories))

    async def _restored(self, work: Callable[[Connection], T]) -> T:
        """Run a restore; raise constraint violations and decoding errors as ``InvalidInput``."""

        def decoded(connection: Connection) -> T:
            try:
                return work(connection)
            except (msgspec.MsgspecError, AssertionError, IndexError, OverflowError) as error:
                raise InvalidInput(f"The file holds something that cannot be read: {error}") from error

        try:
            return await self._database.write(decoded, bulk=True)
        except LedgerFailed as error:
            if "Constraint" not in error.message:
                raise
            raise InvalidInput(f"The file breaks a rule of the ledger: {error.message}") from error
