"""Noticing that a server does not answer: paused, unreachable, or about to fail over.

Every round trip is timed. While one takes long, a thread of its own asks the server for something trivial: an answer
means that the server is there and the statement is merely slow, or waits for a lock. An answer that lies in the socket
counts: on a busy machine this process may not have had the time to read it.
"""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from contextinfinity.storage.postgres.connection import DatabaseUrl, connect

FIRST_SECONDS = 0.04
"""After how long without an answer the server is asked."""


class ServerSilence:
    """The time for which the statements of a process have waited without a reply of the server.

    Every wait is a ``with`` block on this object.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
        self._began: dict[int, float] = {}
        self._answered = 0.0
        self._asked: select.poll | None = None
        """The socket on which the server was asked, until it has answered."""
        self._work = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def __enter__(self) -> None:
        """Begin to wait for the server."""
        self._began[threading.get_ident()] = time.monotonic()
        if not self._work.is_set():
            self._work.set()

    def __exit__(self, *details: object) -> None:
        """Note that it has answered."""
        self._began.pop(threading.get_ident(), None)
        self._answered = time.monotonic()

    def seconds(self) -> float:
        """Return for how many seconds the server has been silent while a statement waits; 0: none does."""
        waiting = list(self._began.values())
        if not waiting:
            return 0.0
        self._watch()
        if (asked := self._asked) is not None and asked.poll(0):
            return 0.0
        return max(0.0, time.monotonic() - max(min(waiting), self._answered))

    def close(self) -> None:
        """Stop asking."""
        self._closed = True
        self._work.set()

    def _watch(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._ask, name="postgres-silence", daemon=True)
                self._thread.start()

    def _ask(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        while not self._closed:
            if not self._began:
                self._work.clear()
                self._work.wait(1.0)
                continue
            time.sleep(FIRST_SECONDS)
            if self._began and time.monotonic() - self._answered > FIRST_SECONDS:
                try:
                    if connection is None or connection.closed:
                        connection = connect(self._url)
                    self._asked = select.poll()
                    self._asked.register(connection.fileno(), select.POLLIN)
                    connection.execute("SELECT 1", prepare=False)
                    self._answered = time.monotonic()
                except psycopg.Error:
                    connection = None
                finally:
                    self._asked = None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
