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

Unused bytes of a page are the space between the cell pointers of a b-tree page and its cells. When SQLite distributes
rows over neighbouring pages, it does not overwrite the places they had before, so copies of rows remain in the unused
bytes of pages and outlive the rows. Only a ``VACUUM`` of the whole file would remove them, and it would stop all
writers meanwhile.

SQLite never reads these bytes, so they are overwritten in the file, a range of pages at a time. This is safe under two
conditions: the write-ahead log is empty, so the file alone is the current state, and the write lock is held, so no
process appends to the log and no checkpoint writes to the file. The transaction of a range always changes a row: other
connections then drop the pages in their caches, which still have the old bytes.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from contextinfinity.domain.ids import now, to_millis
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.sqlite.named_sql import SqliteConnection

if TYPE_CHECKING:
    import apsw

    from contextinfinity.storage.sqlite.database import SqliteDatabase

RANGE = 512
"""Pages per transaction; a few milliseconds."""
READ = 64
"""Pages per read."""
TRIES = 5
"""How often the log is emptied; another writer may append to it in the next moment."""
FRONT_BYTES = 100

HEADER_BYTES: Final = {2: 12, 5: 12, 10: 8, 13: 8}
"""The types of b-tree pages, with the sizes of their headers."""
MAX_PAGES = 1 << 25
"""From here on (137 GB) the number of a page can look like the type of a b-tree page."""
LOCK_BYTE = 1 << 30
MAGIC = b"SQLite format 3\0"


class Layout:
    """The file header: what applies to all pages of a file."""

    def __init__(self, page: bytes) -> None:
        self.page_size = int.from_bytes(page[16:18], "big")
        self.page_size = 65536 if self.page_size == 1 else self.page_size
        self.usable = self.page_size - page[20]
        self._has_maps = any(page[52:56])  # auto_vacuum

    def is_special(self, number: int) -> bool:
        """Return whether a page is a pointer map or the page of the lock byte, not a b-tree page."""
        lock_page = LOCK_BYTE // self.page_size + 1
        if number == lock_page:
            return True
        every = self.usable // 5 + 1
        place = (number - 2) // every * every + 2
        return self._has_maps and number == (place + 1 if place == lock_page else place)

    def unused(self, page: bytes) -> slice | None:
        """Return where a page has unused bytes that are not zero; None if nowhere, or if it is no b-tree page."""
        header = HEADER_BYTES.get(page[0])
        if header is None:
            return None
        start = header + 2 * int.from_bytes(page[3:5], "big")
        end = int.from_bytes(page[5:7], "big") or 65536
        if not start <= end <= self.usable or page.count(0, start, end) == end - start:
            return None
        return slice(start, end)


def begin_alone(connection: apsw.Connection) -> bool:
    """Begin a transaction that holds the write lock while the log is empty; return whether it was possible.

    It is not while another process reads an older state, or while others write all the time. Use a connection of its
    own: a transaction that changed pages, or a cache with pages, would write their old bytes to the log again.
    """
    log = Path(f"{connection.filename}-wal")
    for _ in range(TRIES):
        if empty_log(connection):
            with suppress(apsw.BusyError):
                connection.execute("BEGIN IMMEDIATE")
                if log.stat().st_size == 0:
                    return True
                connection.execute("ROLLBACK")
    return False


def empty_log(connection: apsw.Connection) -> bool:
    """Truncate the write-ahead log; return whether it was possible."""
    with suppress(apsw.BusyError):
        pages, copied = connection.wal_checkpoint()  # passive: it does not block writers if there is a reader
        if pages == copied:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return True
    return False


def overwrite_range(connection: apsw.Connection, first: int) -> int | None:
    """Overwrite the unused bytes of some pages; return the page after them, None behind the last page.

    The transaction must have begun with ``begin_alone``, and has to change a row before it is committed.
    """
    # Opened with SQLite's VFS, which closes it only when this process has no locks on it: closing it would drop them.
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile(connection.open_vfs, connection.filename, flags)
    try:
        front = file.xRead(FRONT_BYTES, 0)
        if not front.startswith(MAGIC):
            return None  # the file is encrypted, and so is what remains in its pages
        layout = Layout(front)
        pages = file.xFileSize() // layout.page_size
        if pages >= MAX_PAGES:
            return None
        first = max(first, 2)  # the first page holds the schema
        end = min(first + RANGE, pages + 1)
        if sum(_overwrite(file, layout, start, min(start + READ, end)) for start in range(first, end, READ)):
            file.xSync(apsw.SQLITE_SYNC_NORMAL)
        return end if end <= pages else None
    finally:
        file.xClose()


def _overwrite(file: apsw.VFSFile, layout: Layout, first: int, end: int) -> int:
    """Overwrite the unused bytes of these pages; return how many pages had some."""
    size, found = layout.page_size, 0
    content = file.xRead(size * (end - first), size * (first - 1))
    for number in range(first, end):
        page = content[size * (number - first) :][:size]
        unused = None if layout.is_special(number) else layout.unused(page)
        if unused is not None:
            file.xWrite(bytes(unused.stop - unused.start), size * (number - 1) + unused.start)
            found += 1
    return found


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
