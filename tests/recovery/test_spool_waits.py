"""Spooled turns that have to wait, for an interrupted turn or for their session, are replayed later, not refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from contextinfinity.domain.ids import WorkerId, new_id
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Phase, Turn, TurnEnd
from contextinfinity.engine.step import INTERRUPTED
from contextinfinity.errors import LedgerAway, LedgerBusy
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.ledger.sessions import Sessions
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.breaker import CircuitBreaker, guarded
from contextinfinity.storage.standby.recent import Recent
from contextinfinity.storage.standby.spool import Spool, Spooled, written
from contextinfinity.storage.standby.spool_replay import Replay
from contextinfinity_testing.builders import new_branch, new_step, new_turn, turn_end
from tests.ledgers import open_store
from tests.recovery.outages import back, engine_on, locked, until

T = TypeVar("T")


async def answering_elsewhere(folder: Path, branch_id: str) -> tuple[SqliteStore, WorkerId, Turn]:
    """Return the store and the id of another worker on the ledger, and the turn "two" that it is answering."""
    other = open_store(folder / "ledger.db")
    worker = await other.workers.enter()
    turn = await other.turns.accept(new_turn(branch_id, "two", worker.id))
    return other, worker.id, await other.turns.prepare(turn.id, worker.id)


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("TURN-13", "CHATMEM-6")
@pytest.mark.parametrize("is_spooled", [False, True])
async def test_an_interrupted_turn_whose_end_is_in_no_spool_does_not_hold_up_those_that_are(
    tmp_path: Path, is_spooled: bool
) -> None:
    gone, store = new_id(), open_store(tmp_path / "ledger.db")
    branch = await new_branch(store, NewSession(external_id="thread"))
    first = await store.turns.accept(new_turn(branch.id, "one", gone))
    await store.turns.prepare(first.id, gone)
    second = await store.turns.accept(new_turn(branch.id, "two", gone))
    await store.close()
    step = new_step()
    spool = Spool(tmp_path / "ledger.db-spool", gone)
    if is_spooled:
        await spool.append([written(ReplayedTurn(turn_id=first.id, steps=(new_step(),)))])
    await spool.append([written(ReplayedTurn(turn_id=second.id, steps=(step,), end=turn_end(step, "kept")))])
    spool.close()
    async with engine_on(tmp_path) as engine:
        await engine.ask("thread", "three")
        one, two = [await engine.store.turns.get(turn.id) for turn in (first, second)]
        assert one is not None
        assert two is not None
        assert one.phase is Phase.FAILED, "its end was written nowhere"
        assert (two.outcome, two.text) == ("completed", "kept")
    assert not spool.path.exists()


@pytest.mark.req("TURN-13", "CHATMEM-6")
async def test_an_answer_whose_turn_another_host_took_for_interrupted_is_kept_as_refused(tmp_path: Path) -> None:
    gone, step, store = new_id(), new_step(), open_store(tmp_path / "ledger.db")
    branch = await new_branch(store, NewSession(external_id="thread"))
    turn = await store.turns.accept(new_turn(branch.id, "one", gone))
    await store.turns.prepare(turn.id, gone)
    await store.close()
    async with engine_on(tmp_path) as engine:  # that host's spool is not in this folder
        await engine.ask("thread", "two")
        ended = await engine.store.turns.get(turn.id)
    assert ended is not None
    assert ended.error is not None
    assert ended.error.code == "interrupted"
    spool = Spool(tmp_path / "ledger.db-spool", gone)
    await spool.append([written(ReplayedTurn(turn_id=turn.id, steps=(step,), end=turn_end(step, "the answer")))])
    spool.close()
    async with engine_on(tmp_path) as engine:
        await engine.ask("thread", "three")
        assert await engine.store.turns.get(turn.id) == ended
    (kept,) = (tmp_path / "ledger.db-spool").glob("*.refused")
    assert "the answer" in kept.read_text(encoding="utf-8")


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("TURN-13", "CHATMEM-6", "TURN-2")
async def test_turns_of_a_process_that_dies_during_the_outage_do_not_hold_up_the_spool(tmp_path: Path) -> None:
    """They are taken over while their branch continues here, where they were shown as failed; they end all the same."""
    async with engine_on(tmp_path) as engine:
        asked = await engine.ask("thread", "one")
        other, _, _ = await answering_elsewhere(tmp_path, asked.branch_id)
        with locked(tmp_path):
            held = await engine.ask(asked.thread_id, "three")
            assert held.durability == "local"
            await other.close()
        async with asyncio.timeout(30):
            while engine.health().status != "ready":
                await engine._stages.recovery.recover(await engine.worker_lease.find_dead())  # as housekeeping does
        turns = await engine.store.turns.history(asked.branch_id)
        assert [(turn.user_message.rendered_text, turn.outcome) for turn in turns] == [
            ("one", "completed"),
            ("two", "failed"),
            ("three", "completed"),
        ]


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("TURN-13", "CHATMEM-6", "TURN-2")
async def test_a_worker_whose_spool_could_not_be_replayed_is_recovered_when_the_ledger_is_back(tmp_path: Path) -> None:
    """Its death is noticed once, during the outage."""
    async with engine_on(tmp_path) as engine:
        asked = await engine.ask("thread", "one")
        other, dies, _ = await answering_elsewhere(tmp_path, asked.branch_id)
        spool = Spool(tmp_path / "ledger.db-spool", dies)
        held = ReplayedTurn(turn_id=new_id(), new=new_turn(asked.branch_id, "three", dies))
        await spool.append([written(held)])
        spool.close()
        with locked(tmp_path), engine.store.kept_away():  # type: ignore[attr-defined]
            await other.close()
            engine.worker_lease.found_dead.set()
            await until(lambda: not engine.worker_lease.found_dead.is_set())
        await back(engine)
        async with asyncio.timeout(30):
            outcomes: list[str | None] = []
            while outcomes != ["completed", "failed", "failed"]:
                await asyncio.sleep(0)
                outcomes = [turn.outcome for turn in await engine.store.turns.history(asked.branch_id)]


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("TURN-13", "CHATMEM-6", "TURN-2")
async def test_a_turn_that_was_taken_over_ends_though_its_branch_goes_on_from_memory_then(tmp_path: Path) -> None:
    """In memory the turn still belongs to the process that died."""
    async with engine_on(tmp_path) as engine:
        asked = await engine.ask("thread", "one")
        other, dies, left = await answering_elsewhere(tmp_path, asked.branch_id)
        await engine.store.turns.history(asked.branch_id)
        await other.close()
        taken = await engine.store.workers.take_over(dies, by=engine.worker_lease.worker.id)
        with locked(tmp_path), engine.store.kept_away():  # type: ignore[attr-defined]
            await engine.accept(asked.thread_id, "three")
            with pytest.raises(LedgerAway):
                await engine.store.turns.fail(left.id, dies, TurnEnd(outcome="failed", error=INTERRUPTED))
        engine._stages.recovery.taken_over.update(dict.fromkeys(taken.turns))
        async with asyncio.timeout(30):
            while engine.health().status != "ready":
                await engine._stages.recovery.recover(())  # as housekeeping does
                await asyncio.sleep(0)
        turn = await engine.store.turns.get(left.id)
        assert turn is not None
        assert turn.outcome == "failed"


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6", "TURN-2")
async def test_steps_that_cannot_be_read_are_not_reported_as_none(tmp_path: Path) -> None:
    """Otherwise recovery would end an interrupted turn without the text in the journal of its step."""
    async with engine_on(tmp_path) as engine:
        asked = await engine.ask("thread", "one")
        other, mine = open_store(tmp_path / "ledger.db"), engine.worker_lease.worker.id
        taken = await other.turns.accept(new_turn(asked.branch_id, "two", mine))
        await other.turns.prepare(taken.id, mine)
        await other.turns.open_step(taken.id, mine, new_step())
        with locked(tmp_path):
            await engine.accept(asked.thread_id, "three")
            with engine.store.kept_away(), pytest.raises(LedgerAway):  # type: ignore[attr-defined]
                await engine.store.turns.steps(taken.id)
        await other.turns.fail(taken.id, mine, TurnEnd(outcome="failed", error=INTERRUPTED))
        await other.close()


@pytest.mark.req("TURN-13", "CHATMEM-6")
async def test_a_session_that_is_spooled_during_a_replay_lands_before_its_turns(tmp_path: Path) -> None:
    """The spool of a live process grows while it is replayed."""
    store = open_store(tmp_path / "ledger.db")
    first, second = (NewSession(id=new_id(), branch_id=new_id()) for _ in range(2))
    turn_id = new_id()
    own = Spooled(sessions={str(first.id): first})

    class GrowsMeanwhile(CircuitBreaker):
        async def through(self, ask: Callable[[], Awaitable[T]], *, probing: bool = False) -> T:
            own.add(second)
            own.add(ReplayedTurn(turn_id=turn_id, new=new_turn(str(second.branch_id), "hello", None)))
            return await super().through(ask, probing=probing)

    writes = GrowsMeanwhile(store.blocked_seconds, lambda: None, 1.0)
    replay = Replay(tmp_path, guarded(store, writes, writes), own, Recent())
    await replay.run()
    assert await store.turns.get(turn_id) is None, "its session came too late for this replay"
    await replay.run()
    assert (await store.turns.get(turn_id)) is not None
    await store.close()


@pytest.mark.req("STREAM-3", "CHATMEM-6")
async def test_an_interrupted_turn_is_not_taken_over_before_its_spooled_calls_are_in_the_ledger(tmp_path: Path) -> None:
    """What it had shown is in the journals of these calls."""
    dead, store = new_id(), open_store(tmp_path / "ledger.db")
    branch = await new_branch(store)
    turn = await store.turns.accept(new_turn(branch.id, "one", dead))
    spool = Spool(tmp_path, dead)
    await spool.append([written(ReplayedTurn(turn_id=turn.id, begun=True, steps=(new_step(),)))])
    spool.close()
    replay = Replay(tmp_path, store, Spooled(), Recent())
    assert await replay.take_interrupted(dead, new_id()) == ()
    await replay.run()
    assert await replay.take_interrupted(dead, new_id()) == (turn.id,)
    await store.close()


@pytest.mark.req("CHATMEM-6")
async def test_a_ledger_that_is_away_does_not_stop_the_recovery_of_a_spool(tmp_path: Path) -> None:
    dead, store = new_id(), open_store(tmp_path / "ledger.db")
    spool = Spool(tmp_path, dead)
    await spool.append([written(ReplayedTurn(turn_id=new_id(), new=new_turn(new_id(), "hello", dead)))])
    spool.close()
    writes = CircuitBreaker(store.blocked_seconds, lambda: None, 1.0)
    writes.open(LedgerBusy("Another process holds the ledger."))
    replay = Replay(tmp_path, guarded(store, writes, writes), Spooled(), Recent())
    assert not await replay.retire(dead)
    assert await replay.take_interrupted(dead, new_id()) == ()
    assert spool.path.exists()
    await store.close()


@pytest.mark.req("TURN-13", "CHATMEM-6")
async def test_two_processes_that_replay_a_conversation_of_a_taken_id_both_find_it(tmp_path: Path) -> None:
    """The second one begins when the first one is about to create the conversation under another id."""
    store, branch_id, turn_id = open_store(tmp_path / "ledger.db"), new_id(), new_id()
    taken = await store.sessions.create(NewSession(id=new_id(), owner=Owner(user_id="who took the id")))
    spool = Spool(tmp_path, "gone")
    session = NewSession(id=taken.id, branch_id=branch_id, owner=Owner(user_id="me"))
    await spool.append([written(session), written(ReplayedTurn(turn_id=turn_id, new=new_turn(branch_id, "hello")))])
    spool.close()
    first, second = (Replay(tmp_path, store, Spooled(), Recent()) for _ in range(2))

    class Overtaken(Sessions):
        async def create(self, new: NewSession) -> Session:
            if new.id is None:
                store.sessions = sessions
                await second.run()
            return await sessions.create(new)

    sessions, store.sessions = store.sessions, Overtaken(store.database)
    assert await first.retire("gone")
    mine = await store.sessions.find(Owner(user_id="me"), taken.id)
    assert mine is not None
    assert first.moved == second.moved == {taken.id: mine.id}
    turn = await store.turns.get(turn_id)
    assert turn is not None
    assert turn.session_id == mine.id
    assert not spool.path.exists()
    assert not spool.path.with_suffix(".refused").exists()
    await store.close()
