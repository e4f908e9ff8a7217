"""Health check of the ledger, its journals, locks and backups, and of the machine.

``examine`` changes nothing and always returns a ``Report``: a damaged, foreign or too new file is a finding, not an
error. It may run while engines are working; their activity causes no findings.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import WorkerId
from contextinfinity.errors import LedgerCorrupt, LedgerError, LedgerForeign, LedgerLost, LedgerTooNew, SettingsError
from contextinfinity.settings import General, Settings, load_settings
from contextinfinity.settings.keys import masked, variable
from contextinfinity.settings.sections import whole_path
from contextinfinity.storage.encryption.header import HEADER, read_header
from contextinfinity.storage.encryption.key_sources import source_in_force
from contextinfinity.storage.sqlite.identity import refuse_lost, remembered
from contextinfinity.storage.sqlite.integrity import Inspection, Progress
from contextinfinity.storage.worker_locks import WorkerLocks
from contextinfinity.upkeep import data_dir_checks, journals
from contextinfinity.upkeep.findings import Finding, Repaired, found


class Report(Struct, frozen=True, kw_only=True):
    """The result of a check; without a readable ledger ``schema`` is None and ``turns`` is 0."""

    ledger: str
    schema: int | None = None
    turns: int = 0
    findings: tuple[Finding, ...] = ()
    repaired: tuple[Repaired, ...] = ()
    backup: Path | None = None
    encryption: str = ""
    """How the data_dir is encrypted, as a sentence; empty for a backup."""

    @property
    def ok(self) -> bool:
        """Whether there are no findings, apart from those that the next start resolves."""
        return all(finding.severity == "info" for finding in self.findings)


def silent(what: str, part: float) -> None:
    """Show no progress."""


def examine(
    settings: Settings,
    *,
    progress: Progress = silent,
    already: tuple[Finding, ...] = (),
    least_free: int = data_dir_checks.LEAST_FREE_BYTES,
) -> Report:
    """Run all checks and return the report, including the findings in ``already``."""
    report = _examined(settings, progress, already, least_free)
    return msgspec.structs.replace(report, encryption=_encryption(settings))


def _encryption(settings: Settings) -> str:
    """Return whether the data_dir is encrypted; the key is not needed for that."""
    try:
        header = read_header(settings.data_dir / HEADER)
    except LedgerError as error:
        return error.message
    return "off; `cix encrypt` turns it on" if header is None else f"on; the key is in {source_in_force(header.source)}"


def _examined(settings: Settings, progress: Progress, already: tuple[Finding, ...], least_free: int) -> Report:
    findings = [*already, *_machine_findings(settings, least_free)]
    name, path = masked(settings.ledger_url), settings.ledger_path
    if path is None:
        return Report(ledger=name, findings=(*findings, found("ledger_unsupported", [name])))
    known = remembered(path, settings.data_dir)
    try:
        refuse_lost(path, known)  # first: SQLite would delete the log beside an empty file
    except LedgerLost as lost:
        return Report(ledger=str(path), findings=(*findings, found("ledger_lost", [str(path)], what=lost.message)))
    if not _is_there(path):
        return Report(ledger=str(path), findings=(*findings, *_findings_without_ledger(settings)))
    schema, turns = None, 0
    try:
        with Inspection(path) as ledger:
            schema = ledger.version
            ledger.refuse_other(known)
            if not (ledger.is_new or ledger.is_older):
                findings.extend(_ledger_findings(settings, ledger, progress))
                turns = ledger.turns()
            elif ledger.is_older:
                findings.append(found("schema_older", [f"{path}: schema {schema}"]))
            else:
                findings.extend(_findings_without_ledger(settings))
    except LedgerError as error:
        findings.append(found(code_of(error), [str(path)], what=error.message))
    return Report(ledger=str(path), schema=schema, turns=turns, findings=tuple(findings))


def settings_in_force(config: Path | None, data_dir: Path | None) -> tuple[Settings, tuple[Finding, ...]]:
    """Return the settings; if they are invalid, the defaults for that data_dir and a finding."""
    try:
        return load_settings(config=config, data_dir=data_dir).settings, ()
    except SettingsError as error:
        said = data_dir or os.environ.get(variable("general", "data_dir")) or General().data_dir
        settings = Settings(general=General(data_dir=str(whole_path(said, Path.cwd()))))
        return settings, (found("config_wrong", str(error).splitlines()),)


def code_of(error: LedgerError) -> str:
    """Return the code of the finding for an error."""
    match error:
        case LedgerCorrupt():
            return "file_damaged"
        case LedgerForeign():
            return "ledger_foreign"
        case LedgerTooNew():
            return "ledger_too_new"
        case LedgerLost():
            return "ledger_lost"
    return "ledger_unreadable"


def _machine_findings(settings: Settings, least_free: int) -> Iterator[Finding]:
    if _is_there(settings.data_dir) and not _is_folder(settings.data_dir):
        yield found("data_dir_unusable", [str(settings.data_dir)])
        return
    if exposed := data_dir_checks.open_to_others(settings):
        yield found("permissions_open", [f"{path} ({mode:04o})" for path, mode in exposed])
    if (low := data_dir_checks.low_disk(settings, least_free)) is not None:
        yield found("disk_low", [low])
    for code, paths in (
        ("backup_damaged", data_dir_checks.damaged_backups(settings)),
        ("backup_partial", data_dir_checks.partial_backups(settings)),
    ):
        if paths:
            yield found(code, list(map(str, paths)))


def _findings_without_ledger(settings: Settings) -> Iterator[Finding]:
    """Yield findings for a folder without a ledger: none if it is new, or signs that a ledger was lost."""
    streams = data_dir_checks.streams_folder(settings)
    traces = [str(streams / f"{step}.jsonl") for step in journals.journals_in(streams)]
    traces += map(str, data_dir_checks.backups(settings))
    if traces:
        yield found("ledger_missing", traces)
    yield from _stray_locks(settings, frozenset())


def _ledger_findings(settings: Settings, ledger: Inspection, progress: Progress) -> Iterator[Finding]:
    locks = WorkerLocks(data_dir_checks.workers_folder(settings))
    # In this order: a worker that leaves goes from the ledger first. A worker that existed before its lock was seen
    # free, and is there still when the ledger is read, is dead.
    workers = ledger.workers()
    dead = [worker for worker in workers if _is_free(locks, worker)]
    for offence in ledger.violations(dead=dead, progress=progress):
        yield found(offence.code, offence.places, offence.count)
    yield from _stray_locks(settings, workers | ledger.workers())
    yield from _spools(settings)
    faulty = journals.faulty_journals(
        data_dir_checks.streams_folder(settings), journals.with_held(settings, ledger.endings)
    )
    for code in sorted(set(faulty.values())):
        yield found(code, [str(path) for path, verdict in faulty.items() if verdict == code])


def _stray_locks(settings: Settings, known: Collection[WorkerId]) -> Iterator[Finding]:
    with suppress(OSError):  # a folder that cannot be read is found by other means
        if stray := WorkerLocks(data_dir_checks.workers_folder(settings)).stray(set(known)):
            yield found("lock_stray", list(map(str, stray)))


def _spools(settings: Settings) -> Iterator[Finding]:
    if left := journals.left(settings):
        yield found("spool_waiting", left)
    if refused := journals.refused(settings):
        yield found("spool_refused", refused)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # it cannot be reached, which opening it will say better


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return True


def _is_free(locks: WorkerLocks, worker: WorkerId) -> bool:
    try:
        return locks.is_free(worker)
    except OSError:
        return False  # what cannot be asked is not known to be dead
