"""A fresh process that opens a ledger and reads the last turns of its long session: ``ours`` or ``raw``.

Run by the benchmark ``opening``; prints how many turns it read, and what took how long.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path


async def ours(path: Path) -> dict[str, float]:
    """Through the store, its imports included."""
    began = time.perf_counter()
    from contextinfinity.domain.session import Owner
    from contextinfinity.storage.sqlite.store import SqliteStore

    imported = time.perf_counter()
    store = SqliteStore(path)
    opened = time.perf_counter()
    session = await store.sessions.find(Owner(), "long")
    assert session is not None
    turns = await store.turns.history(session.active_branch, limit=10)
    read = time.perf_counter()
    return {"turns": len(turns), "import": imported - began, "open": opened - imported, "read": read - opened}


async def raw(path: Path) -> dict[str, float]:
    """Through SQLite alone."""
    began = time.perf_counter()
    import apsw

    imported = time.perf_counter()
    connection = apsw.Connection(str(path))
    opened = time.perf_counter()
    turns = connection.execute(
        """SELECT t.id, t.turn_seq, u.text, a.text FROM session AS s JOIN turn AS t ON t.branch_id = s.active_branch
        JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
        WHERE s.org_id = '' AND s.user_id = 'local' AND s.external_id = 'long' ORDER BY t.turn_seq DESC LIMIT 10"""
    ).fetchall()
    read = time.perf_counter()
    return {"turns": len(turns), "import": imported - began, "open": opened - imported, "read": read - opened}


if __name__ == "__main__":
    print(json.dumps(asyncio.run({"ours": ours, "raw": raw}[sys.argv[1]](Path(sys.argv[2])))), flush=True)
