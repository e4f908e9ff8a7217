"""A network between a store and the PostgreSQL of the tests, which can delay, drop and refuse."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from tests.postgres import server_url


class Network:
    """Forwards connections to the server's socket. ``url`` is the address of the database behind it."""

    def __init__(self, database: str) -> None:
        parts = urlsplit(database)
        self.socket_path = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self.connect_seconds = 0.0
        """How long it takes to open a connection."""
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}{parts.path}"
        self._accepting = self._accept()

    def _accept(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(self._listener,), daemon=True)
        thread.start()
        return thread

    def _run(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._sockets.add(client)
        time.sleep(self.connect_seconds)
        server = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            server.connect(self.socket_path)
            self._sockets.add(server)
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        self._pump(client, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        for each in (source, target):
            self._sockets.discard(each)
            _end(each)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Deliver nothing for a while, then everything."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Cut all connections and refuse new ones for a while."""
        _end(self._listener)
        self._accepting.join()
        for each in list(self._sockets):
            _end(each)
        try:
            yield
        finally:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            self._accepting = self._accept()

    def close(self) -> None:
        """Cut everything."""
        self._flows.set()
        for each in (self._listener, *self._sockets):
            _end(each)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


def network() -> Iterator[Network]:
    """Yield a network to the server, for a fixture."""
    made = Network(server_url())
    yield made
    made.close()
