"""Replaying turns that were spooled while the ledger was unavailable.

A ``ReplayedTurn`` holds how far a turn came: accepted, begun, sent to a provider, ended. Its missing transitions are
written in one transaction, at the end of its branch. Replay is idempotent: a repeated or longer replay adds only what
is missing, so a process may be killed between a replay and the removal of its spool.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId, now, to_millis
from contextinfinity.domain.turn import UNFINISHED, NewStep, NewTurn, Phase, Problem, Turn, TurnEnd
from contextinfinity.errors import Gone, NotFound, WrongPhase
from contextinfinity.storage.database import Connection, StoreResource, writes
from contextinfinity.storage.invariants import check_finalising, check_new_step, check_new_turn, check_turn_end
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.prefix_hashes import placed_here
from contextinfinity.storage.ledger.recording import refuse_deleted
from contextinfinity.storage.ledger.rows import message_columns, pack, unpack
from contextinfinity.storage.ledger.sessions import made_before
from contextinfinity.storage.ledger.turns import begin_turn, end_turn, find_turn, insert_turn, open_step
from contextinfinity.storage.ledger.workers import MOST_DEATHS


class ReplayedTurn(Struct, frozen=True, kw_only=True):
    """A spooled turn with its progress."""

    turn_id: TurnId
    new: NewTurn | None = None
    """The accepted turn with its id and owner; None if the ledger accepted it before the outage."""
    said_at: datetime | None = None
    begun: bool = False
    """Whether answering had begun."""
    steps: tuple[NewStep, ...] = ()
    end: TurnEnd | None = None
    failed: bool = False
    """Whether the turn ended as Failed."""

    @property
    def has_to_begin(self) -> bool:
        """Whether it cannot be replayed while another turn of its branch is being answered."""
        return self.begun or bool(self.steps) or (self.end is not None and not self.failed)


def replay_turn(connection: Connection, spooled: ReplayedTurn) -> Turn:
    """Write the missing parts of a turn; a final turn does not change.

    While an earlier turn of the branch waits or is being answered, the turn is only appended to the branch and
    returned as Accepted: replay it again later. Raises ``Gone`` if the turn was deleted, or if its request made another
    turn on another host, ``NotFound`` if its branch is deleted or the ledger lacks a turn that it had accepted, and
    ``WrongPhase`` if another host took the turn for interrupted; nothing is written then.
    """
    if spooled.new is not None:
        check_new_turn(spooled.new)
    for step in spooled.steps:
        check_new_step(step)
    if spooled.end is not None:
        check_turn_end(spooled.end)
    turn = find_turn(connection, spooled.turn_id) or _insert(connection, spooled)
    if turn.phase not in UNFINISHED:
        if _was_taken_over(turn, spooled.end):
            raise WrongPhase(f"Turn {turn.id} was ended as interrupted on another host before its answer arrived.")
        return turn
    if turn.phase is Phase.ACCEPTED and spooled.has_to_begin:
        if (begun := begin_turn(connection, turn)) is None:
            return turn
        turn = begun
    for step in spooled.steps:
        if not _is_there(connection, turn, step):
            turn = open_step(connection, turn, step)
    return turn if spooled.end is None else _end(connection, turn, spooled.end, failed=spooled.failed)


def _was_taken_over(turn: Turn, end: TurnEnd | None) -> bool:
    return end is not None and _is_interrupted(turn.error) and not _is_interrupted(end.error)


def _is_interrupted(error: Problem | None) -> bool:
    return error is not None and error.code == "interrupted"


def _insert(connection: Connection, spooled: ReplayedTurn) -> Turn:
    refuse_deleted(connection, spooled.turn_id)
    if spooled.new is None:
        raise NotFound(f"There is no turn {spooled.turn_id} to replay the end of.")
    if (made := made_before(connection, spooled.new.once)) is not None:
        made_turn = "no turn" if made[1] is None else f"turn {unpack(made[1])}"
        raise Gone(f"Turn {spooled.turn_id} was sent again to another host meanwhile, where it made {made_turn}.")
    trail = placed_here(connection, spooled.new.branch_id, spooled.new.trail)
    new = replace(spooled.new, id=spooled.turn_id, trail=trail)
    return insert_turn(connection, new, message_columns(new.message), spooled.said_at or now())


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


def take_interrupted(
    connection: Connection, dead: WorkerId, by: WorkerId, *, kept: Collection[TurnId]
) -> tuple[TurnId, ...]:
    """Assign the unfinished turns of a dead worker to ``by`` and queue its jobs again, but for those ``kept``.

    More of those is in its spool. The others were interrupted: the spool cannot be replayed before they end.
    """
    left = frozenset(kept)
    turns = sorted(unpack(key) for (key,) in connection.many("select_unfinished_of", {"dead": dead}))
    taken = tuple(turn_id for turn_id in turns if turn_id not in left)
    for turn_id in taken:
        connection.execute("take_turn", {"id": pack(turn_id), "dead": dead, "by": by})
    connection.many("put_back_jobs", {"dead": dead, "now": to_millis(now()), "most": MOST_DEATHS})
    return taken


class ReplayStore(StoreResource):
    """Writes spooled turns to the ledger."""

    replay = writes(replay_turn)
    take_interrupted = writes(take_interrupted)
