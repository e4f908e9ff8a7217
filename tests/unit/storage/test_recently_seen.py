"""What a process remembers of its conversations is bounded; the idle ones go first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.recent import MOST_TURNS, Recent, newest
from contextinfinity_testing.builders import exchange, new_branch
from tests.ledgers import open_store


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    store = open_store(ledger_path)
    yield store
    await store.close()


def seen(recent: Recent, branch_id: str) -> tuple[Turn, ...]:
    """The turns of a branch as they were seen."""
    seed = recent.recall(branch_id)
    assert seed is not None
    return seed.turns


async def talked(store: SqliteStore, *texts: str, new: NewSession | None = None) -> tuple[Session, tuple[Turn, ...]]:
    branch = await new_branch(store, new)
    turns = await store.turns.record(branch.id, [exchange(text, "x") for text in texts])
    session = await store.sessions.get(branch.session_id)
    assert session is not None
    return session, turns


@pytest.mark.req("THREAD-14")
async def test_at_the_bound_the_copy_of_the_idle_thread_goes_first(store: SqliteStore) -> None:
    recent = Recent(most_branches=3)
    branches = []
    for number in range(3):
        session, turns = await talked(store, f"thread {number}")
        recent.remember_session(session)
        recent.remember_turns(turns[0].branch_id, turns)
        branches.append(turns[0].branch_id)
    used = await store.turns.history(branches[0])
    recent.remember_turns(branches[0], used)
    _, turns = await talked(store, "one more")
    recent.remember_turns(turns[0].branch_id, turns)
    assert len(recent) == 3
    assert seen(recent, branches[0]) == used
    assert recent.recall(branches[1]) is None


@pytest.mark.req("THREAD-14")
async def test_what_is_remembered_is_bounded_in_characters_and_turns(store: SqliteStore) -> None:
    recent = Recent(most_characters=1000)
    for number in range(20):
        _, turns = await talked(store, f"{number:99d}")
        recent.remember_turns(turns[0].branch_id, turns)
    assert len(recent) == 10
    session, turns = await talked(store, *map(str, range(MOST_TURNS + 50)))
    recent = Recent()
    recent.remember_session(session)
    recent.remember_turns(turns[0].branch_id, turns)
    assert seen(recent, turns[0].branch_id) == turns[-MOST_TURNS:]


async def test_turns_before_a_gap_in_what_was_seen_are_left_out(store: SqliteStore) -> None:
    recent = Recent()
    session, turns = await talked(store, "a", "b", "c", "d")
    branch = turns[0].branch_id
    recent.remember_session(session)
    recent.remember_turns(branch, (turns[0], *turns[2:]))
    assert seen(recent, branch) == turns[2:]
    assert newest(turns, session, 1, 4) == turns[2:3]
    assert not recent.knows_head(branch)
    recent.remember_state(branch, await store.states.head(branch))
    seed = recent.recall(branch)
    assert seed is not None
    assert (seed.turns, seed.state) == (turns[2:], await store.states.head(branch))


@pytest.mark.req("CHATMEM-4")
async def test_nothing_is_known_of_a_session_that_was_deleted(store: SqliteStore) -> None:
    recent = Recent()
    session, turns = await talked(store, "a", new=NewSession(external_id="mine"))
    other, others = await talked(store, "b")
    for whose, said in ((session, turns), (other, others)):
        recent.remember_session(whose)
        recent.remember_state(whose.active_branch, await store.states.head(whose.active_branch))
        recent.remember_turns(whose.active_branch, said)
        recent.remember_step(said[0], None)
    recent.forget(session.id)
    assert recent.session(session.id) is None
    assert recent.named(Owner(), "mine") is None
    assert recent.recall(session.active_branch) is None
    assert list(recent.running) == [others[0].id]
    assert seen(recent, other.active_branch) == others


@pytest.mark.req("CHATMEM-4")
async def test_what_is_past_its_time_is_not_given_nor_a_summary_that_may_hold_it(store: SqliteStore) -> None:
    recent = Recent()
    session, turns = await talked(store, "old", "young", new=NewSession(kind="chat", ttl_hours=24))
    branch, state = session.active_branch, await store.states.head(session.active_branch)
    state = replace(state, summary="They spoke of old things.", covers_turn_seq=1)
    recent.remember_session(session)
    recent.remember_state(branch, state)
    recent.remember_turns(branch, (replace(turns[0], created_at=now() - timedelta(hours=25)), turns[1]))
    assert seen(recent, branch) == turns[1:]
    known = recent.recall(branch)
    assert known is not None
    assert known.state == state, "in a session younger than that nothing has expired"
    recent.remember_session(replace(session, created_at=now() - timedelta(hours=25)))
    known = recent.recall(branch)
    assert known is not None
    assert known.state is not None
    assert (known.state.id, known.state.summary, known.state.covers_turn_seq) == (state.id, "", 0)


@pytest.mark.req("CHATMEM-6")
async def test_of_two_phases_of_one_millisecond_the_later_one_is_remembered(store: SqliteStore) -> None:
    recent = Recent()
    session, (done,) = await talked(store, "quick")
    recent.remember_session(session)
    for phase in (Phase.RESPONDING, Phase.RESPONSE_FINALIZED, Phase.CONTEXT_PREPARED):
        recent.remember_turns(done.branch_id, (replace(done, phase=phase),))
    assert [turn.phase for turn in seen(recent, done.branch_id)] == [Phase.RESPONSE_FINALIZED]
    earlier = replace(done, phase=Phase.DONE, updated_at=done.updated_at - timedelta(milliseconds=1))
    recent.remember_turns(done.branch_id, (earlier,))
    assert [turn.phase for turn in seen(recent, done.branch_id)] == [Phase.RESPONSE_FINALIZED]
