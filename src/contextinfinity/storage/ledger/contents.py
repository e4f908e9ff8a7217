"""Immutable content that other rows refer to: messages, shared texts, blobs and plans.

Unreferenced texts and blobs are garbage-collected once they are old enough; storing one again resets its age, so a new
one is safe until it is referred to. The scan for garbage runs on a reader; the deletion then checks that ``kept_at``
has not changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import TurnId, now, to_millis
from contextinfinity.domain.message import Json, Message, blobs_of
from contextinfinity.domain.plan import Plan
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.database import Connection, StoreResource, Values, looks, reads, writes
from contextinfinity.storage.ledger.keyword_index import asked_by_index, index_messages
from contextinfinity.storage.ledger.rows import message_columns, pack, pack_hash

MessageColumns: TypeAlias = tuple[str | None, str | None, bytes]
"""Text, blocks and hash of a message, as ``rows.message_columns`` gives them."""


def insert_message(connection: Connection, session_id: bytes, message: Message, columns: MessageColumns) -> int:
    """Insert a message, its index words and its references to blobs; return its key."""
    connection.prefetch(asked_by_index(session_id))
    key = _key(connection.one(*_insertion(session_id, message, columns)))
    _use_blobs(connection, session_id, message, key)
    index_messages(connection, session_id, [(key, message.rendered_text)])
    return key


def prefetch_message(connection: Connection, session_id: bytes, message: Message, columns: MessageColumns) -> None:
    """Announce that a message will be inserted."""
    connection.prefetch(_insertion(session_id, message, columns))


def _insertion(session_id: bytes, message: Message, columns: MessageColumns) -> tuple[str, Values]:
    text, blocks, content_hash = columns
    values = {"session_id": session_id, "role": message.role, "text": text, "blocks": blocks}
    return "insert_message", {**values, "content_hash": content_hash}


def insert_messages(connection: Connection, session_id: bytes, messages: Sequence[Message]) -> Sequence[int]:
    """Insert many messages as ``insert_message`` does, and return their keys."""
    keys = [key for (key,) in connection.many("take_message_keys", {"count": len(messages)})]
    rows = [
        (key, session_id, message.role, *message_columns(message)) for key, message in zip(keys, messages, strict=True)
    ]
    connection.execute_many("insert_numbered_message", rows)
    for key, message in zip(keys, messages, strict=True):
        _use_blobs(connection, session_id, message, key)
    said = [(key, message.rendered_text) for key, message in zip(keys, messages, strict=True)]
    index_messages(connection, session_id, said)
    return keys


def _use_blobs(connection: Connection, session_id: bytes, message: Message, key: int) -> None:
    for sha256 in blobs_of(message.blocks):
        use = {"hash": pack_hash(sha256), "message_key": key, "session_id": session_id}
        if connection.one("use_blob", use) is None:
            raise InvalidInput(
                f"The message refers to a blob {sha256} that is not stored.", hint="Store its bytes first."
            )


def keep_text(connection: Connection, body: str | None, session_id: bytes | None = None) -> int | None:
    """Store a text and return its key; None for None. The age of an existing text is reset.

    ``session_id``: the session that refers to it; a database that separates owners keeps it for that session's owner.
    """
    if body is None:
        return None
    digest, moment = wire.text_hash(body), to_millis(now())
    row = connection.one("select_text_key", {"hash": digest, "session_id": session_id})
    if row is None:
        values = {"hash": digest, "session_id": session_id, "body": body, "now": moment}
        return _key(connection.one("insert_text", values))
    connection.execute("touch_text", (moment, row[0]))
    return _key(row)


def insert_plan(connection: Connection, turn_id: TurnId, session_id: bytes, step_index: int, plan: Plan) -> None:
    """Insert the plan of a request and its references to chunks."""
    key = pack(turn_id)
    connection.execute("insert_plan", (key, step_index, session_id, wire.dumps(plan).decode()))
    for placed in plan.retrieved:
        values = (key, pack(placed.chunk_id), session_id, placed.similarity, placed.rank)
        connection.execute("insert_retrieval", values)


def metadata_column(metadata: Json) -> str | None:
    """Encode metadata as a column value."""
    return None if metadata is None else msgspec.json.encode(metadata).decode()


def _key(row: tuple[int, ...] | None) -> int:
    """Return the key in a row."""
    assert row is not None  # noqa: S101 - RETURNING always gives a row
    return row[0]


def read_text(connection: Connection, sha256: str) -> str | None:
    """Return a text."""
    row = connection.one("select_text", (pack_hash(sha256),))
    return None if row is None else row[0]


def keep_blob(connection: Connection, body: bytes, media_type: str) -> str:
    """Store bytes and return their hash. A message refers to them with the image source ``blob_source(hash)``.

    Writing a message that refers to an unknown blob raises ``InvalidInput``.
    """
    digest = hashlib.sha256(body).digest()
    values = {"hash": digest, "media_type": media_type, "now": to_millis(now()), "body": body}
    connection.many("keep_blob", values)
    return digest.hex()


def read_blob(connection: Connection, sha256: str) -> tuple[bytes, str] | None:
    """Return a blob's bytes and media type."""
    row = connection.one("select_blob", (pack_hash(sha256),))
    return None if row is None else (row[0], row[1])


class Contents(StoreResource):
    """Content-addressed storage of system texts, tool schemas, images and files, by SHA-256 in hex."""

    async def keep_text(self, body: str) -> str:
        """Store a text and return its hash. Storing an existing text again restarts its age for ``collect``."""
        sha256 = wire.text_hash(body).hex()
        await self._database.write(lambda connection: keep_text(connection, body))
        return sha256

    text = looks(read_text)
    keep_blob = writes(keep_blob)
    blob = reads(read_blob)

    async def collect(self, *, older_than: timedelta = timedelta(hours=1)) -> int:
        """Delete unreferenced texts and blobs that were last stored longer ago than this; return how many."""
        before = {"before": to_millis(now() - older_than)}
        return await self._collect("text", before) + await self._collect("blob", before)

    async def _collect(self, kind: str, before: dict[str, int]) -> int:
        idle = await self._database.read(lambda connection: connection.many(f"select_idle_{kind}s", before))
        delete = f"delete_idle_{kind}"
        return await self._database.write(
            lambda connection: sum(connection.one(delete, found) is not None for found in idle)
        )
