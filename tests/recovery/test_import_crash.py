"""An import is killed in the middle and done again: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.domain.session import Owner
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.sqlite.store import SqliteStore

ROOT = Path(__file__).resolve().parents[2]
SIZE = 12_000

DOOMED = """
import asyncio, os, sys
from pathlib import Path
from contextinfinity.domain.session import Owner
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.sqlite.store import SqliteStore

def progress(read, messages):
    print(messages, flush=True)

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await import_file(store, Path(sys.argv[2]), owner=Owner(), progress=progress)
asyncio.run(main())
"""


def record(n: int, ids: bool) -> dict[str, object]:
    role = ("user", "assistant", "user", "user", "assistant")[n % 5]
    named = {"id": f"m{n}"} if ids else {}
    return {"role": role, "content": f"words {n % 7}" if not ids else f"words {n}", "created_at": n, **named}


async def said(path: Path) -> list[tuple[str, str]]:
    """Read all that the one conversation of a ledger holds."""
    store = SqliteStore(path)
    (session,) = await store.sessions.list(Owner())
    turns = await store.turns.history(session.active_branch, limit=SIZE)
    await store.close()
    sides = [side for turn in turns for side in (turn.user_message, turn.answer) if side is not None]
    return [(side.role, side.rendered_text) for side in sides]


@pytest.mark.req("TURN-9", "LEDGER-6")
@pytest.mark.parametrize("ids", [True, False])
async def test_an_import_killed_in_the_middle_is_done_by_importing_again(quick_folder: Path, ids: bool) -> None:
    source, ledger = quick_folder / "talk.jsonl", quick_folder / "data" / "ledger.db"
    records = [record(n, ids) for n in range(SIZE)]
    source.write_text("".join(json.dumps(each) + "\n" for each in records), "utf-8")
    acknowledged = [0]
    for batches in (1, 3, 5):
        acknowledged.append(await asyncio.to_thread(_killed_after, batches, ledger, source))
    assert acknowledged == sorted(acknowledged)
    before = await said(ledger)
    assert len(before) < SIZE
    store = SqliteStore(ledger)
    (done,) = (await import_file(store, source, owner=Owner())).sessions
    await store.close()
    assert (done.messages, done.skipped) == (SIZE, len(before))
    assert done.skipped >= acknowledged[-1]
    assert await said(ledger) == [(each["role"], each["content"]) for each in records]


def _killed_after(batches: int, ledger: Path, source: Path) -> int:
    """Import in another process and kill it once it has told of that many batches more; give how many messages."""
    command = [sys.executable, "-c", DOOMED, str(ledger), str(source)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(batches)]
        process.kill()
    return told[-1]
