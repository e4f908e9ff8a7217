"""What lies around the ledger: who may read it, how much room there is, whether backups are whole."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contextinfinity.settings import Settings
from contextinfinity.storage.sqlite.backup import PARTIAL, PATTERN, is_being_made, is_whole

LEAST_FREE_BYTES = 2**30
"""With less room than this, or than the ledger takes, the disk is low."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def streams_folder(settings: Settings) -> Path:
    """Where journals are."""
    return settings.data_dir / "streams"


def backups_folder(settings: Settings) -> Path:
    """Where backups are."""
    return settings.data_dir / "backups"


def workers_folder(settings: Settings) -> Path:
    """Where the locks of workers are: beside the ledger."""
    return (settings.ledger_path or settings.data_dir / "ledger.db").parent / "workers"


def spool_folder(settings: Settings) -> Path:
    """Where what is said waits while the ledger is away: beside the ledger it belongs to."""
    ledger = settings.ledger_path or settings.data_dir / "ledger.db"
    return ledger.with_name(f"{ledger.name}-spool")


def open_to_others(settings: Settings) -> list[tuple[Path, int]]:
    """Name what somebody else than its owner may use, with its mode."""
    found = []
    for path in _private(settings):
        with suppress(OSError):  # gone meanwhile, or not ours to look at
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OTHERS and not path.is_symlink():
                found.append((path, mode))
    return found


def close_to_others(settings: Settings) -> int:
    """Take access away from everybody but the owner; tell of how many files."""
    done = 0
    for path, mode in open_to_others(settings):
        with suppress(OSError):  # somebody else's: it stays found
            path.chmod(mode & ~_OTHERS)
            done += 1
    return done


def low_disk(settings: Settings, least: int) -> str | None:
    """Tell how much room there is, if that is little; nothing where it cannot be asked."""
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
    """Name the backups there are."""
    return _inside(backups_folder(settings), PATTERN)


def damaged_backups(settings: Settings) -> list[Path]:
    """Name the backups that are no whole ledgers."""
    return [path for path in backups(settings) if not _seems_whole(path)]


def partial_backups(settings: Settings) -> list[Path]:
    """Name the backups that were begun and that nobody works on."""
    return [path for path in _inside(backups_folder(settings), f"*{PARTIAL}") if not is_being_made(path)]


def remove_partial_backups(settings: Settings) -> int:
    """Remove those; tell how many."""
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
    """Everything that holds, or leads to, what was said."""
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
    """Name what is in a folder; nothing if there is none, or if it cannot be read."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
