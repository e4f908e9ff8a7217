"""Places a ledger should not be in: each time a clear error, nothing acknowledged lost, and it opens again."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from contextinfinity.domain.session import Owner
from contextinfinity.errors import (
    InvalidInput,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerForeign,
    LedgerReadOnly,
    LedgerTooNew,
    NotFound,
)
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_branch, new_turn, said
from tests.recovery.checks import check_ledger
from tests.recovery.conversation import TOO_LONG, Conversation, Heard
from tests.recovery.places import SEEDS, remove
from tests.sizes import sized

T = TypeVar("T")

UNPRIVILEGED = 65534


def refuses(path: Path, kind: type[LedgerError], words: str) -> None:
    """Opening says what is wrong, where, and what to do."""
    with pytest.raises(kind, match=words) as caught:
        SqliteStore(path, patience=0.05)
    assert str(path) in caught.value.message
    assert caught.value.hint


async def made(path: Path) -> Heard:
    """A ledger with a conversation in it."""
    store = SqliteStore(path)
    heard = await Conversation(store, rounds=2).talk()
    await store.close()
    return heard


def folder_as_it_is(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Where nothing can be written.


@contextmanager
def modes_count() -> Iterator[None]:
    """Let file modes hold for this thread and those it starts, even when root runs the tests."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(UNPRIVILEGED)  # Linux: this thread's rights in the file system, the power to ignore modes included
    try:
        yield
    finally:
        libc.setfsuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can read and write."""
    with tempfile.TemporaryDirectory(prefix="contextinfinity-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666), (0o777, 0o444)], ids=["both", "folder", "file"]
)
async def test_a_ledger_that_cannot_be_written_says_so_and_opens_once_it_can(
    folder_mode: int, file_mode: int, open_folder: Path
) -> None:
    path = open_folder / "ledger.db"
    heard = await made(path)
    set_mode(path, file_mode)
    set_mode(open_folder, folder_mode)
    with modes_count():
        refuses(path, LedgerReadOnly, "cannot be opened|cannot be written")
    set_mode(open_folder, 0o777)
    set_mode(path, 0o666)
    await check_ledger(path, heard)


def test_a_folder_that_cannot_be_written_gets_no_ledger(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with modes_count():
        refuses(open_folder / "ledger.db", LedgerReadOnly, "Permission denied")
        refuses(open_folder / "deeper" / "ledger.db", LedgerReadOnly, "Permission denied")
    assert list(open_folder.iterdir()) == []


async def test_a_worker_that_cannot_leave_its_lock_does_not_enter(open_folder: Path) -> None:
    store = SqliteStore(open_folder / "ledger.db")
    set_mode(open_folder, 0o555)
    with modes_count(), pytest.raises(LedgerReadOnly, match="workers cannot be written"):
        await store.workers.enter()
    assert await store.workers.list() == ()
    set_mode(open_folder, 0o777)
    await store.close()


def test_a_file_where_the_folder_should_be_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    refuses(tmp_path / "data" / "ledger.db", LedgerReadOnly, "cannot be opened")
    refuses(tmp_path / "data" / "deeper" / "ledger.db", LedgerReadOnly, "cannot be opened")
    assert (tmp_path / "data").read_text() == "not a folder"


def test_a_folder_where_the_ledger_should_be_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.mkdir()
    (path / "letter").write_text("Dear Ada")
    refuses(path, LedgerReadOnly, "Is a directory")
    assert folder_as_it_is(path) == {"letter": b"Dear Ada"}


# Files of others.


@pytest.mark.parametrize(
    "content",
    [b"no", b"Dear diary, " * 100, random.Random(1).randbytes(100), random.Random(2).randbytes(50_000)],
    ids=["two bytes", "text", "some bytes", "many bytes"],
)
def test_a_file_that_is_no_database_is_left_alone(content: bytes, ledger_path: Path) -> None:
    ledger_path.write_bytes(content)
    refuses(ledger_path, LedgerForeign, "is not a ledger")
    assert folder_as_it_is(ledger_path.parent) == {ledger_path.name: content}


@pytest.mark.parametrize("script", ["CREATE TABLE theirs (x)", "PRAGMA application_id = 42; VACUUM"])
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_of_another_program_is_left_alone(mode: str, script: str, ledger_path: Path) -> None:
    other = sqlite3.connect(ledger_path)
    other.execute(f"PRAGMA journal_mode = {mode}")
    other.executescript(script)
    other.close()
    before = folder_as_it_is(ledger_path.parent)
    refuses(ledger_path, LedgerForeign, "another program")
    assert folder_as_it_is(ledger_path.parent) == before


async def test_an_empty_file_becomes_a_ledger(ledger_path: Path) -> None:
    make_empty(ledger_path)
    await check_ledger(ledger_path, await made(ledger_path))


def make_empty(path: Path) -> None:
    path.touch()


def copy_as_killed(here: Path, there: Path) -> None:
    """Copy what is on the disk at this moment: what a process that is killed now would leave."""
    for suffix in ("", "-wal"):
        if Path(f"{here}{suffix}").exists():
            shutil.copy(f"{here}{suffix}", f"{there}{suffix}")


@pytest.mark.parametrize("clean", [True, False], ids=["closed well", "killed"])
async def test_a_ledger_of_a_newer_release_is_left_byte_for_byte(clean: bool, tmp_path: Path) -> None:
    here, there = tmp_path / "ledger.db", tmp_path / "copy" / "ledger.db"
    there.parent.mkdir()
    await made(here)
    newer = apsw.Connection(str(here))
    newer.execute("INSERT INTO schema_version VALUES (999, 'future', 0)")
    if clean:
        newer.close()
    copy_as_killed(here, there)
    newer.close()
    before = folder_as_it_is(there.parent)
    assert len(before) == (1 if clean else 2)
    refuses(there, LedgerTooNew, "schema 999")
    after = folder_as_it_is(there.parent)
    assert {name: after[name] for name in before} == before


# Damage.


async def read_everything(store: SqliteStore) -> None:
    """Ask for all there is, and for one write; only errors of ours come back."""

    async def tried(verb: Awaitable[T]) -> T | tuple[()]:
        try:
            async with asyncio.timeout(TOO_LONG):
                return await verb
        except (LedgerError, NotFound) as error:
            found.append(error)
            return ()

    found: list[LedgerError | NotFound] = []
    for session in await tried(store.sessions.list(Owner())):
        for branch in await tried(store.branches.list(session.id)):
            await tried(store.states.list(branch.id))
            for turn in await tried(store.turns.history(branch.id)):
                await tried(store.turns.steps(turn.id))
                await tried(store.turns.plan(turn.id))
                await tried(store.chunks.of_turn(turn.id))
            await tried(store.turns.accept(new_turn(branch.id, "still there?")))
            await tried(store.states.pin(branch.id, "a fact"))
    await tried(store.jobs.list())
    assert all("cix doctor" in error.hint for error in found if isinstance(error, LedgerCorrupt))


@pytest.mark.req("LEDGER-6")
async def test_a_damaged_page_gives_an_error_of_ours_or_none(quick_folder: Path) -> None:
    good, path = quick_folder / "good.db", quick_folder / "ledger.db"
    await made(good)
    content = read(good)
    for page in range(0, len(content), 4096 * sized(5, 1)):
        for seed in range(2 * SEEDS):
            chance = random.Random(page + seed)
            damaged = bytearray(content)
            for _ in range(chance.choice((1, 4, 40))):
                damaged[page + chance.randrange(4096)] ^= chance.randrange(1, 256)
            remove(path)
            write(path, bytes(damaged))
            try:
                store = SqliteStore(path, patience=1)
            except (LedgerCorrupt, LedgerForeign, LedgerTooNew, LedgerReadOnly):
                continue
            await read_everything(store)
            await store.close()


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE message SET text = CAST(x'ff' AS TEXT)", "utf-8"),
        ("UPDATE message SET text = NULL, blocks = '{'", "cannot be read"),
        ("UPDATE turn SET phase = 'Asleep'", "not a valid Phase"),
        ("ALTER TABLE turn RENAME TO turned", "no such table"),
    ],
)
async def test_a_row_that_makes_no_sense_is_damage(damage: str, words: str, ledger_path: Path) -> None:
    heard = await made(ledger_path)
    branch = next(iter(heard.turns.values())).branch_id
    other = apsw.Connection(str(ledger_path))
    for (trigger,) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        other.execute(f"DROP TRIGGER {trigger}")
    for (view,) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
        other.execute(f"DROP VIEW {view}")
    other.execute(damage)
    other.close()
    store = SqliteStore(ledger_path)
    with pytest.raises(LedgerCorrupt, match=words) as caught:
        await store.turns.history(branch)
    assert "cix doctor" in caught.value.hint
    await store.close()


async def test_a_question_that_is_no_text_is_not_taken_for_damage(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await store.sessions.find(Owner(), "\ud800")
    await store.close()


async def test_a_ledger_cut_short_is_damaged(quick_folder: Path) -> None:
    good, path = quick_folder / "good.db", quick_folder / "ledger.db"
    await made(good)
    content = read(good)
    for size in (50, 100, 512, 4095, 4096, 5000, 8192, len(content) // 2, len(content) - 4096, len(content) - 1):
        remove(path)
        write(path, content[:size])
        with pytest.raises((LedgerCorrupt, LedgerForeign)) as caught:  # noqa: PT012 - one of the two finds it
            store = SqliteStore(path)
            try:
                await store.database.read(lambda connection: connection.raw.execute("PRAGMA quick_check").fetchall())
                for session in await store.sessions.list(Owner()):
                    await said(store, session.active_branch)
                raise AssertionError(f"{size} bytes of {len(content)} were taken for a ledger")
            finally:
                await store.close()
        assert caught.value.hint


async def test_a_ledger_whose_log_was_thrown_away_is_whole_as_of_the_last_checkpoint(tmp_path: Path) -> None:
    here, there = tmp_path / "ledger.db", tmp_path / "copy.db"
    before = await made(here)
    store = SqliteStore(here)
    branch = next(iter(before.turns.values())).branch_id
    await store.turns.accept(new_turn(branch, "only in the log"))
    shutil.copy(here, there)
    await store.close()
    await check_ledger(there, before)
    store = SqliteStore(there)
    assert "only in the log" not in await said(store, branch), "nobody can help that; it is not taken for damage"
    await store.turns.accept(new_turn(branch, "and on it goes"))
    await store.close()


# Other processes.

HOLDER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2].split(";"):
    other.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held_by_another_process(path: Path, script: str) -> Iterator[None]:
    arguments = [sys.executable, "-c", HOLDER, str(path), script]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate("\n")


@pytest.mark.req("TURN-2")
async def test_a_lock_that_another_process_holds_is_waited_for_and_then_said(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path, patience=0.1)
    branch = await new_branch(store)
    with held_by_another_process(ledger_path, "BEGIN IMMEDIATE"):
        began = time.monotonic()
        with pytest.raises(LedgerBusy, match=r"in use by another process.*Nothing was written; try again"):
            await store.turns.accept(new_turn(branch.id, "too soon"))
        assert 0.1 <= time.monotonic() - began < 5
        assert await said(store, branch.id) == [], "reading goes on meanwhile"
        await SqliteStore(ledger_path, patience=0.1).close()  # and so does opening
    await store.turns.accept(new_turn(branch.id, "now"))
    assert await said(store, branch.id) == ["now"]
    await store.close()


async def test_a_ledger_that_another_process_keeps_to_itself_is_busy(ledger_path: Path) -> None:
    heard = await made(ledger_path)
    with held_by_another_process(ledger_path, "PRAGMA locking_mode = EXCLUSIVE;BEGIN IMMEDIATE;COMMIT"):
        refuses(ledger_path, LedgerBusy, "in use by another process")
    await check_ledger(ledger_path, heard)


async def test_a_file_that_another_process_is_making_is_busy(ledger_path: Path) -> None:
    with held_by_another_process(ledger_path, "PRAGMA journal_mode = WAL;BEGIN IMMEDIATE"):
        refuses(ledger_path, LedgerBusy, "in use by another process")
    await check_ledger(ledger_path, await made(ledger_path))


# Clocks.

CLOCK = """
import asyncio, json, pathlib, sys, time
hours = 0
real = time.time_ns
time.time_ns = lambda: real() + hours * 3_600_000_000_000
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, new_branch

