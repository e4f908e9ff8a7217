"""A disk that fails at every operation in turn: nothing acknowledged is lost, nothing is done by halves.

Every fault is tried at every place of a short conversation. With ``CONTEXTINFINITY_FAULT_SEEDS=n`` the
conversation is n times as long.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import apsw
import pytest

from contextinfinity.errors import LedgerError, LedgerFailed, LedgerFull
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.testing.builders import new_branch, new_turn, said
from contextinfinity.testing.faults import FailingDisk, FaultKind
from tests.recovery.checks import check_ledger, shape
from tests.recovery.conversation import TOO_LONG, Conversation, Heard

ROUNDS = int(os.environ.get("CONTEXTINFINITY_FAULT_SEEDS", "1"))

faults = pytest.mark.parametrize("kind", ["full", "io"])


@pytest.fixture
async def empty_ledger(tmp_path: Path) -> Path:
    """A ledger that was opened and closed once: what a process finds on any day but the first."""
    path = tmp_path / "empty.db"
    await SqliteStore(path).close()
    return path


def copied(ledger: Path, name: str) -> Path:
    path = ledger.with_name(f"{name}.db")
    shutil.copy(ledger, path)
    return path


def removed(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


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
    """A store on a disk that fails for good says so, and does not hang."""
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
    undisturbed = copied(empty_ledger, "undisturbed")
    with FailingDisk() as disk:
        await talk(undisturbed, disk, again=True)
    whole = shape(undisturbed)
    for fail_at in range(1, disk.count + 1):
        path = copied(empty_ledger, f"once-{fail_at}")
        with FailingDisk(fail_at=fail_at, kind=kind) as disk:
            heard = await talk(path, disk, again=True)
        assert disk.failed == 1
        for error in heard.errors:
            says_what_to_do(error, path)
        await check_ledger(path, heard)
        assert shape(path) == whole, f"operation {fail_at} failed once; what was asked for again is there once"
        removed(path)


@pytest.mark.req("TURN-9", "TURN-2", "TURN-3", "TURN-4")
@faults
async def test_a_disk_that_fails_for_good_loses_nothing_it_acknowledged(kind: FaultKind, empty_ledger: Path) -> None:
    with FailingDisk() as disk:
        await talk(copied(empty_ledger, "undisturbed"), disk, again=False)
    for fail_at in range(1, disk.count + 1):
        path = copied(empty_ledger, f"for-good-{fail_at}")
        with FailingDisk(fail_at=fail_at, kind=kind, lasting=True) as disk:
            heard = await talk(path, disk, again=False)
        assert disk.failed
        for error in heard.errors:
            says_what_to_do(error, path)
        await check_ledger(path, heard)
        removed(path)


@pytest.mark.req("TURN-9")
@faults
@pytest.mark.parametrize("lasting", [False, True])
async def test_a_ledger_that_could_not_be_made_can_be_made_later(
    kind: FaultKind, lasting: bool, ledger_path: Path
) -> None:
    with FailingDisk() as disk:
        await SqliteStore(ledger_path, vfs=disk.name).close()
    for fail_at in range(1, disk.count + 1):
        removed(ledger_path)
        with FailingDisk(fail_at=fail_at, kind=kind, lasting=lasting) as disk:
            try:
                store = SqliteStore(ledger_path, vfs=disk.name)
            except LedgerError as error:
                says_what_to_do(error, ledger_path)
            else:
                await store.close()
        await check_ledger(ledger_path, Heard())
