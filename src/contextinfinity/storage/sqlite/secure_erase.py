"""Secure erase: removes the remains of deletions from the file and its log.

SQLite overwrites a row when it is deleted (``secure_delete``). What remains: words in the full-text index until it is
rewritten; texts that several rows shared; pages in the log and at the end of the file; and copies of rows in the unused
bytes of pages. The work is done in small steps, so that writers do not wait for long. The progress is stored in
``word_state.stale``, so that the next process continues after a crash:

    1  the index holds words of deleted messages      2  the index is being rewritten without them
    3  the log and pages hold deleted text            0  nothing is left
    4 and more  the unused bytes of all pages before the one with the number of this value less 4 are overwritten

A deletion sets 3 with its first row and 1 with the first message, so a deletion in the meantime begins all of it again.
The log can only be emptied while no other process reads an older snapshot.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from contextinfinity.domain.ids import now, to_millis
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.unused_bytes import begin_alone, empty_log, overwrite_range

if TYPE_CHECKING:
    import apsw

    from contextinfinity.storage.sqlite.database import SqliteDatabase

MERGED = 256
"""Pages of the index rewritten per step; about ten milliseconds."""
FREED = 512
"""Free pages returned to the file system per step."""
YOUNG = timedelta(hours=1)
"""How long an unreferenced text is kept: its writer may be about to refer to it."""

STALE, RENEWING, SOILED, CLEAN, OVERWRITING = 1, 2, 3, 0, 4


async def sweep(database: SqliteDatabase, steps: int) -> bool:
    """Do at most this many steps; return whether more can be done without waiting for other processes."""
    await _collect_texts(database)
    left = True
    for _ in range(steps):
        left = await database.write(_step)
        if not left:
            break
    await database.write(lambda _: None, wipe=True)
    if left or not database.log_was_emptied or await database.look(is_wiped):
        return left
    for _ in range(steps):
        if not await database.overwrite_unused():
            return False
    return True


def overwrite_next(raw: apsw.Connection) -> bool:
    """Overwrite the unused bytes of the next pages, on a connection of its own; return whether more can be done."""
    if not begin_alone(raw):
        return False
    connection = SqliteConnection(raw)
    try:
        (stale,) = connection.one("select_stale")  # type: ignore[misc]
        if stale < SOILED:
            return False  # nothing is left, or more was deleted
        following = overwrite_range(raw, stale - OVERWRITING)
        _set_stale(connection, stale, CLEAN if following is None else OVERWRITING + following)
        raw.execute("COMMIT")
        if following is None:
            empty_log(raw)
        return following is not None
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")


def is_wiped(connection: Connection) -> bool:
    """Return whether the file and its log contain no deleted text."""
    (stale,) = connection.one("select_stale")  # type: ignore[misc]
    return bool(stale == CLEAN)


def set_clean(connection: Connection) -> None:
    """Note that the pages hold no deleted text any more."""
    _set_stale(connection, SOILED, CLEAN)


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
                connection.execute("soil_log")
            connection.execute("tie_text", (key,))

    await database.write(write)


def _read_texts(connection: Connection) -> tuple[set[int], dict[int, set[bytes]], list[Row]]:
    held = {row[0] for row in connection.many("select_held_texts")}
    planned: dict[int, set[bytes]] = {}
    for key, session_id in connection.each("select_planned_texts"):
        planned.setdefault(key, set()).add(session_id)
    return held, planned, connection.many("select_loose_text_uses")
