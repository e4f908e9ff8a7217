"""The spool: a durable file that keeps what a process acknowledges while the ledger is away.

A spool is a journal, as those of streams are: one JSON entry a line, only ever appended. Its entries are sessions,
texts, turns and recorded exchanges. An entry of a turn holds only what is new of it; ``Spooled`` puts them together.
An entry is on the disk before it is acknowledged. The file belongs to the process that holds its lock. It is removed
once the ledger has everything, or renamed to ``.refused`` if the ledger will never accept some of it.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import msgspec
from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId, new_id, now
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Exchange
from contextinfinity.errors import InvalidInput, LedgerError
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import NewNames, make_private, sync_file, sync_folder
from contextinfinity.storage.journal.journal_reader import JournalEntry, open_lines, to_line, translate
from contextinfinity.storage.journal.journal_writer import Flusher, FlushPolicy, Journal
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.worker_locks import is_at, locked

SUFFIX = ".spool"
REFUSED = ".refused"


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A finished turn from elsewhere that is appended to a branch under the id it brings."""

    branch_id: BranchId
    exchange: Exchange


Item: TypeAlias = ReplayedTurn | Recorded
Record: TypeAlias = NewSession | str | ReplayedTurn | Recorded
_KINDS: dict[str, Any] = {"session": NewSession, "text": str, "turn": ReplayedTurn, "exchange": Recorded}
_REASON = "refused"
"""The event type of the last line of a refused spool, which says why."""


@dataclass
class Spooled:
    """The contents of a spool: sessions, texts, and turns in the order of their acceptance, each with its progress."""

    sessions: dict[SessionId, NewSession] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    turns: dict[TurnId, Item] = field(default_factory=dict)
    damaged: int = 0
    """How many lines could not be read."""

    def __bool__(self) -> bool:
        return bool(self.sessions or self.texts or self.turns)

    def add(self, record: Record) -> None:
        """Add a record; a turn that is there already gets what is new of it."""
        match record:
            case NewSession():
                self.sessions[record.id or ""] = record
            case str():
                self.texts[record] = None
            case ReplayedTurn(turn_id=turn_id) if isinstance(there := self.turns.get(turn_id), ReplayedTurn):
                self.turns[turn_id] = replace(
                    there,
                    begun=there.begun or record.begun,
                    steps=(*there.steps, *record.steps),
                    end=record.end or there.end,
                    failed=there.failed or record.failed,
                )
            case _:
                self.turns[id_of(record)] = record

    def in_order(self) -> list[Item]:
        """Return the turns in the order of their branch: those that the ledger had accepted come first."""
        known = [item for item in self.turns.values() if branch_of(item) is None]
        return [*sorted(known, key=id_of), *(item for item in self.turns.values() if branch_of(item) is not None)]


def id_of(item: Item) -> TurnId:
    """Return the id of an item's turn. Ids that one host makes sort by time."""
    return item.turn_id if isinstance(item, ReplayedTurn) else item.exchange.id or ""


def branch_of(item: Item) -> BranchId | None:
    """Return the branch that an item is appended to; None if the ledger had accepted its turn before."""
    if isinstance(item, Recorded):
        return item.branch_id
    return None if item.new is None else item.new.branch_id


def said_at(item: Item) -> datetime | None:
    """Return when the message of an item was said."""
    return item.said_at if isinstance(item, ReplayedTurn) else item.exchange.created_at


