"""Checks and repairs of journals: torn ones, those of unknown steps, and those without an end whose step has ended.

A journal that is being written is never a finding. Its writer holds a lock, but testing the lock could disturb a
writer, so it is tested for suspicious journals only. These are then checked again, because a writer that finished in
between has written its step to the ledger.

Spools that wait for a replay, or that the ledger rejected, are findings too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection
from itertools import chain, count
from pathlib import Path

from contextinfinity.domain.ids import StepId
from contextinfinity.errors import LedgerError
from contextinfinity.settings import Settings
from contextinfinity.storage.folders import is_locked, sync_file
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.journal.journal_reader import JournalReader, open_lines
from contextinfinity.storage.standby.spool import SUFFIX, is_left, names, read, steps_in
from contextinfinity.storage.standby.spool import refused as refused_in
from contextinfinity.text.plurals import counted
from contextinfinity.upkeep.data_dir_checks import spool_folder

Endings = Callable[[Collection[StepId]], dict[StepId, bool]]
"""Returns for each step that is in the ledger whether it has ended."""


def journals_in(folder: Path) -> list[StepId]:
    """Return the steps that have a journal; none if the folder cannot be read."""
    try:
        return JournalFolder(folder).steps()
    except OSError:
        return []


def faulty_journals(folder: Path, endings: Endings) -> dict[Path, str]:
    """Return the faulty journals with the code of their finding."""
    suspects = _verdicts(folder, journals_in(folder), endings)
    idle = [path.stem for path in suspects if not is_locked(path)]
    return {path: code for path, code in _verdicts(folder, idle, endings).items() if not is_locked(path)}


def set_right(folder: Path, endings: Endings, keep: Path) -> dict[str, int]:
    """Truncate torn journals and move useless ones, keeping a copy of each; return the counts by code."""
    done: dict[str, int] = {}
    for path, code in faulty_journals(folder, endings).items():
        if code in ("journal_stray", "journal_unfinished"):
            _copy(path, keep)
            path.unlink()
        elif code != "journal_torn" or not _truncate_torn_tail(path, keep):
            continue
        done[code] = done.get(code, 0) + 1
    return done


def _verdicts(folder: Path, steps: list[StepId], endings: Endings) -> dict[Path, str]:
    paths = [folder / f"{step}.jsonl" for step in steps]
    looks = [_state_of(path) for path in paths]
    over = endings(steps) if steps else {}
    verdicts = {path: _verdict(state, over.get(path.stem)) for path, state in zip(paths, looks, strict=True)}
    return {path: code for path, code in verdicts.items() if code}


def _state_of(path: Path) -> str:
    """Return the state of a journal file: gone, unreadable, torn, ended or open."""
    try:
        lines = open_lines(path)
        if lines is None:
            return "gone"
        try:
            while lines.next_block():
                pass
            if path.stat().st_size > lines.offset:
                return "torn"
            return "ended" if lines.ended else "open"
        finally:
            lines.close()
    except FileNotFoundError:
        return "gone"
    except (LedgerError, OSError):
        return "unreadable"


def _verdict(state: str, over: bool | None) -> str | None:
    """Return the finding code of a journal, or None; ``over``: whether its step has ended, None if it is unknown."""
    if state == "gone":
        return None
    if state == "unreadable":
        return "journal_unreadable"
    if over is None:
        return "journal_stray"
    if state == "open" and over:
        return "journal_unfinished"
    return "journal_torn" if state == "torn" else None


def _truncate_torn_tail(path: Path, keep: Path) -> bool:
    """Truncate a journal after its last complete entry, unless a writer opened it in the meantime."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _copy(path, keep)
        lines = JournalReader(descriptor, path)
        while lines.next_block():
            pass
        os.ftruncate(descriptor, lines.offset)
        sync_file(descriptor)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _copy(path: Path, keep: Path) -> None:
    """Keep a durable copy under a free name."""
    keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = chain([path.name], (f"{path.stem}.{number}{path.suffix}" for number in count(2)))
    target = next(keep / name for name in names if not (keep / name).exists())
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as copy, path.open("rb") as original:
        shutil.copyfileobj(original, copy)
        copy.flush()
        sync_file(copy.fileno())


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
