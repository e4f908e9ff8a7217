"""Secure erase: removes the remains of deletions from the file and its log.

SQLite overwrites a row when it is deleted (``secure_delete``). What remains: words in the full-text index until it is
rewritten; texts that several rows shared; and pages in the log and at the end of the file. The work is done in
small steps, so that writers do not wait for long. The progress is stored in ``word_state.stale``, so that the next
process continues after a crash:

    1  the index holds words of deleted messages      2  the index is being rewritten without them
    3  the log holds deleted text                     0  nothing is left

A deletion sets 3 with its first row and 1 with the first message. The log can only be emptied while no other process
reads an older snapshot.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from contextinfinity.domain.ids import now, to_millis
from contextinfinity.storage.database import Connection, Row

if TYPE_CHECKING:
    from contextinfinity.storage.sqlite.database import SqliteDatabase
    from contextinfinity.storage.sqlite.named_sql import SqliteConnection

MERGED = 256
"""Pages of the index rewritten per step; about ten milliseconds."""
FREED = 512
"""Free pages returned to the file system per step."""
YOUNG = timedelta(hours=1)
"""How long an unreferenced text is kept: its writer may be about to refer to it."""

STALE, RENEWING, SOILED, CLEAN = 1, 2, 3, 0


async def sweep(database: SqliteDatabase, steps: int) -> bool:
    """Do at most this many steps; return whether more can be done without waiting for other processes."""
    await _collect_texts(database)
    left = True
    for _ in range(steps):
        left = await database.write(_step)
        if not left:
            break
    await database.write(lambda _: None, wipe=True)
    if not left and database.log_was_emptied and not await database.look(is_wiped):
        await database.write(lambda connection: _set_stale(connection, SOILED, CLEAN), wipe=True)
    return left


def is_wiped(connection: Connection) -> bool:
    """Return whether the file and its log contain no deleted text."""
    (stale,) = connection.one("select_stale")  # type: ignore[misc]
    return bool(stale == CLEAN)


def _step(connection: SqliteConnection) -> bool:
    """Rewrite a part of the index, or free some pages; return whether there was anything to do."""
    (stale,) = connection.one("select_stale")  # type: ignore[misc]
    if stale in (STALE, RENEWING):
        before = connection.raw.total_changes()
        connection.execute("merge_words", (-MERGED if stale == STALE else MERGED,))
        is_over = connection.raw.total_changes() - before < 2
        _set_stale(connection, stale, SOILED if is_over else RENEWING)
        return True
    (free,) = connection.one("select_free_pages")  # type: ignore[misc]
    if not free or not _can_shrink(connection):
        return False
    connection.raw.execute(f"PRAGMA incremental_vacuum({FREED})").fetchall()
    return True


def _set_stale(connection: Connection, was: int, following: int) -> None:
    connection.execute("set_stale", {"stale": following, "was": was})


def _can_shrink(connection: SqliteConnection) -> bool:
    """Return whether free pages can be released (``auto_vacuum``); in older ledgers they are only reused."""
    mode: int = connection.raw.execute("PRAGMA auto_vacuum").get
    return mode == 2


async def _collect_texts(database: SqliteDatabase) -> None:
    """Delete texts that no row refers to any more."""
    if not await database.read(lambda connection: connection.one("select_loose_texts")):
        return
    held, planned, loose = await database.read(_read_texts)
    old = to_millis(now() - YOUNG)

    def write(connection: Connection) -> None:
        for key, kept_at, personal, session_id in loose:
            is_used = key in held or planned.get(key, set()) - {session_id}
            if not is_used and kept_at is not None:
                if not personal and kept_at > old:
                    continue  # retried the next time
                connection.execute("delete_text", (key, kept_at))
            connection.execute("tie_text", (key,))

    await database.write(write)


def _read_texts(connection: Connection) -> tuple[set[int], dict[int, set[bytes]], list[Row]]:
    held = {row[0] for row in connection.many("select_held_texts")}
    planned: dict[int, set[bytes]] = {}
    for key, session_id in connection.each("select_planned_texts"):
        planned.setdefault(key, set()).add(session_id)
    return held, planned, connection.many("select_loose_text_uses")
