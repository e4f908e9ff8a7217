"""A process that is killed while it deletes leaves a ledger that is whole, and a deletion that goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.compat.conversation_memory import ConversationMemory
from contextinfinity.engine.deleting import Cleaner
from contextinfinity.storage.sqlite.integrity import Inspection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.stores.deletions import chat, told

SCRIPT = """
import asyncio, pathlib, sys
from contextinfinity.storage.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(pathlib.Path(sys.argv[1]))
    print("opened", flush=True)
    while (removed := await getattr(store.deletions, sys.argv[3])(sys.argv[2], limit=4)).more:
        print(removed.turns, flush=True)
    while await store.deletions.sweep(steps=1):
        print("swept", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def prepared(path: Path, hours: float) -> tuple[str, str]:
    """Make a ledger with a session that is to go and one that stays."""
    store = SqliteStore(path)
    doomed = await chat(store, *(told(f"zygomorphic {n}", hours=hours) for n in range(60)))
    kept = await chat(store, *(told(f"heron {n}") for n in range(10)))
    await store.close()
    return doomed.id, kept.id


async def finished(path: Path) -> None:
    store = SqliteStore(path)
    assert (await Cleaner(store).clean_up()).errors == ()
    await store.close()


@pytest.mark.req("CHATMEM-4", "CHATMEM-5")
@pytest.mark.parametrize("lines", [0, 1, 3, 8, 14, 16])
@pytest.mark.parametrize(("verb", "hours"), [("delete", 0.0), ("expire", 30.0)])
def test_a_deletion_that_was_killed_goes_on_and_nothing_else_is_harmed(
    tmp_path: Path, verb: str, hours: float, lines: int
) -> None:
    path = tmp_path / "ledger.db"
    doomed, kept = asyncio.run(prepared(path, hours))
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), doomed, verb], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        for _ in range(lines + 1):
            running.stdout.readline()
        running.kill()
    asyncio.run(finished(path))
    if verb == "delete" and lines == 0:  # it may have been killed before it began
        with ConversationMemory(tmp_path) as memory:
            memory.delete_session(doomed)
    with ConversationMemory(tmp_path) as memory:
        assert memory.get_session_history(doomed) == []
        assert len(memory.get_session_history(kept)) == 10
        assert memory.store_turn(doomed, "local", "q", "r").turn_number == 61
        memory.delete_session(doomed)
    with Inspection(path) as inspection:
        assert not list(inspection.violations(dead=frozenset(), progress=lambda _what, _part: None))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file.name for file in files if b"zygomorphic" in file.read_bytes()]
