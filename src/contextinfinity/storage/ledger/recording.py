"""Records turns that were finished elsewhere, many in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from contextinfinity.domain.ids import BranchId, StateId, TurnId, from_millis, new_id, now, to_millis
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import Exchange, Phase, Turn
from contextinfinity.errors import AlreadyExists, Gone
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import can_be_answered, check_exchanges, drafted_state
from contextinfinity.storage.ledger.contents import insert_message, insert_messages, metadata_column
from contextinfinity.storage.ledger.prefix_hashes import note_logged, note_recorded
from contextinfinity.storage.ledger.rows import message_columns, must, pack, to_turn
from contextinfinity.storage.ledger.states import append_state, head_of, refuse_unsettled


def record(connection: Connection, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
    """Append turns that were finished elsewhere: in phase Done, without an owner, with one state for all of them.

    A turn whose id exists is returned unchanged. Raises ``OutOfOrder`` while turns of the branch are neither
    committed nor failed, ``AlreadyExists`` if an id exists on another branch, and ``Gone`` if it was deleted.
    """
    check_exchanges(exchanges)
    there = {each.id: turn for each in exchanges if each.id and (turn := _recorded(connection, branch_id, each.id))}
    new = [exchange for exchange in exchanges if exchange.id not in there]
    if not new and there:
        return tuple(there.values())
    head = settled_head(connection, branch_id)
    turns = iter(append(connection, branch_id, head, new) if new else ())
    return tuple(there[each.id] if each.id in there else next(turns) for each in exchanges)


def _recorded(connection: Connection, branch_id: BranchId, turn_id: TurnId) -> Turn | None:
    row = connection.one("select_turn", (pack(turn_id),))
    if row is None:
        refuse_deleted(connection, turn_id)
        return None
    turn = to_turn(row)
    if turn.branch_id != branch_id:
        raise AlreadyExists(f"There is a turn {turn_id} already, on another branch.")
    return turn


def refuse_deleted(connection: Connection, turn_id: TurnId) -> None:
    """Raise ``Gone`` if the turn was deleted."""
    if connection.one("select_buried_turn", (pack(turn_id),)) is not None:
        raise Gone(f"Turn {turn_id} was deleted.")


def log(connection: Connection, branch_id: BranchId, message: Message, *, metadata: Json = None) -> Turn:
    """Append one message from elsewhere with its own state, and return the turn that contains it.

    An assistant message becomes the answer of the newest turn, if that was recorded without an answer and no turn,
    fork or summary followed it; the turn keeps its own ``metadata``. Any other message starts a turn without an
    answer, as ``record`` does. Raises ``OutOfOrder`` while turns of the branch are neither committed nor failed.
    """
    said = Exchange(message=message, metadata=metadata)
    check_exchanges((said,))
    head = settled_head(connection, branch_id)
    if said.message.role == "assistant":
        turn = last_turn(connection, branch_id)
        if turn is not None and can_be_answered(turn, head):
            return answer(connection, branch_id, head, turn, said.message)
    return append(connection, branch_id, head, (said,))[0]


def settled_head(connection: Connection, branch_id: BranchId) -> State:
    """Return the head of a branch. Raises ``OutOfOrder`` while its turns are neither committed nor failed."""
    head = head_of(connection, branch_id)
    refuse_unsettled(connection, branch_id, before=2**62)
    return head


def last_turn(connection: Connection, branch_id: BranchId) -> Turn | None:
    """Return the branch's own last turn; None if another branch continues from it."""
    found = connection.one("select_last_turn", (pack(branch_id),))
    row = None if found is None else connection.one("select_turn", found)
    return None if row is None else to_turn(row)


def answer(connection: Connection, branch_id: BranchId, head: State, turn: Turn, said: Message) -> Turn:
    """Set a turn's answer. The head moves, so that a state drafted without the answer cannot be committed."""
    state = drafted_state(StateDraft(branch_id=branch_id, reason="record"), head, head.turn_seq)
    append_state(connection, state)
    session_id, moment = pack(turn.session_id), now()
    key = insert_message(connection, session_id, said, message_columns(said))
    values = {"id": pack(turn.id), "answer": key, "now": to_millis(moment)}
    connection.execute("answer_recorded_turn", values)
    connection.execute("touch_session", {"id": session_id, "now": to_millis(moment)})
    answered = msgspec.structs.replace(turn, answer=said, outcome="completed", updated_at=moment)
    note_logged(connection, answered)
    return answered


def append(connection: Connection, branch_id: BranchId, head: State, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
    """Add turns after the last one, with one state for all of them."""
    place = {"branch_id": pack(branch_id), "count": len(exchanges)}
    last_seq = must(connection.one("take_turn_seq", place), "branch", branch_id)[0]
    state = drafted_state(StateDraft(branch_id=branch_id, reason="record"), head, last_seq)
    append_state(connection, state)
    first_seq = last_seq - len(exchanges) + 1
    moment = now()
    turns = [_turn(exchange, state, head.id, seq, moment) for seq, exchange in enumerate(exchanges, first_seq)]
    _insert(connection, pack(head.session_id), turns)
    note_recorded(connection, turns, exchanges)
    connection.execute("touch_session", {"id": pack(head.session_id), "now": to_millis(moment)})
    return tuple(turns)


def _turn(exchange: Exchange, state: State, before: StateId, turn_seq: int, moment: datetime) -> Turn:
    return Turn(
        id=exchange.id or new_id(),
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
        created_at=moment if exchange.created_at is None else from_millis(to_millis(exchange.created_at)),
        updated_at=moment,
    )


def _insert(connection: Connection, session_id: bytes, turns: Sequence[Turn]) -> None:
    """Insert turns and their messages in batches."""
    said = [message for turn in turns for message in (turn.user_message, turn.answer) if message is not None]
    keys = iter(insert_messages(connection, session_id, said))
    rows = [
        {
            "id": pack(turn.id),
            "session_id": session_id,
            "branch_id": pack(turn.branch_id),
            "turn_seq": turn.turn_seq,
            "outcome": turn.outcome,
            "state_before": pack(turn.state_before),
            "state_after": pack(turn.state_after or ""),
            "user_message": next(keys),
            "answer": None if turn.answer is None else next(keys),
            "model": turn.model,
            "metadata": metadata_column(turn.metadata),
            "created_at": to_millis(turn.created_at),
            "now": to_millis(turn.updated_at),
        }
        for turn in turns
    ]
    connection.execute_many("insert_recorded_turn", rows)
