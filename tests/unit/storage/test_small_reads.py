"""Small questions are answered where they are asked, unless that would mean to wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from contextinfinity.errors import LedgerClosed, NotFound
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.named_sql import SqliteConnection


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """A ledger file."""
    made = SqliteDatabase(tmp_path / "ledger.db")
    yield made
    made.close()


def thread_of(connection: SqliteConnection) -> int:
    """Tell in which thread a question is answered, after one of the file."""
    assert connection.raw.execute("SELECT count(*) FROM session").get == 0
    return threading.get_ident()


async def test_a_small_question_is_answered_in_the_thread_that_asks_and_a_large_one_in_another(
    database: SqliteDatabase,
) -> None:
    assert await database.look(thread_of) == threading.get_ident()
    assert await database.read(thread_of) != threading.get_ident()


async def test_a_question_that_would_have_to_wait_goes_to_a_thread(database: SqliteDatabase) -> None:
    here = threading.get_ident()

    def held_by_another(connection: SqliteConnection) -> int:
        if threading.get_ident() == here:
            raise apsw.BusyError("another process holds the whole file")
        return thread_of(connection)

    assert await database.look(held_by_another) != here


async def test_a_question_of_another_thread_at_the_same_moment_goes_to_a_reader(database: SqliteDatabase) -> None:
    here, there = threading.get_ident(), list[int]()

    def meanwhile(connection: SqliteConnection) -> int:
        other = threading.Thread(target=lambda: there.append(asyncio.run(database.look(thread_of))))
        other.start()
        other.join()
        return thread_of(connection)

    assert await database.look(meanwhile) == here
    assert there[0] != here


async def test_a_question_that_fails_leaves_the_next_one_its_connection(database: SqliteDatabase) -> None:
    def wrong(connection: SqliteConnection) -> int:
        raise NotFound("There is no such thing.")

    with pytest.raises(NotFound):
        await database.look(wrong)
    assert await database.look(thread_of) == threading.get_ident()


async def test_a_closed_ledger_says_so_here_too(database: SqliteDatabase) -> None:
    await database.look(thread_of)
    database.close()
    with pytest.raises(LedgerClosed):
        await database.look(thread_of)
