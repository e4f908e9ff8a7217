"""Deleting, the copies of a process that goes on without its ledger, and memories: what is gone stays gone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.engine.deleting import Cleaner
from contextinfinity.engine.engine_setup import Remembering, Setup
from contextinfinity.errors import LedgerAway, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity_testing.builders import exchange
from contextinfinity_testing.stores.deletions import TTL, chat, told
from tests.ledgers import open_store
from tests.recovery.outages import SOON, back, engine_on, locked, until
from tests.scenarios.desk import Desk

PRIVATE = "zygomorphic"


LATER = Bounds(patience=0.05, first_pause=3600)
"""What is held waits until it is replayed."""


def standby(folder: Path, bounds: Bounds = SOON) -> StandbyStore:
    return StandbyStore(open_store(folder / "ledger.db", patience=0.5), folder / "ledger.db-spool", bounds)


async def came_back(store: StandbyStore) -> None:
    """Let all calls through to the ledger again, as a probe does."""
    await until(lambda: store.blocked_seconds() == 0)
    store._held.writes.close()


async def said(store: Store, branch_id: str) -> list[str]:
    return [turn.user_message.rendered_text for turn in await store.turns.history(branch_id)]


def holds(folder: Path, word: str) -> list[str]:
    """Name the files that hold a word."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes()]


# --- copies ---


