"""Repairs that cannot lose data, after a backup.

Unfinished deletions are completed first, so that the backup contains no deleted data. Nothing else is changed before
the backup is complete and durable; if it fails, nothing is repaired.

A damaged, foreign or too new ledger is not written to. Afterwards all checks run again: the report lists the repairs
and the remaining findings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.engine.deleting import Cleaner
from contextinfinity.errors import LedgerError, LedgerFailed
from contextinfinity.settings import Settings
from contextinfinity.storage.copies import copies_of
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.sqlite.integrity import Inspection, Progress
from contextinfinity.storage.sqlite.purge import purge_deleted
from contextinfinity.storage.sqlite.repair import repair as repair_ledger
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.worker_locks import WorkerLocks
from contextinfinity.upkeep import data_dir_checks, journals
from contextinfinity.upkeep.backups import prune_backups
from contextinfinity.upkeep.examine import Report, examine, silent
from contextinfinity.upkeep.findings import Finding, found, repaired

# A ledger with one of these is left alone: writing to it could make things worse.
_HANDS_OFF = frozenset({"file_damaged", "schema_tables"})
# With one of these there is no ledger that could be copied, so nothing at all is repaired.
_NO_LEDGER = frozenset({"ledger_foreign", "ledger_too_new", "ledger_unreadable", "ledger_unsupported"})


def examine_and_repair(
    settings: Settings,
    *,
    progress: Progress = silent,
    already: tuple[Finding, ...] = (),
    least_free: int = data_dir_checks.LEAST_FREE_BYTES,
) -> Report:
    """Run all checks, repair what is possible, and check again."""
    before = examine(settings, progress=progress, already=already, least_free=least_free)
    if not any(finding.repair for finding in before.findings):
        return before
    codes = {finding.code for finding in before.findings}
    if codes & _NO_LEDGER or (before.schema is None and "file_damaged" in codes):
        return before
    backup = None
    if before.schema is not None and (path := settings.ledger_path) is not None:
        try:
            if not codes & _HANDS_OFF and "schema_older" not in codes:
                _run(_finish_deletions(settings, path))
            began = now()
            backup = back_up(
                path,
                data_dir_checks.backups_folder(settings),
                lambda part: progress("backup", part),
                lambda copy: _run(purge_deleted(copy, path, began)),
            )
        except LedgerError as error:
            return replace(before, findings=(*before.findings, found("backup_failed", [error.message])))
    prune_backups(settings)
    done = _repair(settings, with_ledger=before.schema is not None, may_write=not codes & _HANDS_OFF)
    after = examine(settings, progress=progress, already=already, least_free=least_free)
    return replace(after, repaired=repaired(done.items()), backup=backup)


async def _finish_deletions(settings: Settings, path: Path) -> None:
    store = SqliteStore(path, data_dir=settings.data_dir)
    try:
        result = await Cleaner(store, copies_of(settings.data_dir, path)).clean_up()
    finally:
        await store.close()
    if result.errors:
        raise LedgerFailed(f"Deleted text cannot be removed, so no copy is made: {result.errors[0]}")


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run something asynchronous, also for a caller whose own event loop is running."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def _repair(settings: Settings, *, with_ledger: bool, may_write: bool) -> dict[str, int]:
    locks = WorkerLocks(data_dir_checks.workers_folder(settings))
    done = {"backup_partial": data_dir_checks.remove_partial_backups(settings)}
    known: frozenset[str] = frozenset()
    if with_ledger and (path := settings.ledger_path) is not None:
        if may_write:
            done |= repair_ledger(path, locks)
        with Inspection(path) as ledger:
            known = ledger.workers()
            endings, backups = journals.with_held(settings, ledger.endings), data_dir_checks.backups_folder(settings)
            done |= journals.set_right(data_dir_checks.streams_folder(settings), endings, backups)
    done["lock_stray"] = _remove_stray_locks(locks, known)
    done["permissions_open"] = data_dir_checks.close_to_others(settings)
    return done


def _remove_stray_locks(locks: WorkerLocks, known: frozenset[str]) -> int:
    stray = locks.stray(set(known))
    for path in stray:
        locks.release(path.stem)
    return len(stray)
