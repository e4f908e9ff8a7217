"""Repeats the deletions of a ledger in its backups, with the same operations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import apsw

from contextinfinity.domain.ids import SessionId, TurnId, now, to_millis
from contextinfinity.errors import LedgerCorrupt, LedgerForeign, NotFound
from contextinfinity.storage.ledger.deletions import BATCH, Deletions, begin, delete_batch, delete_turn, expire_turns
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.sqlite.connection import open_database, translated
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.identity import mark_of
from contextinfinity.storage.sqlite.named_sql import SqliteConnection

log = logging.getLogger(__name__)


async def purge(path: Path, sessions: Sequence[SessionId], turns: Sequence[TurnId] = ()) -> None:
    """Delete these sessions, these turns and all expired ones in a backup, and erase their remains from its files.

    If something is to be deleted, an unreadable backup is removed: its content cannot be checked.
    """
    keys, turn_keys = [pack(each) for each in sessions], [pack(each) for each in turns]
    try:
        with translated(str(path)):
            if await asyncio.to_thread(_has_work, path, keys, turn_keys):
                await _purge(path, keys, turn_keys)
    except (LedgerCorrupt, LedgerForeign) as error:
        if sessions or turns:
            log.warning("the backup %s is removed: it is damaged and may hold deleted text (%s)", path, error)
            await asyncio.to_thread(_remove, path)


async def purge_deleted(copy: Path, ledger: Path, since: datetime) -> None:
    """Delete in a new backup everything that was deleted in its ledger while the backup was made."""

    def read(statement: str) -> list[str]:
        connection = open_database(ledger, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return [unpack(row[0]) for row in SqliteConnection(connection).many(statement, (to_millis(since),))]
        finally:
            connection.close()

    with translated(str(ledger)):
        deleted = await asyncio.to_thread(read, "select_deleted_since")
        turns = await asyncio.to_thread(read, "select_turns_deleted_since")
    await purge(copy, deleted, turns)


def _remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink(missing_ok=True)


def _has_work(path: Path, sessions: Sequence[bytes], turns: Sequence[bytes]) -> bool:
    if path.with_name(f"{path.name}-wal").exists():
        return True  # a process was killed while it did this
    connection = open_database(path.absolute(), flags=apsw.SQLITE_OPEN_READONLY, parameters="immutable=1")
    try:
        if any(connection.execute("SELECT 1 FROM session WHERE id = ?", (each,)).fetchall() for each in sessions):
            return True
        if any(connection.execute("SELECT 1 FROM turn WHERE id = ?", (each,)).fetchall() for each in turns):
            return True
        return SqliteConnection(connection).one("select_purgeable", {"now": to_millis(now())}) is not None
    except apsw.SQLError:
        return False  # from a release without a time to live
    finally:
        connection.close()


async def _purge(path: Path, sessions: Sequence[bytes], turns: Sequence[bytes]) -> None:
    database = await asyncio.to_thread(SqliteDatabase, path)
    try:
        deletions = Deletions(database)
        for session in sessions:
            await _delete(database, session)
        for turn in turns:
            await _delete_turn(database, turn)
        for session_id in await deletions.due(limit=2**31):
            await _expire(database, pack(session_id))
        while await deletions.sweep():
            pass
    finally:
        await asyncio.to_thread(database.close)
        mark_of(path).unlink(missing_ok=True)  # a backup may be copied to any place


async def _delete(database: SqliteDatabase, session: bytes) -> None:
    await database.write(lambda connection: begin(connection, session))
    while (await database.write(lambda connection: delete_batch(connection, session, BATCH))).more:
        pass


async def _delete_turn(database: SqliteDatabase, turn: bytes) -> None:
    with suppress(NotFound):
        await database.write(lambda connection: delete_turn(connection, unpack(turn), unsettled=True))


async def _expire(database: SqliteDatabase, session: bytes) -> None:
    moment = to_millis(now())
    while (
        await database.write(lambda connection: expire_turns(connection, session, moment, BATCH, unsettled=True))
    ).more:
        pass