@pytest.mark.req("CHATMEM-4")
async def test_a_deleted_conversation_is_not_shown_from_a_copy_nor_goes_on_in_one(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask("mine", "before")
        session = await engine.session("mine")
        await engine.job_runner.drain(5)
        await engine.delete("mine")
        assert isinstance(engine.store, StandbyStore)
        with locked(tmp_path), engine.store.kept_away("The disk gives nothing back."):
            with pytest.raises(LedgerAway):
                await engine.session(session.id)
            with pytest.raises(LedgerAway):
                await engine.store.turns.history(session.active_branch)
            with pytest.raises(LedgerAway):
                await engine.store.states.head(session.active_branch)
            new = await engine.ask("mine", "another one")
            assert new.thread_id != session.id
        await back(engine)
        assert (await engine.session("mine")).id == new.thread_id
        with pytest.raises(NotFound):
            await engine.session(session.id)


@pytest.mark.req("CHATMEM-4")
async def test_one_that_another_process_deleted_is_forgotten_when_it_is_asked_for(tmp_path: Path) -> None:
    store, other = standby(tmp_path), standby(tmp_path)
    session = await chat(store, told("a"))
    await Cleaner(other).delete(session.id)
    assert await store.sessions.get(session.id) is None
    with locked(tmp_path), store.kept_away(), pytest.raises(LedgerAway):
        await store.turns.history(session.active_branch)
    await until(lambda: store.health().status == "ready")
    for each in (store, other):
        await each.close()


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-4")
async def test_what_is_held_of_a_conversation_lands_and_is_deleted_with_it(tmp_path: Path) -> None:
    store = standby(tmp_path, LATER)
    session = await chat(store, told("before"))
    with locked(tmp_path):
        await store.turns.record(session.active_branch, [told(PRIVATE)])
        with pytest.raises(LedgerAway):
            await store.deletions.delete(session.id)
    await came_back(store)
    assert await Cleaner(store).delete(session.id) == 2
    assert store.health().status == "ready"
    with pytest.raises(NotFound):
        await store.deletions.delete(session.id)
    await store.close()
    assert holds(tmp_path, PRIVATE) == []


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-4", "CHATMEM-6")
async def test_what_landed_and_was_deleted_does_not_come_back_from_a_spool(tmp_path: Path) -> None:
    store = standby(tmp_path, LATER)
    session = await chat(store, told("before"))
    with locked(tmp_path):
        await store.turns.record(session.active_branch, [told(PRIVATE)])
    (spool,) = (tmp_path / "ledger.db-spool").iterdir()
    records = spool.read_bytes()
    await came_back(store)
    await Cleaner(store).delete(session.id)
    await store.close()
    spool.write_bytes(records)  # as if its process had been killed before it could remove it
    store = standby(tmp_path)
    await store.replay_left_spools()
    assert await store.sessions.get(session.id) is None
    await store.close()
    assert holds(tmp_path, PRIVATE) == []


@pytest.mark.req("CHATMEM-4", "CHATMEM-6")
async def test_numbers_go_on_after_those_that_were_deleted(tmp_path: Path) -> None:
    store = standby(tmp_path)
    gone = await chat(store, told("a"), told("b"), told("c"))
    await Cleaner(store).delete(gone.id)
    again = await store.sessions.create(NewSession(id=gone.id, kind="chat"))
    gaps = await chat(store, told("a"), told("b", hours=TTL + 1), told("c"))
    await store.deletions.expire(gaps.id)
    with locked(tmp_path):
        held = [await store.turns.record(each.active_branch, [told("held")]) for each in (again, gaps)]
        assert [turn.turn_seq for (turn,) in held] == [4, 4]
        assert await said(store, gaps.active_branch) == ["a", "c", "held"]
    await until(lambda: store.health().status == "ready")
    for each, places in ((again, [4]), (gaps, [1, 3, 4])):
        assert [turn.turn_seq for turn in await store.turns.history(each.active_branch)] == places
    await store.close()


@pytest.mark.sqlite_file("it locks the file")
async def test_wiping_out_what_was_deleted_beside_somebody_who_reads_is_no_outage(tmp_path: Path) -> None:
    store = standby(tmp_path)
    session, kept = await chat(store, told("a")), await chat(store, told("b"))
    reader = connect(str(tmp_path / "ledger.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM session").fetchall()
    deleting = asyncio.create_task(Cleaner(store).delete(session.id))
    while not deleting.done():
        await store.turns.record(kept.active_branch, [told("meanwhile")])
    assert await deleting == 1
    assert store.health().status == "ready"
    reader.close()
    await store.close()
    assert not (tmp_path / "ledger.db-spool").exists()


# --- time to live ---


@pytest.mark.req("CHATMEM-4")
async def test_what_is_past_its_time_is_not_shown_while_the_ledger_is_away(tmp_path: Path) -> None:
    store = standby(tmp_path)
    session = await chat(store, told("older", hours=TTL + 1), told("younger", hours=TTL - 1))
    branch = session.active_branch
    assert await said(store, branch) == ["younger"]
    with locked(tmp_path), store.kept_away():
        assert await said(store, branch) == ["younger"]
        await store.turns.record(branch, [told("held, of long ago", hours=TTL + 1), told("held")])
        assert await said(store, branch) == ["younger", "held"]
    await until(lambda: store.health().status == "ready")
    assert await said(store, branch) == ["younger", "held"]
    assert (await Cleaner(store).clean_up()).turns_deleted == 2
    await store.close()


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-4")
async def test_a_summary_of_what_is_past_its_time_is_not_given_from_a_copy(tmp_path: Path) -> None:
    store = standby(tmp_path)
    session = await chat(store, told(PRIVATE, hours=TTL + 1), told("younger"))
    branch = session.active_branch
    draft = StateDraft(branch_id=branch, reason="fold", summary=f"of {PRIVATE}", covers_turn_seq=1)
    await store.states.commit(draft, expected_head=None)
    raw = connect(str(tmp_path / "ledger.db"))
    long_ago = (now() - timedelta(hours=TTL + 2)).timestamp() * 1000
    raw.execute("UPDATE session SET created_at = ?", (int(long_ago),))
    raw.close()
    with locked(tmp_path):
        await store.turns.record(branch, [told("held")])
        head = await store.states.head(branch)
        assert (head.summary, head.covers_turn_seq) == ("", 0)
        assert await said(store, branch) == ["younger", "held"]
    await until(lambda: store.health().status == "ready")
    await store.close()


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-4", "CHATMEM-5", "CHATMEM-6")
async def test_a_chat_that_has_expired_but_for_what_is_held_stays(tmp_path: Path) -> None:
    store = standby(tmp_path, LATER)
    session = await chat(store, told("old", hours=TTL + 1))
    with locked(tmp_path):
        await store.turns.record(session.active_branch, [told("held")])
        with pytest.raises(LedgerAway):
            await store.deletions.expire(session.id)
    await came_back(store)
    result = await Cleaner(store).clean_up()
    assert (result.sessions_deleted, result.turns_deleted, result.errors) == (0, 1, ())
    assert await said(store, session.active_branch) == ["held"]
    await store.close()


async def test_where_nothing_expires_that_is_said_without_the_ledger(tmp_path: Path) -> None:
    store = standby(tmp_path)
    session = await store.sessions.create(NewSession())
    with locked(tmp_path), store.kept_away():
        assert (await store.deletions.expire(session.id)).turns == 0
        await store.turns.record(session.active_branch, [exchange("held", "x")])
        assert (await store.deletions.expire(session.id)).turns == 0
    await until(lambda: store.health().status == "ready")
    await store.close()


# --- memories ---


def dumped(path: Path) -> str:
    """Return all rows of all tables."""
    raw = connect(str(path))
    names = [row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    rows = [str(raw.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names]
    raw.close()
    return "\n".join(rows)


@pytest.mark.req("CHATMEM-4", "MEMORY-5")
async def test_what_was_remembered_of_a_conversation_goes_with_it(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(remembering=Remembering())) as desk:
        await desk.ask("I live in Xanadupolis and I'm allergic to zygomorphs.")
        await desk.settle()
        doomed, desk.thread = desk.thread, "new"
        turn = await desk.ask("What shall I do tonight?")
        await desk.settle()
        assert "Xanadupolis" in "\n".join(desk.prompts[-1].system)
        await desk.engine.memories.add(Owner(), "Xanadupolis has a harbour.", thread=doomed)
        assert len(await desk.engine.memories.list(Owner(), thread=doomed)) > 0
        await desk.engine.delete(doomed)
        assert await desk.engine.memories.list(Owner()) == ()
        with pytest.raises(NotFound):
            await desk.engine.memories.list(Owner(), thread=doomed)
        explained = await desk.engine.explain(turn)
        assert not explained.matches
        await desk.ask("And tomorrow?")
        assert "Xanadupolis" not in "\n".join((*desk.prompts[-1].system, *(text for _, text in desk.shown)))
    for word in ("xanadupolis", "zygomorph"):
        assert word not in dumped(tmp_path / "ledger.db").lower()
        assert holds(tmp_path, word) + holds(tmp_path, word.title()) == []
