"""Spools that wait for a replay, or that the ledger rejected."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from contextinfinity.domain.ids import StepId
from contextinfinity.errors import LedgerError
from contextinfinity.settings import Settings
from contextinfinity.storage.standby.spool import SUFFIX, is_left, names, read, steps_in
from contextinfinity.storage.standby.spool import refused as refused_in
from contextinfinity.text.plurals import counted
from contextinfinity.upkeep.data_dir_checks import spool_folder
from contextinfinity.upkeep.journals import Endings


def left(settings: Settings) -> list[str]:
    """Return descriptions of the spools whose process has ended."""
    folder = spool_folder(settings)
    paths = [folder / f"{name}{SUFFIX}" for name in names(folder)]
    return [f"{path}: {counted(_turns(path), 'turn')}" for path in paths if _is_left(path)]


def refused(settings: Settings) -> list[str]:
    """Return descriptions of the spools that the ledger rejected, with the reasons."""
    return [f"{path}: {reason}" if reason else str(path) for path, reason in refused_in(spool_folder(settings)).items()]


def with_held(settings: Settings, endings: Endings) -> Endings:
    """Add the steps in spools to the known ones: they have not ended, and their journals are needed."""
    held = steps_in(spool_folder(settings))

    def of(steps: Collection[StepId]) -> dict[StepId, bool]:
        return {step: False for step in steps if step in held} | endings(steps)

    return of


def _is_left(path: Path) -> bool:
    try:
        return is_left(path)
    except LedgerError:
        return True  # it cannot be opened, which has to be reported


def _turns(path: Path) -> int:
    try:
        return len(read(path).turns)
    except OSError:
        return 0
