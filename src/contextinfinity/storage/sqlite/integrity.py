"""Integrity checks of a ledger.

An ``Inspection`` opens a ledger read-only: it neither writes nor migrates. ``offences`` runs all checks in one read
transaction, so it sees a consistent snapshot of a running engine. An ``IntegrityViolation`` has a code; ``upkeep``
explains it to users.

Rows are streamed; of each violation only the count and the first locations are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import apsw
import msgspec
from msgspec import Struct

from contextinfinity.domain import wire
from contextinfinity.domain.ids import StepId, WorkerId, now, to_millis
from contextinfinity.domain.message import Message, blobs_of
from contextinfinity.errors import ContextInfinityError, LedgerCorrupt
from contextinfinity.storage import sql_files
from contextinfinity.storage.ledger.rows import pack_hash, to_message, unpack
from contextinfinity.storage.sqlite.connection import (
    BUSY_SECONDS,
    BusyHandler,
    connect_unwritable,
    open_database,
    translated,
)
from contextinfinity.storage.sqlite.identity import identity_of, refuse_other
from contextinfinity.storage.sqlite.migrate import (
    DERIVED,
    Objects,
    migrations,
    objects,
    objects_of_migrations,
    version_of,
)

SQL = sql_files.load(__package__, "integrity.sql")

PLACES = 5
"""The number of locations that are kept per violation."""

# Broken references with a specific code; all others are "reference_broken".
_NAMED = frozenset(
    {
        ("state", "branch"),
        ("turn", "branch"),
        ("step", "turn"),
        ("plan", "turn"),
        ("response", "step"),
        ("job", "turn"),
        ("chunk", "turn"),
        ("vector", "chunk"),
    }
)
_UNREADABLE = (UnicodeDecodeError, msgspec.MsgspecError, ContextInfinityError)
_canonical = msgspec.json.Encoder(order="sorted")
_EVERY = 2000  # rows between two progress reports
_PIECE = 1 << 20  # bytes of a raw reply that are decompressed at a time

Progress = Callable[[str, float], None]
"""Called with the current check and the fraction done (0 to 1)."""
ReportProgress = Callable[[float], None]
Check = Callable[[apsw.Connection, ReportProgress], Iterable[str]]


class IntegrityViolation(Struct, frozen=True):
    """A violated invariant: its code, how often it was found, and the first locations."""

    code: str
    count: int
    places: tuple[str, ...]


def _flags(path: Path) -> int:
    """Return the flags with which opening a file leaves it and its log files unchanged.

    A read-only connection never checkpoints a left-over log, but leaves a new log behind; a writable one removes its
    log when it closes.
    """
    is_left = any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
    return apsw.SQLITE_OPEN_READONLY if is_left or not path.is_file() else apsw.SQLITE_OPEN_READWRITE


def _opened(path: Path) -> apsw.Connection:
    connection = open_database(path, flags=_flags(path))
    connection.set_busy_handler(BusyHandler(BUSY_SECONDS))
    return connection


class Inspection:
    """A ledger opened for integrity checks; a context manager. Raises the same errors as opening a ledger."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        with translated(self._path):
            is_writable = os.access(path.parent, os.W_OK)
            self._connection = _opened(path) if is_writable else connect_unwritable(path)
            try:
                self._connection.execute("PRAGMA temp_store = MEMORY")
                self._connection.execute("PRAGMA query_only = ON")
                self._connection.create_scalar_function("named", _named, 1, deterministic=True)
                self._connection.create_scalar_function("is_text", _is_text, 1, deterministic=True)
                self.version = self._version()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Inspection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    @property
    def is_new(self) -> bool:
        """Whether the file exists and is empty."""
        return self.version == 0

    @property
    def is_older(self) -> bool:
        """Whether the file needs a migration."""
        return 0 < self.version < migrations()[-1].version

    def refuse_other(self, known: str | None) -> None:
        """Raise ``LedgerLost`` if this is another ledger than the data_dir's identity file names."""
        refuse_other(self._connection, Path(self._path), known)

    def identity(self) -> str:
        """Return which ledger this is; a backup has the identity of its ledger."""
        return identity_of(self._connection)

    def turns(self) -> int:
        """Return the number of turns; 0 if the file is too damaged to count them."""
        try:
            count: int = self._connection.execute("SELECT count(*) FROM turn").get
        except apsw.Error:
            return 0
        return count

    def workers(self) -> frozenset[WorkerId]:
        """Return workers that are registered, own an unfinished turn or run a job."""
        try:
            return frozenset(name for (name,) in self._connection.execute(SQL["each_worker"]))
        except (apsw.Error, UnicodeDecodeError):
            return frozenset()  # other checks report the damage

    def endings(self, steps: Collection[StepId]) -> dict[StepId, bool]:
        """Return for each step that is in the ledger whether it has ended."""
        with translated(self._path):
            rows = self._connection.execute(SQL["each_step"], {"ids": json.dumps(list(steps))}).fetchall()
        return {str(step): bool(over) for step, over in rows}

    def violations(self, *, dead: Collection[WorkerId], progress: Progress) -> Iterator[IntegrityViolation]:
        """Run all checks on one snapshot. ``dead``: workers whose lock was found free before."""
        with translated(self._path), self._one_moment():
            known = True
            for offence in _schema_violations(self._connection):
                known = known and offence.code != "schema_tables"
                yield offence
            damaged: list[str] = []
            checks = _checks(json.dumps(sorted(dead)))
            for number, (code, check) in enumerate(checks.items()):
                report = _overall_progress(progress, code, number, len(checks))
                try:
                    found = _ask(code, check, self._connection, report)
                except (apsw.CorruptError, UnicodeDecodeError) as error:
                    damaged.append(f"while looking for {code}: {error}")
                    continue
                except apsw.SQLError:
                    if known:
                        raise
                    continue  # a table or column is missing, which was reported already
                if code == "file_damaged":
                    damaged.extend(found.places)
                elif found.count:
                    yield found
            if damaged:
                yield IntegrityViolation("file_damaged", len(damaged), tuple(damaged[:PLACES]))

    def damage(self, *, dead: Collection[WorkerId], progress: Progress) -> Iterator[IntegrityViolation]:
        """Check the file alone, for a ledger of an older release; ``dead`` is not used."""
        with translated(self._path), self._one_moment():
            found = _ask("file_damaged", _damage, self._connection, _overall_progress(progress, "file_damaged", 0, 1))
        if found.count:
            yield found

    def _version(self) -> int:
        try:
            return version_of(self._connection, self._path)
        except apsw.SQLError as error:
            raise LedgerCorrupt(f"The ledger {self._path} does not say which schema it has ({error}).") from error

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _overall_progress(progress: Progress, code: str, number: int, total: int) -> ReportProgress:
    """Convert the progress of one check to overall progress."""
    return lambda part: progress(code, (number + part) / total)


