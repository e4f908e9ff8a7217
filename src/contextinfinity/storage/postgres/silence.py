"""Noticing that a server does not answer: paused, unreachable, or about to fail over.

Every round trip is timed. While one takes long, a thread of its own asks the server for something trivial: an answer
means that the server is there and the statement is merely slow, or waits for a lock. An answer that lies in the socket
counts: on a busy machine this process may not have had the time to read it.
"""

from __future__ import annotations

import select
import threading
import time
from typing import Any

import psycopg

from contextinfinity.storage.postgres.connection import DatabaseUrl, connect

FIRST_SECONDS = 0.02
"""After how long without an answer the server is asked."""


class ServerSilence:
    """The time for which the statements of a process have waited without a reply of the server.

    Every wait is a ``with`` block on this object. ``connection``: an idle one to ask on, which this object closes.
    """

    def __init__(self, url: DatabaseUrl, connection: psycopg.Connection[Any]) -> None:
        self._url = url
        self._connection = connection
        self._began: dict[int, float] = {}
        self._answered = 0.0
        self._asked: float | None = None
        """When the server was asked, until it has answered."""
        self._answer: select.poll | None = None
        """The socket on which that answer arrives."""
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
        """Return for how many seconds the server has been silent while a statement waits; 0: none does.

        Only time in which the server was asked is counted: on a busy machine this process may be late to ask.
        """
        waiting = list(self._began.values())
        if not waiting:
            return 0.0
        self._watch()
        asked, answer = self._asked, self._answer
        if asked is None or (answer is not None and answer.poll(0)):
            return 0.0
        present = time.monotonic()
        return max(0.0, min(present - max(min(waiting), self._answered), present - asked + FIRST_SECONDS))

    def close(self) -> None:
        """Stop asking."""
        with self._starting:
            self._closed = True
        self._work.set()
        if self._thread is None:
            self._connection.close()

    def _watch(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._ask, name="postgres-silence", daemon=True)
                self._thread.start()

    def _ask(self) -> None:
        while not self._closed:
            if not self._began:
                self._work.clear()
                self._work.wait(1.0)
                continue
            time.sleep(FIRST_SECONDS)
            if self._began and time.monotonic() - self._answered > FIRST_SECONDS:
                self._asked = time.monotonic()
                try:
                    if self._connection.closed:
                        self._connection = connect(self._url)
                    self._answer = select.poll()
                    self._answer.register(self._connection.fileno(), select.POLLIN)
                    self._connection.execute("SELECT 1", prepare=False)
                    self._answered = time.monotonic()
                except psycopg.Error:
                    self._connection.close()
                finally:
                    self._asked = self._answer = None
        self._connection.close()
