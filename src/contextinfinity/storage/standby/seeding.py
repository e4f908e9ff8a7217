"""A ledger in memory that begins in the middle: with one branch of another, from some turn on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.session import Branch
from contextinfinity.domain.turn import UNSETTLED_PHASES, NewStep
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.in_memory.turns import closed, opened
from contextinfinity.storage.standby.memory import Seed, living_state


def sow(tables: Tables, seed: Seed, running: Mapping[TurnId, Sequence[NewStep]]) -> None:
    """Put a branch into empty tables. Its turns are not searched, so their words are not taken in."""
    state = living_state(seed.state, seed.session)
    last = max(seed.last_seq, seed.state.turn_seq, *(turn.turn_seq for turn in seed.turns))
    first = seed.turns[0].turn_seq if seed.turns else last + 1
    branch = Branch(
        id=seed.branch_id,
        session_id=seed.session.id,
        base_state=seed.state.id,
        head_state=seed.state.id,
        head_seq=seed.state.turn_seq,
        last_turn_seq=last,
        created_at=seed.session.created_at,
        fork_seq=first - 1,
    )
    tables.sessions[seed.session.id] = seed.session
    tables.states[state.id] = state
    tables.put_branch(branch)
    for turn in seed.turns:
        tables.turns[turn.id] = replace(turn, branch_id=seed.branch_id)
        tables.turns_of[seed.branch_id].append(turn.id)
        if turn.phase in UNSETTLED_PHASES:
            tables.unsettled_of[seed.branch_id][turn.id] = None
        for step in running.get(turn.id, ()):
            if step.closes is not None:
                tables.steps[step.closes.step_id] = closed(tables, turn.id, step.closes)
            tables.steps[step.id] = opened(turn.id, step)
            tables.steps_of.setdefault(turn.id, []).append(step.id)
    if seed.turns and seed.plan is not None:
        tables.questions[seed.turns[-1].id] = seed.plan
