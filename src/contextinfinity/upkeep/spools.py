"""What waits beside the ledger to be written into it: the spools of processes that are gone."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from contextinfinity.domain.ids import StepId
from contextinfinity.errors import LedgerError
from contextinfinity.settings import Settings
from contextinfinity.storage.standby.records import cargo_of, steps_in
from contextinfinity.storage.standby.spool import REFUSED, SUFFIX, Spool, records_in, waiting
from contextinfinity.text.plurals import counted
from contextinfinity.upkeep.files import spool_folder
from contextinfinity.upkeep.journals import Endings


def left(settings: Settings) -> list[str]:
    """Name the spools that nobody holds, with what is in them."""
    folder = spool_folder(settings)
    return [
        f"{folder / name}{SUFFIX}: {counted(_turns(folder, name), 'turn')}"
        for name in waiting(folder)
        if _free(folder, name)
    ]


def refused(settings: Settings) -> list[Path]:
    """Name the spools that were set aside, since the ledger did not take all of them."""
    folder = spool_folder(settings)
    return sorted(folder.glob(f"*{REFUSED}")) if folder.is_dir() else []


def with_held(settings: Settings, endings: Endings) -> Endings:
    """Know of the steps in spools, too: they are not over, and their journals are needed."""
    folder = spool_folder(settings)
    held = {step for name in waiting(folder) for step in steps_in(_records(folder, name))}

    def of(steps: Collection[StepId]) -> dict[StepId, bool]:
        return {step: False for step in steps if step in held} | endings(steps)

    return of


def _free(folder: Path, name: str) -> bool:
    try:
        spool = Spool.take(folder, name)
    except LedgerError:
        return True  # it cannot be opened, which is worth telling
    if spool is None:
        return False
    spool.close()
    return True


def _turns(folder: Path, name: str) -> int:
    return len(cargo_of(_records(folder, name)).turns)


def _records(folder: Path, name: str) -> list[bytes | None]:
    try:
        return records_in(folder / f"{name}{SUFFIX}")
    except OSError:
        return []
