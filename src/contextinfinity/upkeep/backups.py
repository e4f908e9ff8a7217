"""Checking a backup, restoring it, and removing old backups.

A restore writes the new ledger beside the old one and replaces it in one step (``folder_swap``): after a crash the
data_dir holds the old ledger or the restored one. The ledger that is replaced is backed up first.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from contextinfinity.domain.ids import now
from contextinfinity.errors import InvalidInput, LedgerCorrupt, LedgerError, LedgerReadOnly, NotFound, Refused
from contextinfinity.settings import Settings
from contextinfinity.storage.encryption import folder_swap
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.header import HEADER, Header, write_header
from contextinfinity.storage.encryption.protection import BESIDE, forget, protection_of, unlocked_header
from contextinfinity.storage.sqlite.backup import back_up, copy_backup
from contextinfinity.storage.sqlite.identity import marks_of, remembered
from contextinfinity.storage.sqlite.integrity import Inspection, Progress
from contextinfinity.upkeep.data_dir_checks import backups, backups_folder
from contextinfinity.upkeep.data_encryption import check_room, exclusive_data_dir, holds_conversations
from contextinfinity.upkeep.examine import Report, code_of, silent
from contextinfinity.upkeep.findings import Finding, found


class Restored(Struct, frozen=True, kw_only=True):
    """A restored ledger; ``kept`` is where the ledger that it replaced is, None when there was none."""

    ledger: Path
    turns: int
    kept: Path | None = None


def examine_backup(path: Path, *, progress: Progress = silent) -> Report:
    """Check a backup without changing it. ``EncryptionKeyMissing`` or ``EncryptionKeyWrong`` without its key."""
    if not path.is_file():
        raise NotFound(f"There is no file {path}.")
    protection_of(path)
    findings: list[Finding] = []
    schema, turns = None, 0
    try:
        with Inspection(path) as ledger:
            schema, turns = ledger.version, ledger.turns()
            if ledger.is_new:
                findings.append(found("ledger_foreign", [str(path)], what="The file is empty."))
            else:
                check = ledger.damage if ledger.is_older else ledger.violations
                findings += [found(one.code, one.places, one.count) for one in check(dead=(), progress=progress)]
    except LedgerError as error:
        findings.append(found(code_of(error), [str(path)], what=error.message))
    return Report(ledger=str(path), schema=schema, turns=turns, findings=tuple(findings))


def restore(settings: Settings, backup: Path, *, replace: bool, progress: Progress = silent) -> Restored:
    """Make a backup the ledger of a data_dir that no other process uses.

    ``replace`` allows this where a ledger exists, which is backed up first. Everything is checked before anything is
    changed: a damaged backup, a missing key and a ledger that is in the way are refused.
    """
    ledger = settings.ledger_path
    if ledger is None:
        raise InvalidInput("This ledger is not a file.", hint="Restore it with the tools of its database.")
    report = examine_backup(backup, progress=progress)
    for finding in report.findings:
        if finding.severity == "broken":
            raise LedgerCorrupt(
                f"The backup {backup} cannot be restored: {finding.what} ({finding.where})",
                hint=f"Nothing was changed. `cix doctor {backup}` lists everything.",
            )
    with exclusive_data_dir(settings):
        changed = _is_other_ledger(settings, ledger, backup)
        present = [path for end in ("", "-wal") if (path := Path(f"{ledger}{end}")).exists() and path.stat().st_size]
        if (present or changed) and not replace:
            raise Refused(
                f"{settings.data_dir} has {'a' if present else 'lost another'} ledger.",
                hint="Add --replace: the ledger that is there is backed up first.",
            )
        protection, header = _protection_for(settings, ledger, backup)
        check_room(settings.data_dir, backup.stat().st_size)
        kept = _keep(settings, ledger, present, progress) if present else None
        remove = [Path(f"{ledger}{end}") for end in ("-wal", "-shm")]
        remove += marks_of(ledger, settings.data_dir) if changed else []
        _replace(settings, ledger, backup, protection, header, remove)
    prune_backups(settings)
    return Restored(ledger=ledger, turns=report.turns, kept=kept)


def prune_backups(settings: Settings) -> int:
    """Remove the oldest of our own backups beyond ``retention.backups_kept``; return how many."""
    most, own = settings.retention.backups_kept, backups(settings)
    excess = own[: max(len(own) - most, 0)] if most else []
    for path in excess:
        for name in (path, path.with_name(f"{path.name}{BESIDE}")):
            with suppress(OSError):
                name.unlink(missing_ok=True)
    return len(excess)


def _is_other_ledger(settings: Settings, ledger: Path, backup: Path) -> bool:
    known = remembered(ledger, settings.data_dir)
    if not known:
        return False
    with Inspection(backup) as opened:
        return opened.identity() != known


def _protection_for(settings: Settings, ledger: Path, backup: Path) -> tuple[Protection, Header | None]:
    """Return how the restored ledger is sealed, and the header that an empty data_dir takes over from the backup."""
    theirs = unlocked_header(backup)
    if theirs is None or unlocked_header(settings.data_dir / HEADER) is not None:
        return protection_of(ledger), None
    if holds_conversations(settings):
        raise Refused(
            f"The backup {backup} is encrypted, and {settings.data_dir} is not.",
            hint="Run `cix encrypt` first, or restore into an empty data_dir.",
        )
    return theirs.cipher, theirs.header


def _keep(settings: Settings, ledger: Path, present: list[Path], progress: Progress) -> Path:
    """Back up the ledger that is replaced; one that cannot be read is kept as it is, under another name."""
    try:
        return back_up(ledger, backups_folder(settings), lambda part: progress("backup", part))
    except LedgerError:
        end = f".replaced-{now():%Y%m%dT%H%M%S}"
        for path in present:
            Path(f"{path}{end}").hardlink_to(path)  # the swap removes the old name
        return Path(f"{present[0]}{end}")


def _replace(
    settings: Settings, ledger: Path, backup: Path, protection: Protection, header: Header | None, remove: list[Path]
) -> None:
    root = settings.data_dir
    try:
        swap = folder_swap.FolderSwap(root)
        copy_backup(backup, swap.place(ledger), protection)
        if header is not None:
            write_header(swap.place(root / HEADER), header)
        swap.commit(remove=remove)
    except OSError as error:
        raise LedgerReadOnly(f"{error.filename} cannot be written ({error.strerror}).") from error
    finally:
        folder_swap.discard(root)
        forget(root)
