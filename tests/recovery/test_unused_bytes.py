"""Deleted text does not remain in the unused bytes of pages, and what is kept is not touched."""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.secure_erase import FRONT_BYTES, RANGE, Layout
from tests.recovery.deleting import holding

TALKS = 20


def say(talk: int, number: int, length: int) -> str:
    return f"said in talk {talk:02d} {number} " * length


def fill(connection: SqliteConnection, count: int, longest: int) -> None:
    """Write rows as a ledger gets them: added in order by many talks, and completed later, when the page is full."""
    rng = random.Random(count)
    connection.raw.execute(
        "CREATE TABLE IF NOT EXISTS said (id INTEGER PRIMARY KEY, talk INTEGER, text TEXT)"
    ).fetchall()
    for number in range(count):
        connection.raw.execute("INSERT INTO said (talk) VALUES (?)", (number % TALKS,)).fetchall()
        late = max(1, number + 1 - rng.randrange(6))
        text = say((late - 1) % TALKS, late, rng.randint(2, longest))
        connection.raw.execute("UPDATE said SET text = ? WHERE id = ?", (text, late)).fetchall()


def read(connection: SqliteConnection) -> list[tuple[object, ...]]:
    return list(connection.raw.execute("SELECT id, talk, text FROM said ORDER BY id"))


def rewrite(connection: SqliteConnection) -> None:
    connection.raw.execute("UPDATE said SET talk = talk").fetchall()


def delete(connection: SqliteConnection, talk: int) -> None:
    connection.raw.execute("DELETE FROM said WHERE talk = ?", (talk,)).fetchall()
    connection.execute("soil_log")


async def sweep(database: SqliteDatabase) -> None:
    while await database.sweep(16):
        pass
    assert await database.is_wiped()


def special_pages(connection: SqliteConnection) -> tuple[set[int], set[int]]:
    """Find the pages that belong to no table, in two ways; there must be no free pages."""
    (_, front), count = connection.raw.read("main", 0, 0, FRONT_BYTES), connection.raw.execute("PRAGMA page_count").get
    layout, pages = Layout(front), set(range(1, count + 1))
    used = {page for (page,) in connection.raw.execute("SELECT pageno FROM dbstat")}
    return pages - used, set(filter(layout.is_special, pages))


def integrity(folder: Path) -> str:
    with closing(apsw.Connection(str(folder / "ledger.db"))) as connection:
        return str(connection.execute("PRAGMA integrity_check").get)


@pytest.mark.req("SAFE-8", "SAFE-4")
async def test_no_copy_of_a_deleted_row_remains_where_sqlite_moved_rows(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "ledger.db")
    await database.write(lambda connection: fill(connection, 400, 60))
    for talk in range(TALKS - 1):
        await database.write(partial(delete, talk=talk))
        await sweep(database)
        assert [word for gone in range(talk + 1) if holding(tmp_path, word := f"talk {gone:02d}")] == []
        assert holding(tmp_path, f"talk {talk + 1:02d}") == ["ledger.db"]
    database.close()
    assert integrity(tmp_path) == "ok"


@pytest.mark.req("SAFE-8")
async def test_rows_that_are_kept_are_unchanged_in_a_file_of_several_ranges(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "ledger.db")
    await database.write(lambda connection: fill(connection, 3000, 160))
    kept = [row for row in await database.read(read) if row[1] != 3]
    await database.write(lambda connection: delete(connection, 3))
    await sweep(database)
    assert (tmp_path / "ledger.db").stat().st_size > 2 * RANGE * 4096
    assert await database.read(read) == kept
    assert holding(tmp_path, "talk 03") == []
    maps, special = await database.read(special_pages)
    assert maps == special
    assert len(maps) > 1
    database.close()
    assert integrity(tmp_path) == "ok"


@pytest.mark.req("SAFE-8")
async def test_another_process_does_not_write_the_overwritten_bytes_again(tmp_path: Path) -> None:
    """It had the pages in its cache before they were overwritten."""
    path = tmp_path / "ledger.db"
    database, other = SqliteDatabase(path), SqliteDatabase(path)
    await database.write(lambda connection: fill(connection, 400, 60))
    for talk in range(10):
        await other.write(rewrite)
        await database.write(partial(delete, talk=talk))
        await other.write(read)
        await sweep(database)
        await other.write(
            lambda connection: connection.raw.execute("UPDATE said SET talk = talk").fetchall(), wipe=True
        )
        assert [word for gone in range(talk + 1) if holding(tmp_path, word := f"talk {gone:02d}")] == []
    database.close()
    other.close()


@pytest.mark.req("SAFE-8")
async def test_a_deletion_in_the_meantime_begins_the_overwriting_again(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "ledger.db")
    await database.write(lambda connection: fill(connection, 3000, 160))
    await database.write(lambda connection: delete(connection, 1))
    while await database.write(lambda connection: connection.one("select_stale")) in ((1,), (2,), (3,)):
        await database.sweep(1)
    assert not await database.is_wiped()  # some of its pages are overwritten
    await database.write(lambda connection: delete(connection, 2))
    assert await database.read(lambda connection: connection.one("select_stale")) == (3,)
    await sweep(database)
    assert [word for gone in (1, 2) if holding(tmp_path, word := f"talk {gone:02d}")] == []
    database.close()
    assert integrity(tmp_path) == "ok"
