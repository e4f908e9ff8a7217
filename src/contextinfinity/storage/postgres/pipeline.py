"""Runs statements of one transaction in libpq's pipeline mode.

A statement whose result is not asked for is sent without waiting: its error, if any, is raised by the next statement
that waits, at the latest by the commit. Every statement is prepared once a connection, unless a pooler is in between.
"""

from __future__ import annotations

import re
import select
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType
from typing import Any, TypeAlias

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Transformer

from contextinfinity.storage.database import Row
from contextinfinity.storage.postgres.connection import DatabaseUrl, connect, escape_text
from contextinfinity.storage.postgres.silence import ServerSilence

_Parameter: TypeAlias = tuple[bytes | None, int, int]
"""Value, OID of its type (0: as the statement takes it), and format (1: binary)."""

_INT8, _NUMERIC, _BYTEA, _FLOAT8, _BOOL = 20, 1700, 17, 701, 16
_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\))?s|%%")
_FAILED = (int(pq.ExecStatus.FATAL_ERROR), int(pq.ExecStatus.BAD_RESPONSE))
_ABORTED, _SYNC = int(pq.ExecStatus.PIPELINE_ABORTED), int(pq.ExecStatus.PIPELINE_SYNC)


@cache
def numbered(sql: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbered placeholders, and the names of its values; none if they go by position."""
    names: list[str] = []
    count = 0

    def place(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[0] == b"%%":
            return b"%"
        if found[1] is None:
            count += 1
            return b"$%d" % count
        name = found[1].decode()
        if name not in names:
            names.append(name)
        return b"$%d" % (names.index(name) + 1)

    return _PLACEHOLDER.sub(place, sql), tuple(names)


def _integer(value: int) -> _Parameter:
    return b"%d" % value, _INT8 if -(2**63) <= value < 2**63 else _NUMERIC, 0


_PARAMETERS: dict[type, Callable[[Any], _Parameter]] = {
    str: lambda value: (escape_text(value).encode(), 0, 0),
    int: _integer,
    bytes: lambda value: (value, _BYTEA, 1),
    NoneType: lambda _: (None, 0, 0),
    float: lambda value: (repr(value).encode(), _FLOAT8, 0),
    bool: lambda value: (b"t" if value else b"f", _BOOL, 0),
    bytearray: lambda value: (bytes(value), _BYTEA, 1),
    memoryview: lambda value: (bytes(value), _BYTEA, 1),
}
"""How values are sent, by their type."""


def parameter(value: Any) -> _Parameter:
    """Return a value as libpq sends it."""
    kind = type(value)
    if kind not in _PARAMETERS:  # an enumeration, for example
        kind = next((base for base in kind.__mro__ if base in _PARAMETERS), kind)
    return _PARAMETERS[kind](value)


SentStatement: TypeAlias = list[Any]
"""A statement that was sent: empty, and then its result."""


class PostgresSession:
    """The state of a connection: its prepared statements and row readers."""

    def __init__(self, address: DatabaseUrl) -> None:
        self.address = address
        self.connection = connection = connect(address)
        self.prepared: dict[tuple[bytes, tuple[int, ...]], bytes] | None = None if address.begin else {}
        self.reader = Transformer.from_context(connection)
        self.waiting = select.poll()
        self.waiting.register(connection.fileno(), select.POLLIN)
        self.count = 0
        self.unread: Pipeline | None = None
        """The last transaction, if its end was not waited for."""

    def is_usable(self) -> bool:
        """Finish the last transaction; return whether the server has not closed the connection."""
        unread, self.unread = self.unread, None
        try:
            if unread is not None:
                unread.finish()
        except psycopg.Error:
            return False
        return not self.connection.closed and not self.waiting.poll(0)


class Pipeline:
    """One transaction on a connection, from its ``BEGIN`` on."""

    def __init__(self, session: PostgresSession, silence: ServerSilence) -> None:
        self._session = session
        self._silence = silence
        self._server = session.connection.pgconn
        self._syncs = 0
        self._pending: deque[SentStatement] = deque()
        self._new: list[tuple[bytes, tuple[int, ...]]] = []
        self._last: Any = None
        self.is_committing = False
        self._server.enter_pipeline_mode()

    def begin(self, statement: bytes) -> None:
        """Begin the transaction; behind a pooler with the settings that it does not keep."""
        for each in (statement, *self._session.address.begin.encode().split(b";")):
            if each.strip():
                self.send_once(each)

    def send(self, sql: bytes, given: Sequence[Any] = ()) -> SentStatement:
        """Send a statement with the values of its placeholders, without waiting for its result."""
        text = numbered(sql)[0]
        data, types, formats = zip(*map(parameter, given), strict=True) if given else ((), (), ())
        prepared = self._session.prepared
        if prepared is None:
            self._server.send_query_params(text, data, types, formats)
        else:
            key = text, types
            if (name := prepared.get(key)) is None:
                self._session.count += 1
                name = prepared[key] = b"s%d" % self._session.count
                self._new.append(key)
                self._server.send_prepare(name, text, types)
                self._pending.append([])
            self._server.send_query_prepared(name, data, formats)
        return self._sent()

    def send_once(self, sql: bytes) -> SentStatement:
        """Send a statement without values that is not worth preparing."""
        self._server.send_query_params(sql, ())
        return self._sent()

    def _sent(self) -> SentStatement:
        sent: SentStatement = []
        self._pending.append(sent)
        return sent

    def rows(self, sent: SentStatement) -> list[Row]:
        """Return the rows of a statement."""
        if not sent:
            self.wait()
        result, reader = sent[0], self._session.reader
        reader.set_pgresult(result)
        return reader.load_rows(0, result.ntuples, tuple) if result.nfields else []

    def wait(self) -> Any:
        """Wait until everything that was sent has run; return the result of the last statement."""
        if self._pending:
            self._server.send_flush_request()
            with self._silence:
                self._read_all()
        return self._last

    def commit(self) -> None:
        """Commit, and leave the pipeline mode."""
        self.is_committing = True
        self.send_once(b"COMMIT")
        self._sync()
        with self._silence:
            self._read_all()
            self._leave()

    def release(self) -> None:
        """End a transaction that only reads, without waiting; the connection's next one reads what is left."""
        self.send_once(b"COMMIT")
        self._sync()
        self._flush()
        self._session.unread = self

    def finish(self) -> None:
        """Read what ``release`` has left."""
        with self._silence:
            self._read_all()
            self._leave()

    def abandon(self) -> None:
        """Leave the pipeline mode after an error, and roll back; what was sent and did not fail has no effect."""
        for key in self._new:  # they may not have been prepared
            if self._session.prepared is not None:
                self._session.prepared.pop(key, None)
        if not self._session.connection.closed and self._server.pipeline_status != pq.PipelineStatus.OFF:
            self._sync()
            with self._silence:
                self._flush()
                self._leave()

    def _sync(self) -> None:
        self._server.pipeline_sync()
        self._syncs += 1

    def _leave(self) -> None:
        """Read up to the end of the pipeline, and leave its mode."""
        while self._syncs:
            if (found := self._next()) is not None and found.status == _SYNC:
                self._syncs -= 1
        self._server.exit_pipeline_mode()

    def _read_all(self) -> None:
        self._flush()
        while self._pending:
            self._last = self._result()
            self._pending.popleft().append(self._last)

    def _result(self) -> Any:
        """Return the result of the next statement; raise its error."""
        while (found := self._next()) is None:  # the end of the results of the statement before
            pass
        status = found.status
        if status in _FAILED:
            raise errors.error_from_result(found)
        if status == _ABORTED:
            raise psycopg.OperationalError("the pipeline was aborted")
        return found

    def _next(self) -> Any:
        server = self._server
        while server.is_busy():
            self._session.waiting.poll()
            server.consume_input()
        return server.get_result()

    def _flush(self) -> None:
        """Send what waits to be sent, reading meanwhile so that neither side waits for the other."""
        while self._server.flush():
            poll = select.poll()
            poll.register(self._server.socket, select.POLLIN | select.POLLOUT)
            if any(event & ~select.POLLOUT for _, event in poll.poll()):
                self._server.consume_input()
