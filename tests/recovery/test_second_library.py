"""A second SQLite library in the process: the locks are gone, and that is noticed before anything is lost."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import LedgerAway, LedgerUnlocked
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.recovery.deleting import engine_on as full_engine_on
from tests.recovery.outages import engine_on, said, until

WHY = "second SQLite library in this process"
WRITE = (
    "import sqlite3, sys; there = sqlite3.connect(sys.argv[1]);"
    'there.execute("INSERT INTO conversation_turns (session_id, user_id, query_text, response_text)'
    " VALUES ('00000000-0000-7000-8000-000000000001', 'local', 'meanwhile', 'yes')\"); there.commit(); there.close()"
)


def look_with_another_library(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("SELECT count(*) FROM turn").fetchall()
    other.close()


async def test_a_ledger_whose_locks_were_dropped_takes_no_more_and_says_why(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    kept = await store.sessions.create(NewSession(title="before"))
    assert store.health().status == "ready"
    look_with_another_library(ledger_path)
    with pytest.raises(LedgerUnlocked, match=WHY):
        await store.sessions.create(NewSession())
    with pytest.raises(LedgerUnlocked, match=WHY):
        await store.sessions.get(kept.id)
    assert (store.health().status, WHY in store.health().reason) == ("degraded", True)
    subprocess.run([sys.executable, "-c", WRITE, str(ledger_path)], check=True)
    await store.close()
    again = SqliteStore(ledger_path)
    assert len(await again.sessions.list(Owner())) == 2, "what another process wrote meanwhile is there too"
    await again.close()


async def test_a_second_store_of_ours_in_the_process_costs_no_lock(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    await SqliteStore(ledger_path).close()
    subprocess.run([sys.executable, "-c", WRITE, str(ledger_path)], check=True)  # closes it, and is not the last to
    await store.sessions.create(NewSession(title="after"))
    assert (len(await store.sessions.list(Owner())), store.health().status) == (2, "ready")
    await store.close()


@pytest.mark.req("CHATMEM-6")
async def test_an_engine_goes_on_without_it_and_the_next_start_writes_what_was_held(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        first = await engine.ask("new", "before")
        assert await engine.job_runner.drain(100)
        look_with_another_library(tmp_path / "ledger.db")
        second = await engine.ask(first.thread_id, "meanwhile")
        assert (second.outcome, second.durability) == ("completed", "local"), second.error
        assert WHY in engine.health().reason
        with pytest.raises(LedgerAway, match="Restart this process"):
            await engine.delete(first.thread_id)
    async with engine_on(tmp_path) as engine:
        await until(lambda: engine.health().spool_depth == 0)
        assert [question for _, question, _ in await said(engine, first.thread_id)] == ["before", "meanwhile"]


@pytest.mark.req("SAFE-8")
async def test_a_deletion_that_searches_the_bytes_of_all_files_keeps_the_locks(tmp_path: Path) -> None:
    """The files are read while the ledger is open; another process that closes it is not the last one."""
    async with full_engine_on(tmp_path) as engine:
        first = await engine.ask("new", "This conversation will be deleted.")
        session = await engine.session(first.thread_id)
        deleted = await engine.deleting.conversation(session, scan="files")
        assert {place.place for place in deleted.places} > {"ledger file", "write-ahead log"}
        subprocess.run([sys.executable, "-c", WRITE, str(tmp_path / "ledger.db")], check=True)
        assert (await engine.ask("new", "after")).outcome == "completed"
        assert engine.health().status == "ready"