def _ask(code: str, check: Check, connection: apsw.Connection, report: ReportProgress) -> IntegrityViolation:
    """Run a check; count its findings and keep the first locations."""
    report(0.0)
    places: list[str] = []
    count = 0
    for place in check(connection, report):
        count += 1
        if len(places) < PLACES:
            places.append(place)
    return IntegrityViolation(code, count, tuple(places))


def _checks(dead: str) -> Mapping[str, Check]:
    """Return all checks except those of the schema, in order."""
    special: dict[str, Check] = {
        "file_damaged": _damage,
        "reference_broken": _broken_references,
        "message_hash": _wrong_messages,
        "chunk_hash": _wrong_chunks,
        "text_hash": _wrong_texts,
        "blob_hash": _wrong_blobs,
        "blob_lost": _lost_blobs,
        "response_unreadable": _unreadable_responses,
        "branch_circle": _circles,
    }
    values: dict[str, str | int] = {"dead": dead, "now": to_millis(now())}
    values["migrations"] = json.dumps([step.version for step in migrations()])
    return special | {code: _query(sql, values) for code, sql in SQL.items() if not code.startswith("each_")}


def _query(sql: str, values: Mapping[str, str | int]) -> Check:
    def ask(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
        for (place,) in connection.execute(sql, values):
            yield str(place)

    return ask


def _named(*values: apsw.SQLiteValue) -> str:
    """Format an id; ``named`` in SQL."""
    return unpack(values[0]) if isinstance(values[0], bytes) else str(values[0])


def _is_text(*values: apsw.SQLiteValue) -> bool:
    """Return whether bytes are UTF-8; ``is_text`` in SQL."""
    try:
        return isinstance(values[0], bytes) and values[0].decode() is not None
    except UnicodeDecodeError:
        return False


def _schema_violations(connection: apsw.Connection) -> Iterator[IntegrityViolation]:
    ours, wanted = objects(connection), objects_of_migrations()
    tables = list(_differences(ours, wanted, lambda kind: kind not in DERIVED))
    derived = list(_differences(ours, wanted, lambda kind: kind in DERIVED))
    extra = [f"{kind} {name}" for kind, name in ours if (kind, name) not in wanted]
    for code, places in (("schema_tables", tables), ("schema_derived", derived), ("schema_foreign", extra)):
        if places:
            yield IntegrityViolation(code, len(places), tuple(places[:PLACES]))


def _differences(ours: Objects, wanted: Objects, concerns: Callable[[str], bool]) -> Iterator[str]:
    for (kind, name), sql in wanted.items():
        if concerns(kind) and ours.get((kind, name)) != sql:
            yield f"{kind} {name} {'differs' if (kind, name) in ours else 'is missing'}"


def _damage(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    for (words,) in connection.execute("PRAGMA integrity_check"):
        if words != "ok":
            yield str(words)


def _broken_references(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        if (table, parent) not in _NAMED:
            yield f"{table}, which refers to a {parent}"


def _wrong_messages(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    total = _count(connection, "message")
    for number, (key, session, *content, digest) in enumerate(connection.execute(SQL["each_message"])):
        if number % _EVERY == 0:
            report(number / total)
        if not _is_as_hashed(digest, *content):
            yield f"message {key} of session {session}"


def _wrong_chunks(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    total = _count(connection, "chunk")
    last_key, message = None, None
    for number, (uuid, key, *content, start, end, digest) in enumerate(connection.execute(SQL["each_chunk"])):
        if number % _EVERY == 0:
            report(number / total)
        if key != last_key:  # chunks are ordered by message, so each message is read once
            last_key, message = key, _read(*content)
        if message is None or wire.text_hash(message.rendered_text[start:end]) != digest:
            yield f"chunk {uuid}"


def _wrong_texts(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    for key, body, digest in connection.execute(SQL["each_text"]):
        if hashlib.sha256(body).digest() != digest:
            yield f"text {key}"


def _wrong_blobs(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    for name, body, digest in connection.execute(SQL["each_blob"]):
        if hashlib.sha256(body).digest() != digest:
            yield f"blob {name}"


def _lost_blobs(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    """Yield readable messages whose blobs are missing or have no reference row."""
    for key, session, *content in connection.execute(SQL["each_showing"]):
        message = _read(*content)
        for sha256 in () if message is None else blobs_of(message.blocks):
            if not connection.execute(SQL["each_shown"], (pack_hash(sha256), key)).fetchall():
                yield f"blob {sha256}, message {key} of session {session}"


def _unreadable_responses(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    for step, body in connection.execute(SQL["each_response"]):
        if not _unpacks(body):
            yield f"response of step {step}"


def _unpacks(body: bytes) -> bool:
    """Return whether a raw reply can be decompressed completely."""
    unpacking = zlib.decompressobj()
    try:
        while not unpacking.eof:
            if not unpacking.decompress(body, _PIECE) and not unpacking.eof:
                return False
            body = unpacking.unconsumed_tail
    except zlib.error:
        return False
    return True


def _circles(connection: apsw.Connection, report: ReportProgress) -> Iterator[str]:
    """Yield branches whose chain of parents contains a cycle."""
    parents: dict[bytes, bytes] = dict(connection.execute(SQL["each_fork"]).fetchall())  # type: ignore[arg-type]
    walks: dict[bytes, bytes] = {}
    for start in parents:
        branch = start
        while branch in parents and branch not in walks:
            walks[branch] = start
            branch = parents[branch]
        first = branch
        while walks.get(branch) == start:
            yield f"branch {unpack(branch)}"
            branch = parents[branch]
            if branch == first:
                break


def _count(connection: apsw.Connection, table: str) -> int:
    count: int = connection.execute(f"SELECT count(*) FROM {table}").get
    return max(count, 1)


def _read(role: bytes, text: bytes | None, blocks: bytes | None) -> Message | None:
    """Decode a message; None if that is impossible."""
    try:
        return to_message(role.decode(), _text(text), _text(blocks))
    except _UNREADABLE:
        return None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()


def _is_as_hashed(digest: bytes, role: bytes, text: bytes | None, blocks: bytes | None) -> bool:
    message = _read(role, text, blocks)
    if message is None:
        return False
    return digest in (b"", wire.content_hash(message)) or (blocks is not None and _raw_hash(role, blocks) == digest)


def _raw_hash(role: bytes, blocks: bytes) -> bytes:
    """Hash blocks as stored, since this release may not know all block types of a newer one."""
    raw = msgspec.json.decode(blocks)["is"]["blocks"]
    return hashlib.sha256(_canonical.encode({"role": role.decode(), "blocks": raw})).digest()
