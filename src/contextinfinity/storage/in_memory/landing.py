"""Held turns come into the in-memory store."""

from __future__ import annotations

from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.turn import UNFINISHED, NewStep, Phase, Turn, TurnEnd
from contextinfinity.errors import NotFound
from contextinfinity.storage.in_memory.jobs import enqueue
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.in_memory.trails import note_asked, placed_here
from contextinfinity.storage.in_memory.turns import (
    accepted_turn,
    append_turns,
    blocker,
    closed,
    end_turn,
    opened,
)
from contextinfinity.storage.landings import Landing
from contextinfinity.storage.rules import check_finalising, check_new_step, check_new_turn, check_turn_end


class InMemoryLandings:
    """The ``Landings`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def land(self, landing: Landing) -> Turn:
        """Write what the ledger does not have of a turn."""
        if landing.new is not None:
            check_new_turn(landing.new)
        for step in landing.steps:
            check_new_step(step)
        if landing.end is not None:
            check_turn_end(landing.end)
        with self._tables.transaction() as tables:
            return _land(tables, landing)


def _land(tables: Tables, landing: Landing) -> Turn:
    turn = tables.turns.get(landing.turn_id) or _accepted(tables, landing)
    if turn.phase not in UNFINISHED:
        return turn
    if turn.id not in tables.turns:
        trail = None if landing.new is None else placed_here(tables, turn.branch_id, landing.new.trail)
        append_turns(tables, tables.branch(turn.branch_id), (turn,))
        note_asked(tables, turn, trail)
    if turn.phase is Phase.ACCEPTED and landing.has_to_begin:
        if blocker(tables, turn) is not None:
            return turn
        turn = replace(turn, phase=Phase.CONTEXT_PREPARED, updated_at=now())
        tables.put_turn(turn)
    for step in landing.steps:
        if step.id not in tables.steps:
            turn = _open(tables, turn, step)
    return turn if landing.end is None else _end(tables, turn, landing.end, failed=landing.failed)


def _accepted(tables: Tables, landing: Landing) -> Turn:
    tables.refuse_deleted(landing.turn_id)
    if landing.new is None:
        raise NotFound(f"There is no turn {landing.turn_id} whose end could land.")
    new = replace(landing.new, id=landing.turn_id)
    return accepted_turn(tables.branch(new.branch_id), new, landing.said_at)


def _open(tables: Tables, turn: Turn, step: NewStep) -> Turn:
    if step.closes is not None:
        tables.steps[step.closes.step_id] = closed(tables, turn.id, step.closes)
    tables.steps[step.id] = opened(turn.id, step)
    tables.steps_of.setdefault(turn.id, []).append(step.id)
    turn = replace(turn, phase=Phase.RESPONDING, provider=step.provider, model=step.model_id, updated_at=now())
    tables.put_turn(turn)
    return turn


def _end(tables: Tables, turn: Turn, end: TurnEnd, *, failed: bool) -> Turn:
    if failed:
        return end_turn(tables, turn, Phase.FAILED, end)
    check_finalising(turn.id, turn.phase, end)
    turn = end_turn(tables, turn, Phase.RESPONSE_FINALIZED, end)
    if end.plan is not None:
        tables.questions[turn.id] = end.plan
    enqueue(tables, "summarize_turn", turn.branch_id, turn.id)
    return turn
