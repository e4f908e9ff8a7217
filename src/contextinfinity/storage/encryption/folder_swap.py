"""Replacing several files of a folder at once: after a crash either all of them are the old ones or all the new ones.

    swap.partial/    new files while they are written; a crash leaves it, and the next user of the folder removes it
    swap/            all new files and what to remove: renaming the folder to this name is the commit
    swap.done/       what is left after all files have their places

A process that opens a file of the folder after the commit finishes the renames first (``finish_pending``). That needs
no key and is idempotent. Processes that use the folder hold a shared lock on it; a swap holds an exclusive lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from contextinfinity.errors import LedgerBusy, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.folders import make_private, sync_file, sync_folder

PENDING, PARTIAL, DONE = "swap", "swap.partial", "swap.done"
REMOVE = "remove.json"
FILES = "files"
WAIT_SECONDS = 10.0
PAUSE = 0.01


class FolderSwap:
    """The new files of a folder while they are written. Only one may exist, under ``locked_alone``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._partial = root / PARTIAL
        discard(root)
        (self._partial / FILES).mkdir(mode=0o700, parents=True)

    def place(self, path: Path) -> Path:
        """Return where the new form of a file is written; it is created with its mode and without content."""
        new = self._partial / FILES / path.relative_to(self.root)
        new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return new

    def commit(self, remove: Sequence[Path]) -> None:
        """Make all new files durable, replace the old ones by them and remove the others."""
        names = [str(path.relative_to(self.root)) for path in remove]
        (self._partial / REMOVE).write_bytes(msgspec.json.encode(names))
        for folder, _, files in os.walk(self._partial):
            for name in files:
                _sync_file(Path(folder) / name)
            sync_folder(Path(folder))
        self._partial.rename(self.root / PENDING)
        sync_folder(self.root)
        _finish(self.root)


def discard(root: Path) -> None:
    """Remove what a swap left that was not committed."""
    for name in (PARTIAL, DONE):
        if (root / name).is_dir():
            shutil.rmtree(root / name)


def finish_pending(folder: str) -> None:
    """Finish a swap that was committed and interrupted by a crash."""
    pending = f"{folder}/{PENDING}/{REMOVE}"
    if not os.access(pending, os.F_OK):
        return
    end = time.monotonic() + WAIT_SECONDS
    while os.access(pending, os.F_OK):
        with suppress(LedgerBusy), locked_alone(Path(folder)):
            _finish(Path(folder))
            return
        if time.monotonic() > end:
            raise LedgerBusy(f"Another process replaces the files in {folder}.", hint="Try again in a moment.")
        time.sleep(PAUSE)


def _finish(root: Path) -> None:
    """Move every new file to its place; what a crash left undone is done again."""
    pending = root / PENDING
    if not pending.is_dir():
        return
    try:
        for name in msgspec.json.decode((pending / REMOVE).read_bytes(), type=list[str]):
            (root / name).unlink(missing_ok=True)
        targets = {root}
        for folder, _, files in os.walk(pending / FILES):
            target = root / Path(folder).relative_to(pending / FILES)
            make_private(target)
            targets.add(target)
            for name in files:
                (Path(folder) / name).replace(target / name)
        for target in targets:
            sync_folder(target)
        pending.rename(root / DONE)
        sync_folder(root)
        shutil.rmtree(root / DONE)
    except OSError as error:
        raise LedgerFailed(
            f"The files in {root} cannot be replaced ({error.strerror}: {error.filename}).",
            hint="Make the folder writable and try again; no data is lost.",
        ) from error


@contextmanager
def locked_alone(folder: Path) -> Iterator[None]:
    """Hold a folder alone; ``LedgerBusy`` when another process uses it."""
    descriptor = _open(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerBusy(
                f"Another process uses {folder}.", hint="End it (`cix serve`, `cix chat`, …) and try again."
            ) from error
        yield
    finally:
        os.close(descriptor)


def lock_shared(folder: Path) -> int | None:
    """Take part in using a folder; returns a descriptor to be closed at the end.

    What an interrupted swap left is finished or removed first: it may hold plain text. ``LedgerBusy`` when files are
    being replaced. None where there is nothing to lock: the folder cannot be opened, or its file system has no locks.
    """
    end = time.monotonic() + WAIT_SECONDS
    while True:
        finish_pending(str(folder))
        if (folder / PARTIAL).exists() or (folder / DONE).exists():
            with suppress(LedgerBusy), locked_alone(folder):
                discard(folder)
        try:
            descriptor = _open(folder)
        except LedgerReadOnly:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if not (folder / PENDING).exists():
                return descriptor
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(descriptor)
                raise LedgerBusy(f"The files in {folder} are being replaced.", hint="Wait until it is done.") from None
            time.sleep(PAUSE)
        except OSError:
            os.close(descriptor)
            return None
        os.close(descriptor)


def _open(folder: Path) -> int:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LedgerReadOnly(f"The folder {folder} cannot be opened ({error.strerror}).") from error


def _sync_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            sync_file(file.fileno())
    except OSError as error:
        raise LedgerFull(f"The file {path} cannot be written ({error.strerror}).") from error