async def main(path):
    global hours
    store = SqliteStore(pathlib.Path(path))
    branch = await new_branch(store)
    for hours in (0, -1, 0, 1, 0):
        turn = await answer_turn(store, branch.id, f"The clock is off by {hours} h, turn {branch.last_turn_seq}")
        print(json.dumps([turn.id, turn.turn_seq, turn.state_after, turn.updated_at.timestamp()]), flush=True)
    while job := await store.jobs.claim("worker"):
        await store.jobs.complete(job.id, "worker")
    print(json.dumps([turn.phase for turn in await store.turns.history(branch.id)]))
    print(json.dumps([turn.id for turn in await store.turns.history(branch.id)]))
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.req("LEDGER-1", "TURN-9")
async def test_a_clock_that_jumps_an_hour_back_and_forth_changes_no_order(ledger_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", CLOCK, str(ledger_path)], capture_output=True, text=True, check=True)
    *turns, phases, history = map(json.loads, run.stdout.splitlines())
    ids, numbers, states, times = zip(*turns, strict=True)
    assert sorted(ids) == list(ids) == history
    assert sorted(states) == list(states)
    assert list(numbers) == [1, 2, 3, 4, 5]
    assert phases[:3] == ["Done"] * 3, "jobs of a clock that was right, or slow, are done; others wait for their time"
    assert times[1] < times[0] - 3000, "the clock did jump"
    assert times[3] > times[4] + 3000
    await check_ledger(ledger_path, Heard())
