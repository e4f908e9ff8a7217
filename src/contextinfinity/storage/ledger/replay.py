"""Replaying spooled turns: the missing transitions of a turn are written in one transaction."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId, now
from contextinfinity.domain.turn import UNFINISHED, NewStep, Phase, Turn, TurnEnd
from contextinfinity.errors import NotFound
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_finalising, check_new_step, check_new_turn, check_turn_end
from contextinfinity.storage.ledger.binding import StoreResource, writes
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.prefix_hashes import placed_here
from contextinfinity.storage.ledger.recording import refuse_deleted
from contextinfinity.storage.ledger.rows import message_columns, pack, unpack
from contextinfinity.storage.ledger.turns import begin_turn, blocker, end_turn, find_turn, insert_turn, open_step
from contextinfinity.storage.replay import ReplayedTurn


def land_turn(connection: Connection, landing: ReplayedTurn) -> Turn:
    """Write the missing parts of a spooled turn."""
    if landing.new is not None:
        check_new_turn(landing.new)
    for step in landing.steps:
        check_new_step(step)
    if landing.end is not None:
        check_turn_end(landing.end)
    turn = find_turn(connection, landing.turn_id) or _insert(connection, landing)
    if turn.phase not in UNFINISHED:
        return turn
    if turn.phase is Phase.ACCEPTED and landing.has_to_begin:
        if blocker(connection, turn) is not None:
            return turn
        turn = begin_turn(connection, turn)
    for step in landing.steps:
        if not _is_there(connection, turn, step):
            turn = open_step(connection, turn, step)
    return turn if landing.end is None else _end(connection, turn, landing.end, failed=landing.failed)


def _insert(connection: Connection, landing: ReplayedTurn) -> Turn:
    refuse_deleted(connection, landing.turn_id)
    if landing.new is None:
        raise NotFound(f"There is no turn {landing.turn_id} to replay the end of.")
    trail = placed_here(connection, landing.new.branch_id, landing.new.trail)
    new = replace(landing.new, id=landing.turn_id, trail=trail)
    return insert_turn(connection, new, message_columns(new.message), landing.said_at or now())


def _is_there(connection: Connection, turn: Turn, step: NewStep) -> bool:
    place = {"id": pack(step.id), "turn_id": pack(turn.id), "step_index": step.step_index}
    return connection.one("select_step_clash", place) is not None


def _end(connection: Connection, turn: Turn, end: TurnEnd, *, failed: bool) -> Turn:
    answer = None if end.answer is None else message_columns(end.answer)
    if failed:
        return end_turn(connection, turn, Phase.FAILED, end, answer)
    check_finalising(turn.id, turn.phase, end)
    turn = end_turn(connection, turn, Phase.RESPONSE_FINALIZED, end, answer)
    enqueue(connection, "summarize_turn", pack(turn.branch_id), pack(turn.id))
    return turn


def take_blockers(
    connection: Connection, spooled: Collection[TurnId], dead: WorkerId, by: WorkerId
) -> tuple[TurnId, ...]:
    """Assign the turns of a dead worker that its spooled turns wait for, and that are not spooled, to ``by``."""
    taken: list[TurnId] = []
    for turn_id in spooled:
        turn = find_turn(connection, turn_id)
        if turn is None or turn.phase is not Phase.ACCEPTED:
            continue
        place = {"branch_id": pack(turn.branch_id), "turn_seq": turn.turn_seq, "dead": dead}
        for (key,) in connection.many("select_unfinished_before", place):
            if unpack(key) not in spooled and unpack(key) not in taken:
                connection.execute("take_turn", {"id": key, "dead": dead, "by": by})
                taken.append(unpack(key))
    return tuple(taken)


class LedgerReplay(StoreResource):
    """``ReplayStore`` of the contract, on a database."""

    land = writes(land_turn)
    take_blockers = writes(take_blockers)
