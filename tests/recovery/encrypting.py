"""Processes that turn encryption on or off, or change the key, and are killed on the way.

An operation is a SQL statement, or a change of a file or folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import apsw

from contextinfinity.domain.ids import SessionId
from contextinfinity.errors import ContextInfinityError
from contextinfinity.settings import Settings, load_settings
from contextinfinity.storage.encryption.key_sources import VARIABLE, KeySource, new_key
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.upkeep import data_encryption
from tests.recovery.deleting import told

KEY, OTHER = new_key(), new_key()
EVENTS = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "open")


def source_in(folder: Path, name: str = "key") -> KeySource:
    """A key file beside a data_dir."""
    return KeySource(kind="file", name=str(folder.with_name(name)))


def settings_of(folder: Path) -> Settings:
    return load_settings(data_dir=folder).settings


def with_key(folder: Path, key: str = KEY, name: str = "key") -> KeySource:
    """Write a key file."""
    source = source_in(folder, name)
    Path(source.name).write_text(key)
    return source


def encrypt(folder: Path) -> None:
    data_encryption.encrypt(settings_of(folder), with_key(folder), KEY, lambda _done, _all: None)


def decrypt(folder: Path) -> None:
    data_encryption.decrypt(settings_of(folder), lambda _done, _all: None)


def rekey(folder: Path) -> None:
    data_encryption.rekey(settings_of(folder), with_key(folder, OTHER, "other"), OTHER)


def reencrypt(folder: Path) -> None:
    source = with_key(folder, OTHER, "other")
    data_encryption.reencrypt(settings_of(folder), source, OTHER, lambda _done, _all: None)


CHANGES: dict[str, Callable[[Path], None]] = {
    "encrypt": encrypt,
    "decrypt": decrypt,
    "rekey": rekey,
    "reencrypt": reencrypt,
}


def killed(template: Path, work: Path, change: str, die_at: int | None) -> int | None:
    """Change a copy of a data_dir in a process that dies at an operation; None: it died."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)
    for name in ("key", "other"):
        Path(source_in(work, name).name).unlink(missing_ok=True)
    if change != "encrypt":
        with_key(work)
    took: int | None = told(lambda: _count(work, change, die_at))
    return took


def _count(work: Path, change: str, die_at: int | None) -> int:
    done = 0

    def count(*_: object) -> bool:
        nonlocal done
        done += 1
        if done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def audit(event: str, values: tuple[object, ...]) -> None:
        if event in EVENTS and str(work) in str(values[0]):
            count()

    apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", count))
    sys.addaudithook(audit)
    CHANGES[change](work)
    return done


def read(folder: Path, ids: tuple[SessionId, SessionId]) -> list[int]:
    """Open a data_dir with whatever key it names, in another process; the number of turns in two conversations."""
    os.environ.pop(VARIABLE, None)
    found: list[int] = told(lambda: asyncio.run(_read(folder, ids)))
    return found


def error_of(folder: Path, *, without: str | None = None) -> str | None:
    """Open a data_dir in another process, without a key file; the name of the error, None: it opens."""
    if without is not None:
        Path(source_in(folder, without).name).unlink()

    def opened() -> str:
        try:
            asyncio.run(_read(folder, ("", "")))
        except ContextInfinityError as error:
            return type(error).__name__
        return ""

    return told(opened) or None


def in_process(work: Callable[[], None]) -> None:
    """Do something in another process: this one keeps no key in memory."""

    def done() -> bool:
        work()
        return True

    assert told(done)


async def _read(folder: Path, ids: tuple[SessionId, SessionId]) -> list[int]:
    store = SqliteStore(folder / "ledger.db", data_dir=folder)
    try:
        sessions = [await store.sessions.get(session_id) for session_id in ids]
        return [len(await store.turns.history(session.active_branch)) for session in sessions if session is not None]
    finally:
        await store.close()
