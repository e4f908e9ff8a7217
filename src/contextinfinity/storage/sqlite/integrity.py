"""Looking a ledger over: what must hold in the file, asked of the file.

An ``Inspection`` opens a ledger to read and nothing else: it is neither written nor brought to a newer shape.
``offences`` asks everything within one read transaction, so a running engine is seen at one moment and never
half way. An ``IntegrityViolation`` is named as what was found; what it means to people is for others to say.

Rows are streamed; of what is found only the number and the first places are kept, however much it is.
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
"""How many places of one offence are named."""

# Broken references that have a name of their own; the rest is "reference_broken".
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
_EVERY = 2000  # rows between two signs of progress
_PIECE = 1 << 20  # bytes of a raw reply that are unpacked at a time

Progress = Callable[[str, float], None]
"""Is told what is looked at, and which part of it is done (0 to 1)."""
Tell = Callable[[float], None]
Check = Callable[[apsw.Connection, Tell], Iterable[str]]


class IntegrityViolation(Struct, frozen=True):
    """Something that must not be: its name, how often it was found, and the first places."""

    code: str
    count: int
    places: tuple[str, ...]


def _flags(path: Path) -> int:
    """Return how to open a file to look at it: it and the files beside it must be the same afterwards.

    A read-only connection never writes a left-over log into the file, but leaves a log of its own behind; one that
    may write removes its log when it closes.
    """
    is_left = any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
    return apsw.SQLITE_OPEN_READONLY if is_left or not path.is_file() else apsw.SQLITE_OPEN_READWRITE


def _opened(path: Path) -> apsw.Connection:
    connection = open_database(path, flags=_flags(path))
    connection.set_busy_handler(BusyHandler(BUSY_SECONDS))
    return connection


class Inspection:
    """A ledger that is being looked at. Raises what opening a ledger raises; closes with the ``with`` block."""

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
        """Whether the file is there and holds nothing yet."""
        return self.version == 0

    @property
    def is_older(self) -> bool:
        """Whether the file has yet to be brought to the shape this release knows."""
        return 0 < self.version < migrations()[-1].version

    def refuse_other(self, known: str | None) -> None:
        """Raise ``LedgerLost`` when this is not the ledger that the data_dir remembers."""
        refuse_other(self._connection, Path(self._path), known)

    def identity(self) -> str:
        """Return which ledger this is; a backup has the identity of its ledger."""
        return identity_of(self._connection)

    def turns(self) -> int:
        """Count the turns; none in a file too damaged to count them."""
        try:
            count: int = self._connection.execute("SELECT count(*) FROM turn").get
        except apsw.Error:
            return 0
        return count

    def workers(self) -> frozenset[WorkerId]:
        """Name everybody who is registered, owns an unfinished turn or runs a job."""
        try:
            return frozenset(name for (name,) in self._connection.execute(SQL["each_worker"]))
        except (apsw.Error, UnicodeDecodeError):
            return frozenset()  # what is wrong with the file is said elsewhere

    def endings(self, steps: Collection[StepId]) -> dict[StepId, bool]:
        """Return of each of these steps that is in the ledger now whether it is over."""
        with translated(self._path):
            rows = self._connection.execute(SQL["each_step"], {"ids": json.dumps(list(steps))}).fetchall()
        return {str(step): bool(over) for step, over in rows}

    def offences(self, *, dead: Collection[WorkerId], progress: Progress) -> Iterator[IntegrityViolation]:
        """Ask everything of one moment of the file. ``dead``: workers whose lock was seen free before."""
        with translated(self._path), self._one_moment():
            known = True
            for offence in _schema_offences(self._connection):
                known = known and offence.code != "schema_tables"
                yield offence
            damaged: list[str] = []
            checks = _checks(json.dumps(sorted(dead)))
            for number, (code, check) in enumerate(checks.items()):
                tell = _telling(progress, code, number, len(checks))
                try:
                    found = _ask(code, check, self._connection, tell)
                except (apsw.CorruptError, UnicodeDecodeError) as error:
                    damaged.append(f"while looking for {code}: {error}")
                    continue
                except apsw.SQLError:
                    if known:
                        raise
                    continue  # a table or column is missing, and that has been said
                if code == "file_damaged":
                    damaged.extend(found.places)
                elif found.count:
                    yield found
            if damaged:
                yield IntegrityViolation("file_damaged", len(damaged), tuple(damaged[:PLACES]))

    def damage(self, *, dead: Collection[WorkerId], progress: Progress) -> Iterator[IntegrityViolation]:
        """Check the file alone, for a ledger of an older release; ``dead`` is not used."""
        with translated(self._path), self._one_moment():
            found = _ask("file_damaged", _damage, self._connection, _telling(progress, "file_damaged", 0, 1))
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


def _telling(progress: Progress, code: str, number: int, total: int) -> Tell:
    """Make the part of one question into a part of all of them."""
    return lambda part: progress(code, (number + part) / total)


def _ask(code: str, check: Check, connection: apsw.Connection, tell: Tell) -> IntegrityViolation:
    """Count what a question brings to light, and keep the first places."""
    tell(0.0)
    places: list[str] = []
    count = 0
    for place in check(connection, tell):
        count += 1
        if len(places) < PLACES:
            places.append(place)
    return IntegrityViolation(code, count, tuple(places))


def _checks(dead: str) -> Mapping[str, Check]:
    """Every question but those about the schema, in the order they are asked."""
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
    def ask(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
        for (place,) in connection.execute(sql, values):
            yield str(place)

    return ask


def _named(*values: apsw.SQLiteValue) -> str:
    """Write an id; ``named`` in SQL."""
    return unpack(values[0]) if isinstance(values[0], bytes) else str(values[0])


def _is_text(*values: apsw.SQLiteValue) -> bool:
    """Return whether bytes are UTF-8; ``is_text`` in SQL."""
    try:
        return isinstance(values[0], bytes) and values[0].decode() is not None
    except UnicodeDecodeError:
        return False


def _schema_offences(connection: apsw.Connection) -> Iterator[IntegrityViolation]:
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


def _damage(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    for (words,) in connection.execute("PRAGMA integrity_check"):
        if words != "ok":
            yield str(words)


def _broken_references(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        if (table, parent) not in _NAMED:
            yield f"{table}, which refers to a {parent}"


def _wrong_messages(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    total = _count(connection, "message")
    for number, (key, session, *content, digest) in enumerate(connection.execute(SQL["each_message"])):
        if number % _EVERY == 0:
            tell(number / total)
        if not _is_as_hashed(digest, *content):
            yield f"message {key} of session {session}"


def _wrong_chunks(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    total = _count(connection, "chunk")
    last_key, message = None, None
    for number, (uuid, key, *content, start, end, digest) in enumerate(connection.execute(SQL["each_chunk"])):
        if number % _EVERY == 0:
            tell(number / total)
        if key != last_key:  # the chunks of a message stand together: it is read once
            last_key, message = key, _read(*content)
        if message is None or wire.text_hash(message.rendered_text[start:end]) != digest:
            yield f"chunk {uuid}"


def _wrong_texts(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    for key, body, digest in connection.execute(SQL["each_text"]):
        if hashlib.sha256(body).digest() != digest:
            yield f"text {key}"


def _wrong_blobs(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    for name, body, digest in connection.execute(SQL["each_blob"]):
        if hashlib.sha256(body).digest() != digest:
            yield f"blob {name}"


def _lost_blobs(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    """What a message that can be read shows has to be there, and noted to be in use."""
    for key, session, *content in connection.execute(SQL["each_showing"]):
        message = _read(*content)
        for sha256 in () if message is None else blobs_of(message.blocks):
            if not connection.execute(SQL["each_shown"], (pack_hash(sha256), key)).fetchall():
                yield f"blob {sha256}, message {key} of session {session}"


def _unreadable_responses(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    for step, body in connection.execute(SQL["each_response"]):
        if not _unpacks(body):
            yield f"response of step {step}"


def _unpacks(body: bytes) -> bool:
    """Unpack a raw reply to its end, piece by piece."""
    unpacking = zlib.decompressobj()
    try:
        while not unpacking.eof:
            if not unpacking.decompress(body, _PIECE) and not unpacking.eof:
                return False
            body = unpacking.unconsumed_tail
    except zlib.error:
        return False
    return True


def _circles(connection: apsw.Connection, tell: Tell) -> Iterator[str]:
    """Follow every branch to its root, each step once; who comes back to a place of the same walk is in a circle."""
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
    """Read a message; None when it cannot be read at all."""
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
    """Hash blocks as they were written: one of a kind this release does not know was hashed by one that does."""
    raw = msgspec.json.decode(blocks)["is"]["blocks"]
    return hashlib.sha256(_canonical.encode({"role": role.decode(), "blocks": raw})).digest()
