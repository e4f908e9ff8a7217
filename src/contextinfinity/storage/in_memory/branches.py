"""Lines of turns, in memory. A fork is one row: what came before stays its parent's."""

from __future__ import annotations

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, new_id, now
from contextinfinity.domain.session import Branch, Lineage
from contextinfinity.domain.state import State
from contextinfinity.storage.in_memory.states import append, next_state
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.rules import check_place, check_rollback, no_state


class InMemoryBranches:
    """The ``Branches`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, branch_id: BranchId) -> Branch | None:
        """Read one."""
        with self._tables.transaction() as tables:
            return tables.branches.get(branch_id)

    async def list(self, session_id: SessionId) -> tuple[Branch, ...]:
        """Read all of a session, the oldest first."""
        with self._tables.transaction() as tables:
            return tuple(tables.branches[branch_id] for branch_id in tables.branches_of.get(session_id, ()))

    async def lineage(self, branch_id: BranchId) -> Lineage:
        """Tell whose turns it sees."""
        with self._tables.transaction() as tables:
            return tables.lineage(tables.branch(branch_id))

    async def fork(
        self, branch_id: BranchId, *, at: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Start a new branch after turn ``at``, or from the state of number ``state``; neither: at the end."""
        check_text(label)
        with self._tables.transaction() as tables:
            return _fork(tables, tables.branch(branch_id), at, state, label)

    async def rollback(
        self, branch_id: BranchId, *, to: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Fork there and make the new branch the active one, in one transaction."""
        check_text(label)
        with self._tables.transaction() as tables:
            origin = tables.branch(branch_id)
            check_rollback(to, state)
            branch = _fork(tables, origin, to, state, label)
            session = tables.sessions[origin.session_id]
            tables.sessions[session.id] = replace(session, active_branch=branch.id, updated_at=now())
            return branch


def _fork(tables: Tables, origin: Branch, at: int | None, state_seq: int | None, label: str | None) -> Branch:
    """Make the new branch; it gets the pins of its origin unless a state was named."""
    seq, base = _place(tables, origin, at, state_seq)
    branch = Branch(
        id=new_id(),
        session_id=origin.session_id,
        base_state=base.id,
        head_state=base.id,
        head_seq=base.state_seq,
        last_turn_seq=seq,
        created_at=now(),
        parent_id=tables.lineage(origin).owner_of(seq),
        fork_seq=seq,
        label=label,
    )
    tables.put_branch(branch)
    pins = tables.head(origin).pinned_facts
    if state_seq is None and base.pinned_facts != pins:
        append(tables, branch, next_state(base, branch, "pin", pinned_facts=pins))
    return tables.branch(branch.id)


def _place(tables: Tables, origin: Branch, at: int | None, state_seq: int | None) -> tuple[int, State]:
    """Find the turn_seq and the state a fork starts from."""
    check_place(origin, at, state_seq)
    if state_seq is not None:
        for state in tables.chain(origin):
            if state.state_seq == state_seq:
                return state.turn_seq, state
        raise no_state(origin, state_seq)
    if at is None:
        return origin.last_turn_seq, tables.head(origin)
    return at, next(state for state in tables.chain(origin) if state.turn_seq <= at)