class Spool:
    """The spool of this process: a journal that it creates and locks. Appends that wait share one fsync."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}{SUFFIX}"
        try:
            make_private(folder)
        except OSError as error:
            raise translate(error, self.path) from error
        self._appending: set[asyncio.Task[None]] = set()
        self._reopening = threading.Lock()
        self._journal = self._open()

    @property
    def size(self) -> int:
        """How many bytes are durable."""
        return self._journal.synced

    @property
    def is_busy(self) -> bool:
        """Whether something is being written."""
        return bool(self._appending)

    async def append(self, entries: Sequence[tuple[str, bytes]]) -> None:
        """Append entries that ``written`` made; they survive a power cut when this returns."""
        task = asyncio.create_task(asyncio.to_thread(self._append, entries))
        self._appending.add(task)
        task.add_done_callback(self._appending.discard)
        await asyncio.shield(task)

    def close(self) -> None:
        """Leave the file to the next process. Closing twice does nothing."""
        with suppress(LedgerError):  # what was acknowledged is durable
            self._journal.close()

    def _append(self, entries: Sequence[tuple[str, bytes]]) -> None:
        journal = self._journal
        try:
            for kind, body in entries:
                journal.append(kind, _raw(body))
            journal.sync()
        except LedgerError:
            with self._reopening, suppress(LedgerError, OSError):
                if self._journal is journal:
                    self.close()
                    os.truncate(self.path, journal.synced)  # what was refused must not be replayed
                    self._journal = self._open()
            raise

    def _open(self) -> Journal:
        never = FlushPolicy(flush_seconds=3600, flush_bytes=1 << 30, sync_seconds=3600)
        names = NewNames(self.path.parent)
        protection = protection_of(self.path)
        return Journal(
            self.path, "spool", pace=never, flusher=Flusher(), names=names, protection=protection, on_close=lambda: None
        )


def written(record: Record) -> tuple[str, bytes]:
    """Return a record as it is appended; ``InvalidInput`` if it cannot be written as Unicode."""
    kind = next(kind for kind, value in _KINDS.items() if isinstance(record, value))
    return kind, wire.dumps(record)


class _Line(msgspec.Struct, frozen=True):
    event_type: str
    payload: msgspec.Raw


_read_line = msgspec.json.Decoder(_Line)


def read(path: Path) -> Spooled:
    """Read a spool without its lock. Damaged lines are counted; a line torn by a crash is left out."""
    spooled = Spooled()
    for text in whole_lines(path, protection_of(path)):
        try:
            line = _read_line.decode(text)
            if line.event_type != _REASON:
                spooled.add(wire.loads(_KINDS[line.event_type], bytes(line.payload)))
        except (msgspec.MsgspecError, ValueError, KeyError, InvalidInput):
            spooled.damaged += 1
    return spooled


def whole_lines(path: Path, protection: Protection) -> Iterator[bytes]:
    """Read the lines of a file; one that cannot be opened is returned as it is, one torn by a crash is left out."""
    data = path.read_bytes()
    if not protection.is_on and path.suffix == SUFFIX and not data.startswith(b'{"ts":'):
        yield from old_lines(data)
        return
    for line in data.split(b"\n")[:-1]:
        try:
            yield protection.open_line(line)
        except ValueError:
            yield line


def rewrite(path: Path, spooled: Spooled, reason: str = "") -> None:
    """Replace a spool by one with this content, durably; remove it if there is none."""
    records: Iterable[Record] = (*spooled.sessions.values(), *spooled.texts, *spooled.turns.values())
    entries = [*map(written, records), *([(_REASON, wire.dumps(reason))] if reason else [])]
    if spooled:
        new = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            protection = protection_of(path)
            file.writelines(_line(kind, body, seq, protection) for seq, (kind, body) in enumerate(entries, start=1))
            file.flush()
            sync_file(file.fileno())
        new.replace(path)
    else:
        path.unlink(missing_ok=True)
    sync_folder(path.parent)


def retire(path: Path, reason: str = "") -> None:
    """Remove a spool that the ledger has; with a reason, keep it as refused and say why in its last line."""
    with suppress(OSError):  # a spool that stays is replayed again, which changes nothing
        if not reason:
            path.unlink()
            return
        data, kept = path.read_bytes(), path.with_suffix(REFUSED)
        with path.open("ab") as file:
            file.write(b"" if data.endswith(b"\n") else b"\n")  # it may be torn
            file.write(_line(_REASON, wire.dumps(reason), data.count(b"\n") + 1, protection_of(path)))
            file.flush()
            sync_file(file.fileno())
        path.rename(path.with_name(f"{path.stem}-{new_id()}{REFUSED}") if kept.exists() else kept)
        sync_folder(path.parent)


def refused(folder: Path) -> dict[Path, str]:
    """Name the spools that the ledger did not accept, each with the reason."""
    found: dict[Path, str] = {}
    for path in sorted(folder.glob(f"*{REFUSED}")) if folder.is_dir() else ():
        with suppress(LedgerError, msgspec.MsgspecError):
            found[path] = ""
            if (lines := open_lines(path)) is not None and (last := lines.last()) is not None:
                found[path] = wire.loads(str, msgspec.json.encode(last.payload)) if last.event_type == _REASON else ""
    return found


def names(folder: Path) -> list[str]:
    """Name the spools in a folder, the oldest first."""
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


@contextmanager
def taken(path: Path) -> Iterator[bool]:
    """Lock a spool whose process has ended; gives False if it is gone or another process has the lock."""
    try:
        descriptor = locked(path)
    except FileNotFoundError:
        descriptor = None
    except OSError as error:
        raise translate(error, path) from error
    try:
        yield descriptor is not None and is_at(descriptor, path)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_left(path: Path) -> bool:
    """Return whether a spool is there and its process has ended."""
    with taken(path) as is_free:
        return is_free


def steps_in(folder: Path) -> set[StepId]:
    """Name the steps of all turns in the spools of a folder."""
    steps: set[StepId] = set()
    for name in names(folder):
        with suppress(OSError):  # it was removed just now
            turns = read(folder / f"{name}{SUFFIX}").turns.values()
            steps.update(step.id for item in turns if isinstance(item, ReplayedTurn) for step in item.steps)
    return steps


def _line(kind: str, body: bytes, seq: int, protection: Protection) -> bytes:
    return to_line(JournalEntry(ts=now(), provider="spool", event_type=kind, seq=seq, payload=_raw(body)), protection)


def _raw(body: bytes) -> Any:
    return msgspec.Raw(body)


_FRAME = struct.Struct("<II")


def old_lines(data: bytes) -> Iterator[bytes]:
    """Return its records as lines of the present form, up to the first that is torn; a damaged one as an empty line."""
    place = 0
    while place + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, place)
        record = data[place + _FRAME.size : place + _FRAME.size + length]
        place += _FRAME.size + length
        if not 0 < length == len(record):
            return
        yield _old_line(msgspec.json.decode(record)) if crc32(record) == checksum else b""


def _old_line(form: dict[str, Any]) -> bytes:
    body = form["is"]
    kind = body.pop("type")
    if kind in ("session", "text"):
        body = body["new" if kind == "session" else "body"]
    elif kind != "exchange":
        turn_id = body.pop("turn_id", None) or body["new"]["id"]
        body = {"turn_id": turn_id, **body} if kind != "step" else {"turn_id": turn_id, "steps": [body["step"]]}
        kind = "turn"
    return msgspec.json.encode({"event_type": kind, "payload": {**form, "is": body}})
