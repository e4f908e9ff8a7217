"""Setting right what can be set right without losing anything, after a backup.

Nothing is changed before a copy of the ledger is whole and on the disk; where that fails, nothing is repaired.
A ledger that is damaged, foreign or too new is not written to. What the report says afterwards was looked at
afresh: repaired is what was done, found is what remains.
"""

from __future__ import annotations

from msgspec.structs import replace

from contextinfinity.errors import LedgerError
from contextinfinity.settings import Settings
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.sqlite.integrity import Inspection, Progress
from contextinfinity.storage.sqlite.repair import repair as repair_ledger
from contextinfinity.storage.worker_locks import WorkerLocks
from contextinfinity.upkeep import files, journals, spools
from contextinfinity.upkeep.findings import Finding, found, repaired
from contextinfinity.upkeep.integrity import Report, examine, silent

# A ledger with one of these is left alone: writing to it could make things worse.
_HANDS_OFF = frozenset({"file_damaged", "schema_tables"})
# With one of these there is no ledger that could be copied, so nothing at all is repaired.
_NO_LEDGER = frozenset({"ledger_foreign", "ledger_too_new", "ledger_unreadable", "ledger_unsupported"})


def examine_and_repair(
    settings: Settings,
    *,
    progress: Progress = silent,
    already: tuple[Finding, ...] = (),
    least_free: int = files.LEAST_FREE_BYTES,
) -> Report:
    """Look everything over, repair what can be, and look again."""
    before = examine(settings, progress=progress, already=already, least_free=least_free)
    if not any(finding.repair for finding in before.findings):
        return before
    codes = {finding.code for finding in before.findings}
    if codes & _NO_LEDGER or (before.schema is None and "file_damaged" in codes):
        return before
    backup = None
    if before.schema is not None and (path := settings.ledger_path) is not None:
        try:
            backup = back_up(path, files.backups_folder(settings), lambda part: progress("backup", part))
        except LedgerError as error:
            return replace(before, findings=(*before.findings, found("backup_failed", [error.message])))
    done = _repair(settings, with_ledger=before.schema is not None, may_write=not codes & _HANDS_OFF)
    after = examine(settings, progress=progress, already=already, least_free=least_free)
    return replace(after, repaired=repaired(done.items()), backup=backup)


def _repair(settings: Settings, *, with_ledger: bool, may_write: bool) -> dict[str, int]:
    locks = WorkerLocks(files.workers_folder(settings))
    done = {"backup_partial": files.remove_partial_backups(settings)}
    known: frozenset[str] = frozenset()
    if with_ledger and (path := settings.ledger_path) is not None:
        if may_write:
            done |= repair_ledger(path, locks)
        with Inspection(path) as ledger:
            known = ledger.workers()
            endings, backups = spools.with_held(settings, ledger.endings), files.backups_folder(settings)
            done |= journals.set_right(files.streams_folder(settings), endings, backups)
    done["lock_stray"] = _remove_stray_locks(locks, known)
    done["permissions_open"] = files.close_to_others(settings)
    return done


def _remove_stray_locks(locks: WorkerLocks, known: frozenset[str]) -> int:
    stray = locks.stray(set(known))
    for path in stray:
        locks.release(path.stem)
    return len(stray)
