"""What a process remembers of its conversations is bounded; the idle ones go first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.memory import MOST_TURNS, Memory
from contextinfinity.testing.builders import exchange, new_branch


async def talked(store: SqliteStore, *texts: str, new: NewSession | None = None) -> tuple[Session, tuple[Turn, ...]]:
    branch = await new_branch(store, new)
    turns = await store.turns.record(branch.id, [exchange(text, "x") for text in texts])
    session = await store.sessions.get(branch.session_id)
    assert session is not None
    return session, turns


@pytest.mark.req("THREAD-14")
async def test_at_the_bound_the_copy_of_the_idle_thread_goes_first() -> None:
    store, memory = SqliteStore(None), Memory(most_branches=3)
    branches = []
    for number in range(3):
        session, turns = await talked(store, f"thread {number}")
        memory.see_session(session)
        memory.see_turns(turns[0].branch_id, turns)
        branches.append(turns[0].branch_id)
    used = await store.turns.history(branches[0])
    memory.see_turns(branches[0], used)
    _, turns = await talked(store, "one more")
    memory.see_turns(turns[0].branch_id, turns)
    assert len(memory) == 3
    assert memory.history(branches[0], 10, None) == used
    assert memory.history(branches[1], 10, None) is None


@pytest.mark.req("THREAD-14")
async def test_what_is_remembered_is_bounded_in_characters_and_turns() -> None:
    store, memory = SqliteStore(None), Memory(most_characters=1000)
    for number in range(20):
        _, turns = await talked(store, f"{number:99d}")
        memory.see_turns(turns[0].branch_id, turns)
    assert len(memory) == 10
    session, turns = await talked(store, *map(str, range(MOST_TURNS + 50)))
    memory = Memory()
    memory.see_session(session)
    memory.see_turns(turns[0].branch_id, turns)
    assert memory.history(turns[0].branch_id, 1000, None) == turns[-MOST_TURNS:]


async def test_a_gap_in_what_was_seen_ends_the_memory() -> None:
    store, memory = SqliteStore(None), Memory()
    session, turns = await talked(store, "a", "b", "c", "d")
    branch = turns[0].branch_id
    memory.see_session(session)
    memory.see_turns(branch, (turns[0], *turns[2:]))
    assert memory.history(branch, 10, None) == turns[2:]
    assert memory.history(branch, 1, 4) == turns[2:3]
    assert memory.seed(branch) is None, "its state was never seen"
    memory.see_state(await store.states.head(branch), branch)
    seed = memory.seed(branch)
    assert seed is not None
    assert seed.turns == turns[2:]


@pytest.mark.req("CHATMEM-4")
async def test_nothing_is_known_of_a_session_that_was_deleted() -> None:
    store, memory = SqliteStore(None), Memory()
    session, turns = await talked(store, "a", new=NewSession(external_id="mine"))
    other, others = await talked(store, "b")
    for whose, said in ((session, turns), (other, others)):
        memory.see_session(whose)
        memory.see_state(await store.states.head(whose.active_branch), whose.active_branch)
        memory.see_turns(whose.active_branch, said)
        memory.see_step(said[0], None)
    memory.forget(session.id)
    assert memory.session(session.id) is None
    assert memory.named(Owner(), "mine") is None
    assert memory.history(session.active_branch, 10, None) is None
    assert memory.seed(session.active_branch) is None
    assert list(memory.running) == [others[0].id]
    assert memory.history(other.active_branch, 10, None) == others


@pytest.mark.req("CHATMEM-4")
async def test_what_is_past_its_time_is_not_given_nor_a_summary_that_may_hold_it() -> None:
    store, memory = SqliteStore(None), Memory()
    session, turns = await talked(store, "old", "young", new=NewSession(kind="chat", ttl_hours=24))
    branch, state = session.active_branch, await store.states.head(session.active_branch)
    state = replace(state, summary="They spoke of old things.", covers_turn_seq=1)
    memory.see_session(session)
    memory.see_state(state, branch)
    memory.see_turns(branch, (replace(turns[0], created_at=now() - timedelta(hours=25)), turns[1]))
    assert memory.history(branch, 10, None) == turns[1:]
    assert memory.state(branch) == state, "in a session younger than that nothing has expired"
    memory.see_session(replace(session, created_at=now() - timedelta(hours=25)))
    known = memory.state(branch)
    assert known is not None
    assert (known.id, known.summary, known.covers_turn_seq) == (state.id, "", 0)
