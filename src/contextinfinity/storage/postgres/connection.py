"""Opening connections to PostgreSQL, and what its errors mean for a caller.

PostgreSQL's ``text`` cannot hold the character U+0000, and messages may: it is escaped on the way in and restored on
the way out, with two characters that Unicode sets aside for internal use.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.types.string import TextLoader

from contextinfinity.errors import (
    AccessDenied,
    ContextInfinityError,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerReadOnly,
    SettingsError,
)

SCHEMA = "contextinfinity"
"""The schema that holds the ledger."""

CONNECT_SECONDS = 3
STATEMENT_SECONDS, LOCK_SECONDS = 60, 10

_OPTIONS = (
    f"{{0}} search_path = {SCHEMA}, public; {{0}} statement_timeout = '{STATEMENT_SECONDS}s';"
    f"{{0}} lock_timeout = '{LOCK_SECONDS}s'"
)

_TAKE_SLOT = """SELECT set_config('contextinfinity.slot', (SELECT slot FROM generate_series(0, 4095) AS slot
  WHERE pg_try_advisory_lock(hashtext('contextinfinity.slot'), slot) LIMIT 1)::text, false)"""
"""The counters that this connection writes; the lock is held for as long as it is open."""

RETRIED = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
"""Two transactions met: the one that lost is run again and finds what the other wrote."""

_CAUSES: tuple[tuple[type[psycopg.Error], type[LedgerError], str], ...] = (
    (errors.SerializationFailure, LedgerBusy, "was changed by others all the time"),
    (errors.DeadlockDetected, LedgerBusy, "was changed by others all the time"),
    (errors.LockNotAvailable, LedgerBusy, "is locked by another transaction"),
    (errors.QueryCanceled, LedgerBusy, "did not answer in time"),
    (errors.DiskFull, LedgerFailed, "cannot grow: the disk of its server is full"),
    (errors.ReadOnlySqlTransaction, LedgerReadOnly, "is read only: it may be a standby server"),
    (errors.InsufficientPrivilege, LedgerReadOnly, "does not allow this to the role of the connection"),
    (errors.UndefinedTable, LedgerCorrupt, "does not have the schema of a ledger"),
    (errors.UndefinedColumn, LedgerCorrupt, "does not have the schema of a ledger"),
    (psycopg.IntegrityError, LedgerFailed, "refused, ConstraintError"),
    (psycopg.OperationalError, LedgerFailed, "cannot be reached"),
    (psycopg.InterfaceError, LedgerFailed, "cannot be reached"),
)

_FOREIGN = re.compile("^(user_id|tenant):|row-level security policy")
"""What the database says when it keeps owners apart."""

UNREADABLE = (ValueError, msgspec.DecodeError, zlib.error)
"""What reading a row raises when it does not hold what this program writes."""


class DatabaseUrl:
    """The URL of the database for libpq, and the same without password for display.

    ``pgbouncer=true`` in the URL turns prepared statements off, which a transaction pooler does not keep.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        pooled = dict(query).get("pgbouncer") == "true"
        self.prepare_threshold = None if pooled else 3
        self.begin = f"; {_OPTIONS.format('SET LOCAL')}" if pooled else ""
        """What a transaction begins with: a pooler keeps no settings of a connection."""
        self.conninfo = urlunsplit(parts._replace(query=urlencode([pair for pair in query if pair[0] != "pgbouncer"])))
        host = parts.netloc.rpartition("@")[2] or dict(query).get("host", "localhost")
        self.name = f"postgresql://{host}{parts.path}"
        try:
            psycopg.conninfo.conninfo_to_dict(self.conninfo)
        except psycopg.Error as error:
            raise SettingsError(f"storage.url is not a PostgreSQL URL: {error}".strip()) from error


def connect(address: DatabaseUrl) -> psycopg.Connection[Any]:
    """Open a connection on which every transaction is begun and ended by its user."""
    connection = psycopg.connect(
        address.conninfo,
        autocommit=True,
        prepare_threshold=address.prepare_threshold,
        connect_timeout=CONNECT_SECONDS,
        application_name="contextinfinity",
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
    if not address.begin:
        connection.execute(f"{_OPTIONS.format('SET')}; {_TAKE_SLOT}".encode(), prepare=False)
    connection.adapters.register_loader("text", _TextLoader)
    return connection


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn PostgreSQL's errors inside the block into ours, and those of rows that make no sense."""
    try:
        yield
    except (psycopg.Error, *UNREADABLE) as error:
        raise translate(error, name) from error


def translate(error: BaseException, name: str) -> ContextInfinityError:
    """Return the error that a caller gets."""
    said = str(error).strip().partition("\n")[0]
    if isinstance(error, errors.InsufficientPrivilege) and _FOREIGN.search(said):
        return AccessDenied(f"The ledger {name} rejected a row of another owner ({said}).")
    for theirs, ours, words in _CAUSES:
        if isinstance(error, theirs):
            return ours(f"The ledger {name} {words} ({said}).", hint=_hint(ours))
    if isinstance(error, UNREADABLE):
        return LedgerCorrupt(f"The ledger {name} holds something that cannot be read ({said}).")
    return LedgerFailed(f"The ledger {name} returned an error: {said}.", hint=_hint(LedgerFailed))


def _hint(kind: type[LedgerError]) -> str | None:
    return "Check that PostgreSQL runs and that storage.url is right, then try again." if kind is LedgerFailed else None


_ESCAPE, _ZERO = "\ufdd0", "\ufdd1"
_ESCAPED = re.compile(f"{_ESCAPE}([{_ESCAPE}{_ZERO}])")


def escape_text(text: str) -> str:
    """Write U+0000 as two characters that PostgreSQL takes."""
    if "\x00" in text or _ESCAPE in text:
        return text.replace(_ESCAPE, 2 * _ESCAPE).replace("\x00", _ESCAPE + _ZERO)
    return text


class _TextLoader(TextLoader):
    """Restores it."""

    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        return text if _ESCAPE not in text else _ESCAPED.sub(lambda at: "\x00" if at[1] == _ZERO else _ESCAPE, text)
