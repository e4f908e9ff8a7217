"""Idempotency keys: the transaction that creates something stores the key, and a repeated request returns it."""

from __future__ import annotations

from contextinfinity.domain.session import IdempotencyKey
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_same_request
from contextinfinity.storage.ledger.rows import pack_hash


def made_before(connection: Connection, once: IdempotencyKey | None) -> tuple[bytes, bytes | None] | None:
    """Return the (session, turn) that the request with this key created; None if the key is new or missing."""
    row = None if once is None else connection.one("select_request", (pack_hash(once.key),))
    if once is None or row is None:
        return None
    check_same_request(once, row[0].hex())
    return row[1], row[2]


def note_request(connection: Connection, once: IdempotencyKey | None, session_id: bytes, turn_id: bytes | None) -> None:
    """Store what the request with this key created."""
    if once is not None:
        connection.execute("insert_request", (pack_hash(once.key), pack_hash(once.asked), session_id, turn_id))


def forget_requests(connection: Connection, session_id: bytes) -> None:
    """Delete the keys of a session that is being deleted."""
    connection.execute("delete_requests", (session_id,))
