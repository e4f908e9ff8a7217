"""Several processes on one file: nothing lost, nothing doubled, no process stalled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.domain.session import NewSession
from contextinfinity.storage.sqlite.store import SqliteStore

WRITER = """
import asyncio, json, pathlib, sys
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_turn

async def main(path, branch, name, count):
    store = SqliteStore(pathlib.Path(path))
    for number in range(int(count)):
        turn = await store.turns.accept(new_turn(branch, f"{name} {number}"))
        print(json.dumps([turn.turn_seq, turn.id, f"{name} {number}"]), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("THREAD-10", "TURN-2")
async def test_processes_that_write_to_one_branch_lose_and_double_nothing(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    session = await ledger.sessions.create(NewSession())
    arguments = [str(ledger_path), session.active_branch]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, *arguments, name, "50"], stdout=subprocess.PIPE, text=True)
        for name in ("ada", "bob", "cyd", "dan")
    ]
    told = [json.loads(line) for writer in writers for line in writer.communicate()[0].splitlines()]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    kept = await ledger.turns.history(session.active_branch, limit=1000)
    assert [[turn.turn_seq, turn.id, turn.user_message.rendered_text] for turn in kept] == sorted(told)
    assert [turn.turn_seq for turn in kept] == list(range(1, 201))
    for name in ("ada", "bob", "cyd", "dan"):
        own = [turn.user_message.rendered_text for turn in kept if turn.user_message.rendered_text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(50)], "each writer's own order is kept"


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("TURN-9", "TURN-2")
async def test_a_writer_that_is_killed_loses_nothing_it_was_told_of(ledger: SqliteStore, ledger_path: Path) -> None:
    session = await ledger.sessions.create(NewSession())
    arguments = [str(ledger_path), session.active_branch, "eve", "1000000"]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [json.loads(writer.stdout.readline()) for _ in range(100)]
    writer.kill()
    rest = [json.loads(line) for line in writer.communicate()[0].splitlines() if line.endswith("]")]
    kept = await ledger.turns.history(session.active_branch, limit=1_000_000)
    heard = [turn_id for _, turn_id, _ in told + rest]
    assert [turn.id for turn in kept][: len(heard)] == heard
    assert len(kept) - len(heard) <= 1, "at most the one that was durable and not yet told"
