"""A disk that fails at every operation in turn: nothing acknowledged is lost, nothing is done by halves.

Faults are tried at a sample of the operations of a short conversation, in ``make proof`` at each one of a long one.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from contextinfinity.errors import LedgerError, LedgerFull, LedgerReadOnly
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.writer import LONG_LOG
from contextinfinity_testing.builders import new_branch, new_turn, said
from contextinfinity_testing.faults import FailingDisk, FaultKind, Operation
from tests.recovery.checks import check_ledger, shape
from tests.recovery.conversation import TOO_LONG, Conversation, Heard
from tests.recovery.places import LONG_STRIDE, ROUNDS, STRIDE, remove
from tests.sizes import sized

READING: tuple[Operation, ...] = ("read",)
WRITING: tuple[Operation, ...] = ("write",)

faults = pytest.mark.parametrize("kind", ["full", "io"])


@pytest.fixture
async def empty_ledger(quick_folder: Path) -> Path:
    """A ledger that was opened and closed once: what a process finds on any day but the first."""
    path = quick_folder / "empty.db"
    await SqliteStore(path).close()
    return path


async def sweep(
    path: Path,
    disk_failing_at: Callable[[int], FailingDisk],
    run: Callable[[FailingDisk], Awaitable[None]],
    *,
    stride: int = STRIDE,
) -> None:
    """Run with a disk that fails at one operation, then at a later one …, until there was none left to fail."""
    for fail_at in itertools.count(1, stride):
        remove(path)
        with disk_failing_at(fail_at) as disk:
            await run(disk)
        if not disk.failed:
            assert fail_at > disk.count
            break


async def talk(path: Path, disk: FailingDisk, *, again: bool) -> Heard:
    """Open the ledger on a disk, hold the conversation, close it; errors end up in what was heard."""
    heard = Heard()
    try:
        store = SqliteStore(path, vfs=disk.name)
    except LedgerError as error:
        heard.errors.append(error)
        if not again:
            return heard
        store = SqliteStore(path, vfs=disk.name)
    conversation = Conversation(store, again=again, vfs=disk.name, rounds=ROUNDS)
    try:
        await conversation.talk()
    except LedgerError:
        await is_refused_at_once(store)
    if again:
        nothing_is_left_open(path)
    async with asyncio.timeout(TOO_LONG):
        await store.close()
    conversation.heard.errors[:0] = heard.errors
    return conversation.heard


async def is_refused_at_once(store: SqliteStore) -> None:
    """A store on a disk that fails permanently says so, and does not hang."""
    async with asyncio.timeout(TOO_LONG):
        with pytest.raises(LedgerError):
            await new_branch(store)


def nothing_is_left_open(path: Path) -> None:
    """No transaction or savepoint outlives its fault: another process can write at once."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()


def says_what_to_do(error: LedgerError, path: Path) -> None:
    assert str(path) in error.message
    assert error.hint
    assert str(error).endswith(error.hint)


@pytest.mark.req("TURN-9", "TURN-2", "TURN-3", "TURN-4")
@faults
async def test_after_a_fault_that_happens_once_the_same_store_goes_on(kind: FaultKind, empty_ledger: Path) -> None:
    undisturbed = empty_ledger.with_name("undisturbed.db")
    shutil.copy(empty_ledger, undisturbed)
    with FailingDisk() as disk:
        await talk(undisturbed, disk, again=True)
    whole = shape(undisturbed)
    path = empty_ledger.with_name("ledger.db")

    async def run(disk: FailingDisk) -> None:
        shutil.copy(empty_ledger, path)
        heard = await talk(path, disk, again=True)
        assert len(heard.errors) <= 2, "those of the one commit that failed"
        for error in heard.errors:
            says_what_to_do(error, path)
        await check_ledger(path, heard)
        assert shape(path) == whole, "what failed and was asked for again is there once"

    await sweep(path, lambda fail_at: FailingDisk(fail_at=fail_at, kind=kind), run)


@pytest.mark.req("TURN-9", "TURN-2", "TURN-3", "TURN-4")
@faults
async def test_a_disk_that_fails_for_good_loses_nothing_it_acknowledged(kind: FaultKind, empty_ledger: Path) -> None:
    path = empty_ledger.with_name("ledger.db")

    async def run(disk: FailingDisk) -> None:
        shutil.copy(empty_ledger, path)
        heard = await talk(path, disk, again=False)
        for error in heard.errors:
            says_what_to_do(error, path)
        await check_ledger(path, heard)

    await sweep(path, lambda fail_at: FailingDisk(fail_at=fail_at, kind=kind, lasting=True), run)


