"""Checks of the data_dir: file permissions, free disk space and backups."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contextinfinity.settings import Settings
from contextinfinity.storage.folders import is_locked
from contextinfinity.storage.sqlite.backup import PARTIAL, PATTERN, is_whole

LEAST_FREE_BYTES = 2**30
"""Less free space than this, or than the size of the ledger, is reported as low."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def streams_folder(settings: Settings) -> Path:
    """Return the folder of journals."""
    return settings.data_dir / "streams"


def backups_folder(settings: Settings) -> Path:
    """Return the folder of backups."""
    return settings.data_dir / "backups"


def workers_folder(settings: Settings) -> Path:
    """Return the folder of worker locks, next to the ledger."""
    return (settings.ledger_path or settings.data_dir / "ledger.db").parent / "workers"


def spool_folder(settings: Settings) -> Path:
    """Return the folder of spools, next to the ledger."""
    ledger = settings.ledger_path or settings.data_dir / "ledger.db"
    return ledger.with_name(f"{ledger.name}-spool")


def open_to_others(settings: Settings) -> list[tuple[Path, int]]:
    """Return files and folders that other users may access, with their modes."""
    found = []
    for path in _private(settings):
        with suppress(OSError):  # gone meanwhile, or not ours to look at
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OTHERS and not path.is_symlink():
                found.append((path, mode))
    return found


def close_to_others(settings: Settings) -> int:
    """Remove the permissions of other users; return the number of changed files."""
    done = 0
    for path, mode in open_to_others(settings):
        with suppress(OSError):  # another user's: it stays reported
            path.chmod(mode & ~_OTHERS)
            done += 1
    return done


def low_disk(settings: Settings, least: int) -> str | None:
    """Return a message if disk space is low; None if it is not, or unknown."""
    ledger = settings.ledger_path
    folder, size = settings.data_dir if ledger is None else ledger.parent, 0
    try:
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if ledger is not None and ledger.exists():
            size = ledger.stat().st_size
    except OSError:
        return None
    if free >= max(least, size):
        return None
    return f"{folder}: {free / 2**20:,.0f} MiB free, the ledger takes {size / 2**20:,.0f} MiB"


def backups(settings: Settings) -> list[Path]:
    """Return all backups."""
    return _inside(backups_folder(settings), PATTERN)


def damaged_backups(settings: Settings) -> list[Path]:
    """Return the backups that are damaged or incomplete."""
    return [path for path in backups(settings) if not _seems_whole(path)]


def partial_backups(settings: Settings) -> list[Path]:
    """Return unfinished backups that no process is writing."""
    return [path for path in _inside(backups_folder(settings), f"*{PARTIAL}") if not is_locked(path)]


def remove_partial_backups(settings: Settings) -> int:
    """Remove unfinished backups that no process is writing; return how many."""
    done = 0
    for path in partial_backups(settings):
        with suppress(OSError):
            path.unlink()
            done += 1
    return done


def _seems_whole(path: Path) -> bool:
    try:
        return is_whole(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _private(settings: Settings) -> Iterator[Path]:
    """Yield all files and folders that must be private."""
    yield settings.data_dir
    if (ledger := settings.ledger_path) is not None:
        yield from (ledger.with_name(f"{ledger.name}{end}") for end in ("", "-wal", "-shm"))
    for folder in (
        streams_folder(settings),
        workers_folder(settings),
        backups_folder(settings),
        spool_folder(settings),
    ):
        yield folder
        yield from _inside(folder, "*")


def _inside(folder: Path, pattern: str) -> list[Path]:
    """Return the matching files in a folder; none if it is missing or unreadable."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
