"""Turns that were finished elsewhere: imports and small logs, many in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw
import msgspec

from contextinfinity.domain.ids import BranchId, StateId, from_millis, new_id, now, to_millis
from contextinfinity.domain.message import Message
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import Exchange, Phase, Turn
from contextinfinity.storage import sql_files
from contextinfinity.storage.rules import can_be_answered, drafted_state
from contextinfinity.storage.sqlite.content import insert_message, metadata_column
from contextinfinity.storage.sqlite.rows import message_columns, one, pack, to_turn
from contextinfinity.storage.sqlite.states import append_state, head_of, refuse_unsettled

SQL = sql_files.load(__package__, "turns.sql")
SESSION_SQL = sql_files.load(__package__, "sessions.sql")


def record(connection: apsw.Connection, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
    """Append the exchanges as turns that are Done, and one state that counts past the last of them."""
    head = _settled_head(connection, branch_id)
    return _append(connection, branch_id, head, exchanges) if exchanges else ()


def log(connection: apsw.Connection, branch_id: BranchId, said: Exchange) -> Turn:
    """Put a message to the newest turn as its answer, if it is one and the turn waits for it; else append it."""
    head = _settled_head(connection, branch_id)
    if said.message.role == "assistant":
        turn = _last_turn(connection, branch_id)
        if turn is not None and can_be_answered(turn, head):
            return _answer(connection, branch_id, head, turn, said.message)
    return _append(connection, branch_id, head, (said,))[0]


def _settled_head(connection: apsw.Connection, branch_id: BranchId) -> State:
    head = head_of(connection, branch_id)
    refuse_unsettled(connection, branch_id, before=2**62)
    return head


def _last_turn(connection: apsw.Connection, branch_id: BranchId) -> Turn | None:
    found = one(connection, SQL["select_last_turn"], (pack(branch_id),))
    row = None if found is None else one(connection, SQL["select_turn"], found)
    return None if row is None else to_turn(row)


def _answer(connection: apsw.Connection, branch_id: BranchId, head: State, turn: Turn, answer: Message) -> Turn:
    """Set a turn's answer. The head moves, so that nobody commits what was made without it."""
    state = drafted_state(StateDraft(branch_id=branch_id, reason="record"), head, head.turn_seq)
    append_state(connection, state)
    session_id, moment = pack(turn.session_id), now()
    key = insert_message(connection, session_id, answer, message_columns(answer))
    values = {"id": pack(turn.id), "answer": key, "now": to_millis(moment)}
    connection.execute(SQL["answer_recorded_turn"], values)
    connection.execute(SESSION_SQL["touch_session"], {"id": session_id, "now": to_millis(moment)})
    return msgspec.structs.replace(turn, answer=answer, outcome="completed", updated_at=moment)


def _append(
    connection: apsw.Connection, branch_id: BranchId, head: State, exchanges: Sequence[Exchange]
) -> tuple[Turn, ...]:
    place = {"branch_id": pack(branch_id), "count": len(exchanges)}
    last_seq = one(connection, SQL["take_turn_seq"], place)[0]  # type: ignore[index]
    state = drafted_state(StateDraft(branch_id=branch_id, reason="record"), head, last_seq)
    append_state(connection, state)
    first_seq = last_seq - len(exchanges) + 1
    moment = now()
    turns = [
        _insert(connection, _turn(exchange, state, head.id, seq, moment))
        for seq, exchange in enumerate(exchanges, first_seq)
    ]
    connection.execute(SESSION_SQL["touch_session"], {"id": pack(head.session_id), "now": to_millis(moment)})
    return tuple(turns)


def _turn(exchange: Exchange, state: State, before: StateId, turn_seq: int, moment: datetime) -> Turn:
    return Turn(
        id=new_id(),
        session_id=state.session_id,
        branch_id=state.branch_id,
        turn_seq=turn_seq,
        phase=Phase.DONE,
        outcome=None if exchange.answer is None else "completed",
        state_before=before,
        state_after=state.id,
        user_message=exchange.message,
        answer=exchange.answer,
        model=exchange.model,
        metadata=exchange.metadata,
        created_at=exchange.created_at or moment,
        updated_at=moment,
    )


def _insert(connection: apsw.Connection, turn: Turn) -> Turn:
    session_id = pack(turn.session_id)
    answer = None
    if turn.answer is not None:
        answer = insert_message(connection, session_id, turn.answer, message_columns(turn.answer))
    connection.execute(
        SQL["insert_recorded_turn"],
        {
            "id": pack(turn.id),
            "session_id": session_id,
            "branch_id": pack(turn.branch_id),
            "turn_seq": turn.turn_seq,
            "outcome": turn.outcome,
            "state_before": pack(turn.state_before),
            "state_after": pack(turn.state_after or ""),
            "user_message": insert_message(
                connection, session_id, turn.user_message, message_columns(turn.user_message)
            ),
            "answer": answer,
            "model": turn.model,
            "metadata": metadata_column(turn.metadata),
            "created_at": to_millis(turn.created_at),
            "now": to_millis(turn.updated_at),
        },
    )
    return msgspec.structs.replace(turn, created_at=_to_the_millisecond(turn.created_at))


def _to_the_millisecond(moment: datetime) -> datetime:
    """Give a moment as it will be read back."""
    return from_millis(to_millis(moment))
