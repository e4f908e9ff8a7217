"""Requests that may come again, in SQLite: what each made, written in the same transaction."""

from __future__ import annotations

import apsw

from contextinfinity.domain.session import Once
from contextinfinity.storage import sql_files
from contextinfinity.storage.requests import check_same_request
from contextinfinity.storage.sqlite.rows import one, pack_hash

SQL = sql_files.load(__package__, "requests.sql")


def made_before(connection: apsw.Connection, once: Once | None) -> tuple[bytes, bytes | None] | None:
    """Give the session and the turn that a request made when it first came; None: it is new, or has no name."""
    row = None if once is None else one(connection, SQL["select_request"], (pack_hash(once.key),))
    if once is None or row is None:
        return None
    check_same_request(once, row[0].hex())
    return row[1], row[2]


def note_request(connection: apsw.Connection, once: Once | None, session_id: bytes, turn_id: bytes | None) -> None:
    """Write down what a request made."""
    if once is not None:
        connection.execute(SQL["insert_request"], (pack_hash(once.key), pack_hash(once.asked), session_id, turn_id))


def forget_requests(connection: apsw.Connection, session_id: bytes) -> None:
    """Let go of the keys of a session that is deleted."""
    connection.execute(SQL["delete_requests"], (session_id,))
