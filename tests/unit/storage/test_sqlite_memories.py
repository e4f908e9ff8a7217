from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import NewSession
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity_testing.builders import answer_turn, embedding, new_branch
from contextinfinity_testing.stores.memories import ANN, fact, said
from tests.ledgers import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.req("MEMORY-4", "SAFE-4")
async def test_a_deleted_turn_takes_along_what_nobody_else_said(path: Path) -> None:
    store = open_store(path)
    branch = await new_branch(store, NewSession(owner=ANN))
    turn, _ = await said(store, branch, fact("The user owns a zeppelin."), fact("The user likes tea."))
    other, _ = await said(store, branch, fact("The user likes tea.", day=1))

    def delete(given: SqliteConnection) -> None:
        connection = given.raw
        connection.execute("INSERT INTO deletion VALUES (?, 'test', 0)", (pack(branch.session_id),))
        for table in ("retrieval", "plan", "job"):
            connection.execute(f"DELETE FROM {table} WHERE turn_id = ?", (pack(turn.id),))
        steps = "SELECT id FROM step WHERE turn_id = ?"
        connection.execute(f"DELETE FROM response WHERE step_id IN ({steps})", (pack(turn.id),))
        connection.execute("DELETE FROM step WHERE turn_id = ?", (pack(turn.id),))
        connection.execute("DELETE FROM turn WHERE id = ?", (pack(turn.id),))
        connection.execute("DELETE FROM deletion")

    await store.database.write(delete)
    (left,) = await store.memories.list(ANN, superseded=True)
    assert (left.content, left.source_turn) == ("The user likes tea.", other.id)
    words = await store.database.read(
        lambda connection: connection.raw.execute("SELECT term FROM memory_word").fetchall()
    )
    assert ("zeppelin",) not in words
    await store.close()


@pytest.mark.req("MEMORY-5", "SAFE-4")
async def test_nothing_of_a_forgotten_text_is_left_in_any_file(path: Path) -> None:
    store = open_store(path)
    branch = await new_branch(store, NewSession(owner=ANN))
    turn = await answer_turn(store, branch.id, "hello")
    vector = embedding("toy", *range(1, 60))
    (kept,) = await store.memories.replace_extracted(turn.id, [fact("The user owns a zeppelin.", vector=vector)])
    assert any(b"zeppelin" in file.read_bytes() for file in path.parent.glob("ledger*"))
    await store.memories.forget(ANN, [kept.id])
    await store.close()
    connect(str(path)).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for file in path.parent.glob("ledger*"):
        assert b"zeppelin" not in file.read_bytes(), file
        assert vector.values not in file.read_bytes(), file


@pytest.mark.req("MEMORY-5")
async def test_that_a_memory_was_placed_is_written_once_an_hour(path: Path) -> None:
    store = open_store(path)
    kept = await store.memories.add(fact("The user likes tea."))
    moment = now()
    for minutes in (0, 30, 59, 90):
        await store.memories.placed(ANN, [kept.id], moment + timedelta(minutes=minutes))
    (placed,) = await store.memories.read(ANN, [kept.id])
    assert placed.last_placed_at is not None
    assert abs(placed.last_placed_at - moment - timedelta(minutes=90)) < timedelta(seconds=1)
    changes = await store.database.read(lambda connection: connection.raw.execute("SELECT count(*) FROM memory").get)
    assert changes == 1
    await store.close()
