"""The writer: grouped commits, failures that stay with their piece, closing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from contextinfinity.errors import LedgerBusy, LedgerClosed
from contextinfinity.storage.sqlite import connection as connections
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.writer import LONG_LOG, Writer


@pytest.fixture
def writer(ledger_path: Path) -> Iterator[Writer]:
    connection = connect(str(ledger_path))
    connection.execute("CREATE TABLE said (word TEXT UNIQUE)")
    writer = Writer(connection, str(ledger_path))
    yield writer
    writer.close()


def say(writer: Writer, word: str) -> Future[None]:
    def work(connection: SqliteConnection) -> None:
        connection.raw.execute("INSERT INTO said VALUES (?)", (word,))

    return writer.submit(work)


def said(path: Path) -> list[str]:
    return [word for (word,) in connect(str(path)).execute("SELECT word FROM said ORDER BY rowid")]


def held(writer: Writer) -> threading.Event:
    """Keep the writer inside a piece until the event is set, so that what follows waits together."""
    release = threading.Event()
    inside = threading.Event()

    def wait(_: SqliteConnection) -> None:
        inside.set()
        release.wait()

    writer.submit(wait)
    inside.wait()
    return release


def test_waiting_writes_share_one_commit(writer: Writer, ledger_path: Path) -> None:
    commits: list[int] = []

    def committing() -> bool:
        commits.append(1)
        return False  # go ahead

    writer.submit(lambda connection: connection.raw.set_commit_hook(committing)).result()
    release = held(writer)
    pieces = [say(writer, str(number)) for number in range(100)]
    release.set()
    for piece in pieces:
        piece.result()
    assert len(commits) == 2, "the commit that set the hook, and one for the hundred that waited"
    assert said(ledger_path) == [str(number) for number in range(100)]


def test_a_write_is_told_only_after_its_commit(writer: Writer, ledger_path: Path) -> None:
    for number in range(20):
        say(writer, str(number)).result()
        assert said(ledger_path)[-1] == str(number), "another connection sees what was acknowledged"


def test_a_piece_that_fails_is_rolled_back_alone(writer: Writer, ledger_path: Path) -> None:
    def half_done(connection: SqliteConnection) -> None:
        connection.raw.execute("INSERT INTO said VALUES ('half')")
        raise LookupError("changed my mind")

    release = held(writer)
    before, failing, after = say(writer, "before"), writer.submit(half_done), say(writer, "after")
    release.set()
    before.result()
    after.result()
    with pytest.raises(LookupError, match="changed my mind"):
        failing.result()
    assert said(ledger_path) == ["before", "after"]


def test_a_write_whose_caller_left_before_it_began_is_not_done(writer: Writer, ledger_path: Path) -> None:
    release = held(writer)
    left, stayed = say(writer, "left"), say(writer, "stayed")
    assert left.cancel()
    release.set()
    stayed.result()
    with pytest.raises(CancelledError):
        left.result()
    assert said(ledger_path) == ["stayed"]


def test_closing_finishes_what_was_submitted(writer: Writer, ledger_path: Path) -> None:
    release = held(writer)
    pieces = [say(writer, str(number)) for number in range(10)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    release.set()
    closing.join()
    for piece in pieces:
        piece.result(timeout=0)
    assert len(said(ledger_path)) == 10
    with pytest.raises(LedgerClosed, match="closed"):
        say(writer, "too late")


def test_a_lock_held_too_long_is_said_in_words(writer: Writer, ledger_path: Path) -> None:
    writer.submit(lambda connection: connection.raw.set_busy_handler(connections.BusyHandler(0.05))).result()
    other = connect(str(ledger_path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerBusy, match="in use by another process"):
        say(writer, "never").result()
    other.execute("ROLLBACK")
    say(writer, "now").result()
    assert said(ledger_path) == ["now"]


def size_of(path: Path) -> int:
    return path.stat().st_size


async def test_the_log_may_grow_while_much_is_brought_in_and_is_brought_into_the_file_after_it(
    writer: Writer, ledger_path: Path
) -> None:
    large = LONG_LOG * 4096

    def grow(connection: SqliteConnection) -> None:
        connection.raw.execute("INSERT INTO said VALUES (hex(randomblob(?)))", (large // 2,))

    for _ in range(3):
        await writer.submit_async(grow, bulk=True)
    await writer.submit_async(lambda _: None, bulk=True)
    assert size_of(ledger_path) < large
    for _ in range(2):  # what is brought into the file after the first is there before the second
        await writer.submit_async(lambda _: None)
    assert size_of(ledger_path) > 3 * large
