"""Checkpoints, in memory: every change of a head goes through ``append``."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, StateId, new_id, now
from contextinfinity.domain.session import Branch
from contextinfinity.domain.state import FOLDS, FoldCandidate, State, StateDraft, StateReason
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.storage.in_memory.jobs import AFTER_COMMIT, enqueue
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.rules import (
    check_branch_of,
    check_candidate,
    check_covers,
    check_draft,
    check_fact,
    check_head,
    check_phase,
    drafted_state,
    not_settled,
    remove_pin,
    row_limit,
)


class InMemoryStates:
    """The ``States`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, state_id: StateId) -> State | None:
        """Read one."""
        with self._tables.transaction() as tables:
            return tables.states.get(state_id)

    async def head(self, branch_id: BranchId) -> State:
        """Read the branch's head."""
        with self._tables.transaction() as tables:
            return tables.head(tables.branch(branch_id))

    async def list(self, branch_id: BranchId, *, limit: int = 50) -> tuple[State, ...]:
        """Read the chain from the head back, the newest first."""
        with self._tables.transaction() as tables:
            branch = tables.branches.get(branch_id)
            return () if branch is None else tuple(islice(tables.chain(branch), row_limit(limit)))

    async def newest(
        self, branch_id: BranchId, reasons: Collection[StateReason], *, covers: int | None = None
    ) -> State | None:
        """Read the newest state of the chain made for one of these reasons."""
        with self._tables.transaction() as tables:
            for state in tables.chain(tables.branch(branch_id)):
                if state.reason in reasons and covers in (None, state.covers_turn_seq):
                    return state
            return None

    async def commit(self, draft: StateDraft, *, expected_head: StateId | None) -> State:
        """TX-B: new state, state_after, phase, head, head_seq and the jobs that follow; pins are read inside."""
        check_draft(draft)
        check_text(draft)
        with self._tables.transaction() as tables:
            branch = tables.branch(draft.branch_id)
            turn = None if draft.turn_id is None else _turn_of(tables, branch, draft.turn_id)
            if turn is not None and turn.state_after is not None:
                return tables.states[turn.state_after]
            _check_commit(tables, branch, turn, expected_head)
            head = tables.head(branch)
            state = drafted_state(draft, head, head.turn_seq if turn is None else turn.turn_seq)
            append(tables, branch, state)
            if draft.reason in FOLDS:
                tables.candidates.pop(branch.id, None)
            if turn is not None:
                committed = replace(turn, phase=Phase.STATE_COMMITTED, state_after=state.id, updated_at=now())
                tables.put_turn(committed)
                for job_type in AFTER_COMMIT:
                    enqueue(tables, job_type, branch.id, turn.id)
            return state

    async def propose(self, candidate: FoldCandidate) -> FoldCandidate:
        """Keep a fold that could be committed, one a branch."""
        check_candidate(candidate)
        check_text(candidate)
        with self._tables.transaction() as tables:
            head = tables.head(tables.branch(candidate.branch_id))
            check_covers(candidate.covers_turn_seq, head.turn_seq)
            tables.candidates[candidate.branch_id] = candidate
            return candidate

    async def proposal(self, branch_id: BranchId) -> FoldCandidate | None:
        """Read the branch's candidate."""
        with self._tables.transaction() as tables:
            return tables.candidates.get(branch_id)

    async def pin(self, branch_id: BranchId, fact: str) -> State:
        """Add a pinned fact word for word: a state of its own, at once."""
        check_text(fact)
        check_fact(fact)
        with self._tables.transaction() as tables:
            branch = tables.branch(branch_id)
            head = tables.head(branch)
            if fact in head.pinned_facts:
                return head
            return append(tables, branch, next_state(head, branch, "pin", pinned_facts=(*head.pinned_facts, fact)))

    async def unpin(self, branch_id: BranchId, number: int) -> State:
        """Take the fact of that number (from 1) away."""
        with self._tables.transaction() as tables:
            branch = tables.branch(branch_id)
            head = tables.head(branch)
            rest = remove_pin(head.pinned_facts, number)
            return append(tables, branch, next_state(head, branch, "unpin", pinned_facts=rest))


def next_state(head: State, branch: Branch, reason: StateReason, **changes: object) -> State:
    """Make the state that follows a head, which is the head but for the changes."""
    return replace(
        head,
        id=new_id(),
        branch_id=branch.id,
        state_seq=head.state_seq + 1,
        parent_id=head.id,
        reason=reason,
        created_at=now(),
        **changes,
    )


def append(tables: Tables, branch: Branch, state: State) -> State:
    """Make a state the head of its branch."""
    tables.states[state.id] = state
    tables.put_branch(replace(branch, head_state=state.id, head_seq=state.state_seq))
    return state


def _turn_of(tables: Tables, branch: Branch, turn_id: str) -> Turn:
    turn = tables.turn(turn_id)
    check_branch_of(turn_id, turn.branch_id, branch.id)
    return turn


def _check_commit(tables: Tables, branch: Branch, turn: Turn | None, expected_head: StateId | None) -> None:
    if turn is not None:
        check_phase(turn.id, turn.phase, frozenset({Phase.RESPONSE_FINALIZED}))
    check_head(branch.id, branch.head_state, expected_head)
    if turn is not None:
        for earlier in tables.unsettled(branch.id):
            if earlier.turn_seq < turn.turn_seq:
                raise not_settled(earlier.turn_seq, earlier.phase)
