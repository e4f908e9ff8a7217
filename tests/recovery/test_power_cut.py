"""The power is cut: what was acknowledged is there, whatever the disk made of the rest.

The cut is tried after every so many operations (``places``), with every way a disk can deal with what was not flushed.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from concurrent.futures import Future
from pathlib import Path

import apsw
import pytest

from contextinfinity.errors import LedgerError
from contextinfinity.storage.sqlite.connection import close_quietly, connect
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.writer import LONG_LOG, Writer
from contextinfinity_testing.builders import new_branch, new_turn, said
from contextinfinity_testing.faults import ForgetfulDisk, Keeping
from tests.recovery.checks import check_ledger
from tests.recovery.conversation import TOO_LONG, Conversation, Heard
from tests.recovery.places import LONG_STRIDE, ROUNDS, SEEDS, STRIDE, remove

ways = pytest.mark.parametrize("keep", ["nothing", "prefix", "torn", "any"])


def switch_on(path: Path) -> None:
    """The machine starts again: its memory is empty, and the shared memory of a ledger is memory."""
    Path(f"{path}-shm").unlink(missing_ok=True)


async def talk_until_dark(path: Path, disk: ForgetfulDisk) -> Heard:
    """Hold a conversation until the power is gone, and let go of the dead ledger."""
    heard = Heard()
    try:
        store = SqliteStore(path, vfs=disk.name)
        conversation = Conversation(store, vfs=disk.name, rounds=ROUNDS)
        heard = conversation.heard
        try:
            await conversation.talk()
        finally:
            async with asyncio.timeout(TOO_LONG):
                await store.close()
    except LedgerError:
        assert disk.is_off
    disk.cut_power()
    return heard


@pytest.mark.req("TURN-9", "TURN-2", "TURN-3", "TURN-4")
@ways
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_nothing_acknowledged_is_lost_in_a_power_cut(keep: Keeping, seed: int, quick_folder: Path) -> None:
    empty, path = quick_folder / "empty.db", quick_folder / "ledger.db"
    await SqliteStore(empty).close()
    for cut_at in itertools.count(1 + seed % STRIDE, STRIDE):
        remove(path)
        shutil.copy(empty, path)
        with ForgetfulDisk(cut_at=cut_at, keep=keep, seed=seed * 1_000_003 + cut_at) as disk:
            heard = await talk_until_dark(path, disk)
        switch_on(path)
        await check_ledger(path, heard)
        if cut_at > disk.count:
            break


@pytest.mark.req("TURN-9")
@ways
async def test_a_ledger_whose_making_was_cut_short_can_be_made_again(keep: Keeping, quick_folder: Path) -> None:
    path = quick_folder / "ledger.db"
    for cut_at in itertools.count(1, LONG_STRIDE):
        remove(path)
        with ForgetfulDisk(cut_at=cut_at, keep=keep, seed=cut_at) as disk:
            try:
                store = SqliteStore(path, vfs=disk.name)
            except LedgerError:
                assert disk.is_off
            else:
                await store.close()
            disk.cut_power()
        switch_on(path)
        await check_ledger(path, Heard())
        if cut_at > disk.count:
            break


@pytest.mark.req("TURN-9")
@ways
async def test_a_power_cut_while_a_long_log_is_brought_into_the_file_loses_nothing(
    keep: Keeping, quick_folder: Path
) -> None:
    empty, path = quick_folder / "empty.db", quick_folder / "ledger.db"
    store = SqliteStore(empty)
    branch = await new_branch(store)
    await store.close()

    async def say_much(disk: ForgetfulDisk) -> list[str]:
        told: list[str] = []
        store = SqliteStore(path, vfs=disk.name)
        try:
            for word in ("one", "two"):
                await store.turns.accept(new_turn(branch.id, word))
                told.append(word)
                await store.contents.keep_blob(word.encode() * LONG_LOG * 1500, "image/png")
            await store.turns.accept(new_turn(branch.id, "three"))
            told.append("three")
        except LedgerError:
            assert disk.is_off
        await store.close()
        return told

    shutil.copy(empty, path)
    with ForgetfulDisk() as disk:
        await say_much(disk)
        assert await said_on(path, branch.id, vfs=disk.name) == ["one", "two", "three"]
    for cut_at in range(1, disk.count, disk.count // 12):
        remove(path)
        shutil.copy(empty, path)
        with ForgetfulDisk(cut_at=cut_at, keep=keep, seed=cut_at) as disk:
            told = await say_much(disk)
        switch_on(path)
        kept = await said_on(path, branch.id)
        assert kept[: len(told)] == told
        assert len(kept) <= len(told) + 1


async def said_on(path: Path, branch: str, vfs: str | None = None) -> list[str]:
    store = SqliteStore(path, vfs=vfs)
    found = await said(store, branch)
    await store.close()
    return found


# The disk itself: it would notice a ledger that does not flush.


def kept_after_a_cut(path: Path, synchronous: str) -> list[int]:
    """Write twenty numbers, each acknowledged, cut the power, and read what is there."""

    def write(number: int) -> Future[None]:
        def work(connection: SqliteConnection) -> None:
            connection.raw.execute("INSERT INTO said VALUES (?)", (number,))

        return writer.submit(work)

    with ForgetfulDisk() as disk:
        made = connect(str(path), vfs=disk.name)
        made.execute("CREATE TABLE said (number INTEGER)")
        made.close()
        connection = connect(str(path), vfs=disk.name)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        writer = Writer(connection, str(path))
        for number in range(20):
            write(number).result(TOO_LONG)
        disk.cut_power()
        writer.close()
    switch_on(path)
    connection = connect(str(path))
    found = [number for (number,) in connection.execute("SELECT number FROM said ORDER BY number")]
    close_quietly(connection)
    return found


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_ledger_that_does_not_flush_does_lose_what_it_acknowledged(synchronous: str, quick_folder: Path) -> None:
    assert kept_after_a_cut(quick_folder / "careless.db", synchronous) == []


def test_a_ledger_that_flushes_does_not(quick_folder: Path) -> None:
    assert kept_after_a_cut(quick_folder / "careful.db", "FULL") == list(range(20))


def test_a_disk_shows_what_was_written_and_keeps_what_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with ForgetfulDisk() as disk:
        flags = [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0]
        file, other = disk.xOpen(str(path), flags), disk.xOpen(str(path), flags)
        file.xWrite(b"flushed", 0)
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
        file.xWrite(b" and more", 7)
        assert other.xRead(100, 0) == b"flushed and more"
        assert other.xFileSize() == 16
        file.xTruncate(3)
        assert other.xRead(100, 0) == b"flu"
        disk.cut_power()
        with pytest.raises(apsw.IOError):
            other.xRead(1, 0)
        file.xClose()
        other.xClose()
    assert path.read_bytes() == b"flushed"


@pytest.mark.parametrize(
    ("keep", "possible"),
    [
        ("nothing", {b"...."}),
        ("prefix", {b"....", b"ab..", b"abcd"}),
        ("torn", {b"....", b"a...", b"ab..", b"abc.", b"abcd"}),
        ("any", {b"....", b"ab..", b"..cd", b"abcd"}),
    ],
)
def test_a_cut_leaves_every_outcome_that_a_disk_can_leave(keep: Keeping, possible: set[bytes], tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = set()
    for seed in range(100):
        path.write_bytes(b"....")
        with ForgetfulDisk(keep=keep, seed=seed) as disk:
            file = disk.xOpen(str(path), [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0])
            file.xWrite(b"ab", 0)
            file.xWrite(b"cd", 2)
            disk.cut_power()
            file.xClose()
        found.add(path.read_bytes())
    assert found == possible
