"""Tests of a store: after it is closed, every method raises an error that says so."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.state import FOLDS, StateDraft
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.errors import LedgerClosed
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    broken_off,
    exchange,
    new_branch,
    new_step,
    new_turn,
    turn_end,
)
from contextinfinity_testing.stores.folds import candidate


class ClosingSuite:
    """The end of a store."""

    async def test_closing_twice_does_nothing(self, store: Store) -> None:
        await store.close()
        await store.close()

    async def test_a_closed_store_refuses_to_make_or_read_conversations(self, store: Store) -> None:
        branch = await new_branch(store)
        session, name, head = branch.session_id, branch.id, branch.head_state
        await store.close()
        for attempt in (
            lambda: store.sessions.create(NewSession()),
            lambda: store.sessions.get(session),
            lambda: store.sessions.find(Owner(), "lobby"),
            lambda: store.sessions.list(Owner()),
            lambda: store.sessions.rename(session, "Hall"),
            lambda: store.sessions.activate(session, name),
            lambda: store.branches.get(name),
            lambda: store.branches.list(session),
            lambda: store.branches.lineage(name),
            lambda: store.branches.fork(name),
            lambda: store.branches.rollback(name, to=0),
            lambda: store.states.get(head),
            lambda: store.states.head(name),
            lambda: store.states.list(name),
            lambda: store.states.newest(name, FOLDS),
            lambda: store.states.propose(candidate(name)),
            lambda: store.states.proposal(name),
            lambda: store.states.commit(StateDraft(branch_id=name, reason="fold"), expected_head=head),
            lambda: store.states.pin(name, "fact"),
            lambda: store.states.unpin(name, 1),
        ):
            with pytest.raises(LedgerClosed):
                await attempt()

    async def test_a_closed_store_refuses_to_write_or_read_turns(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, "hello"))
        step = new_step()
        await store.close()
        for attempt in (
            lambda: store.turns.accept(new_turn(branch.id, "hello")),
            lambda: store.turns.prepare(turn.id, WORKER),
            lambda: store.turns.open_step(turn.id, WORKER, step),
            lambda: store.turns.finalise(turn.id, WORKER, turn_end(step)),
            lambda: store.turns.fail(turn.id, WORKER, broken_off()),
            lambda: store.turns.record(branch.id, [exchange("a", "b")]),
            lambda: store.turns.log(branch.id, say("user", "a")),
            lambda: store.imports.add(branch.id, [ImportedMessage(message=say("user", "a"), place=0)]),
            lambda: store.imports.origins([turn.id]),
            lambda: store.imports.beginning(branch.session_id),
            lambda: store.turns.get(turn.id),
            lambda: store.turns.history(branch.id),
            lambda: store.turns.steps(turn.id),
            lambda: store.turns.plan(turn.id),
            lambda: store.chunks.index(turn.id, ()),
            lambda: store.chunks.get(turn.id),
            lambda: store.chunks.of_turn(turn.id),
        ):
            with pytest.raises(LedgerClosed):
                await attempt()