@pytest.mark.req("TURN-9")
@pytest.mark.parametrize("lasting", [False, True])
async def test_a_page_that_cannot_be_read_is_said_and_nothing_is_lost(lasting: bool, empty_ledger: Path) -> None:
    path = empty_ledger.with_name("ledger.db")

    async def run(disk: FailingDisk) -> None:
        shutil.copy(empty_ledger, path)
        heard = await talk(path, disk, again=not lasting)
        for error in heard.errors:
            says_what_to_do(error, path)
        await check_ledger(path, heard)

    def failing(fail_at: int) -> FailingDisk:
        return FailingDisk(fail_at=fail_at, lasting=lasting, counted=READING)

    await sweep(path, failing, run, stride=LONG_STRIDE)


@pytest.mark.req("TURN-9")
@faults
@pytest.mark.parametrize("lasting", [False, True])
async def test_a_ledger_that_could_not_be_made_can_be_made_later(
    kind: FaultKind, lasting: bool, quick_folder: Path
) -> None:
    path = quick_folder / "ledger.db"

    async def run(disk: FailingDisk) -> None:
        try:
            store = SqliteStore(path, vfs=disk.name)
        except LedgerError as error:
            says_what_to_do(error, path)
        else:
            await store.close()
        await check_ledger(path, Heard())

    def failing(fail_at: int) -> FailingDisk:
        return FailingDisk(fail_at=fail_at, kind=kind, lasting=lasting)

    await sweep(path, failing, run, stride=LONG_STRIDE)


def size_of(path: Path) -> int:
    return path.stat().st_size


async def test_a_log_that_cannot_be_brought_into_the_file_concerns_nobody(empty_ledger: Path) -> None:
    before = size_of(empty_ledger)
    with FailingDisk(fail_at=1, kind="full", lasting=True, counted=WRITING, only="empty.db") as disk:
        store = SqliteStore(empty_ledger, vfs=disk.name)
        branch = await new_branch(store)
        for number in range(3):
            await store.contents.keep_blob(bytes([number]) * LONG_LOG * 4096, "image/png")
            await store.turns.accept(new_turn(branch.id, str(number)))
        assert disk.failed, "the writer tried, and its callers were spared"
        assert size_of(empty_ledger) == before
        disk.repair()
        await store.turns.accept(new_turn(branch.id, "3"))
        await store.close()
    assert size_of(empty_ledger) > before + 3 * LONG_LOG * 4096
    store = SqliteStore(empty_ledger)
    assert await said(store, branch.id) == ["0", "1", "2", "3"]
    await store.close()


async def kept_and_told(path: Path, disk: FailingDisk) -> tuple[list[str], list[str], LedgerError | None]:
    """Say three things on a disk that may fail: what the ledger holds later, what it acknowledged, why it stopped."""
    store = SqliteStore(path)
    branch = await new_branch(store)
    await store.close()
    told: list[str] = []
    failure = None
    try:
        store = SqliteStore(path, vfs=disk.name)
        for word in ("one", "two", "three"):
            await store.turns.accept(new_turn(branch.id, word))
            told.append(word)
    except LedgerError as error:
        failure = error
    await store.close()
    store = SqliteStore(path)
    kept = await said(store, branch.id)
    await store.close()
    return kept, told, failure


@pytest.mark.req("TURN-2", "TURN-9")
async def test_a_message_refused_on_a_full_disk_is_not_there_later(empty_ledger: Path) -> None:
    path = empty_ledger.with_name("ledger.db")
    refused = 0

    async def run(disk: FailingDisk) -> None:
        nonlocal refused
        kept, told, failure = await kept_and_told(path, disk)
        if isinstance(failure, LedgerFull):
            assert kept == told, failure.hint
            refused += 1

    await sweep(path, lambda fail_at: FailingDisk(fail_at=fail_at, kind="full", lasting=True), run)
    assert refused > sized(2, 10)


@pytest.mark.req("TURN-2", "TURN-9")
async def test_a_message_whose_flush_failed_is_there_whole_or_not_at_all(empty_ledger: Path) -> None:
    path = empty_ledger.with_name("ledger.db")
    surplus = []

    async def run(disk: FailingDisk) -> None:
        kept, told, failure = await kept_and_told(path, disk)
        assert kept[: len(told)] == told
        surplus.append(len(kept) - len(told))
        assert failure is None or "either complete or absent" in failure.hint or isinstance(failure, LedgerReadOnly)

    await sweep(path, lambda fail_at: FailingDisk(fail_at=fail_at, lasting=True), run, stride=1)
    assert set(surplus) == {0, 1}, "the hint must not say that nothing was written: sometimes it was"
