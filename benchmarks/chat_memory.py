"""Document D's figures: storing a turn, reading a history, a clean-up, and what a ledger that is away costs.

All of it on a copy of the largest ledger. Before the clean-up, chats of 20 turns that are past their time are added;
the deletions per second are shown too, because how much has expired by then is the owner's affair.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from datetime import timedelta
from pathlib import Path

from benchmarks.content import ANSWER, QUESTION
from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import ledger
from benchmarks.words import text
from contextinfinity import ConversationMemory
from contextinfinity.domain.ids import now
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Exchange
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore

EXPIRED = 10_000
"""Turns that are past their time, at most a tenth of all."""
CHAT = 20
STORE_MS, HISTORY_MS, CLEANUP_MS, AWAY_MS = 100.0, 200.0, 5_000.0, 50.0


async def run(bench: Bench) -> list[Row]:
    """Measure everything on one copy."""
    turns, calls = bench.scale.ledgers[-1], bench.scale.blocks * bench.scale.reads
    source = await ledger(bench, turns)
    with bench.scratch() as folder:
        path = folder / "ledger.db"
        await asyncio.to_thread(shutil.copyfile, source, path)
        with ConversationMemory(folder) as memory:
            rows = _calls(memory, calls, turns)
            expired = await _add_expired(path, min(EXPIRED, turns // 10))  # now: opening deletes what has expired
            rows += _cleanup(memory, expired, turns)
        rows.append(_away(folder, calls))
    return rows


async def _add_expired(path: Path, turns: int) -> int:
    store, then = SqliteStore(path), now() - timedelta(hours=30)
    rng, chats = random.Random(3), max(turns // CHAT, 1)
    for _ in range(chats):
        session = await store.sessions.create(NewSession(kind="chat", ttl_hours=24))
        pairs = [(say("user", text(rng, QUESTION)), say("assistant", text(rng, ANSWER))) for _ in range(CHAT)]
        said = [Exchange(message=query, answer=response, created_at=then) for query, response in pairs]
        await store.turns.record(session.active_branch, said)
    await store.close()
    return chats * CHAT


def _calls(memory: ConversationMemory, calls: int, turns: int) -> list[Row]:
    storing, reading, rng = Series(), Series(), random.Random(4)
    session_id = memory.create_session("bench")
    for _ in range(calls):
        query, response = text(rng, QUESTION), text(rng, ANSWER)
        with storing.timed():
            memory.store_turn(session_id, "bench", query, response)
        with reading.timed():
            memory.get_session_history(session_id)
    return [
        _row(f"store_turn, {turns:,} turns stored", storing, STORE_MS),
        _row(f"get_session_history of up to 50, {turns:,} turns stored", reading, HISTORY_MS),
    ]


def _cleanup(memory: ConversationMemory, expired: int, turns: int) -> list[Row]:
    result = memory.cleanup_old_conversations()
    assert (result.turns_deleted, result.errors) == (expired, ()), result
    took, idle = result.execution_time * 1000, Series()
    for _ in range(5):
        with idle.timed():
            memory.cleanup_old_conversations()
    what = f"clean-up of {expired:,} expired turns, {turns:,} others stored"
    values = {"cleanup_ms": took, "turns_per_s": expired / result.execution_time}
    measured = f"{took:,.0f} ms, {values['turns_per_s']:,.0f} turns a second"
    figure = f"< {CLEANUP_MS:,.0f} ms"
    return [
        Row(what=what, result=measured, target=figure, met=took < CLEANUP_MS, values=values),
        Row(what="the next clean-up, with nothing to delete", result=str(idle), values={"idle_ms": idle.p50}),
    ]


def _away(folder: Path, calls: int) -> Row:
    """Store turns while another process holds the lock; the first call, which finds out, is not counted."""
    held = Series()
    memory = ConversationMemory(folder)
    session_id = memory.create_session("bench")
    lock = connect(str(folder / "ledger.db"))
    lock.execute("BEGIN IMMEDIATE")
    query, response = text(random.Random(5), QUESTION), text(random.Random(6), ANSWER)
    memory.store_turn(session_id, "bench", query, response)
    for _ in range(min(calls, 900)):
        with held.timed():
            memory.store_turn(session_id, "bench", query, response)
            memory.get_session_history(session_id)
    lock.execute("ROLLBACK")
    lock.close()
    memory.close()
    return _row("store_turn and history while the ledger is unavailable", held, AWAY_MS)


def _row(what: str, series: Series, limit: float) -> Row:
    values = {"p50_ms": series.p50, "p95_ms": series.p95}
    return Row(what=what, result=str(series), target=f"p95 < {limit:g} ms", met=series.p95 < limit, values=values)
