"""What other rows refer to: messages, shared texts, plans. Written once, never changed."""

from __future__ import annotations

from typing import TypeAlias

import apsw
import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.rows import one, pack

SQL = sql_files.load(__package__, "content.sql")

MessageColumns: TypeAlias = tuple[str | None, str | None, bytes]
"""Text, blocks and hash of a message, as ``rows.message_columns`` gives them."""


def insert_message(connection: apsw.Connection, session_id: bytes, message: Message, columns: MessageColumns) -> int:
    """Keep what was said and give its key."""
    text, blocks, content_hash = columns
    values = {"session_id": session_id, "role": message.role, "text": text, "blocks": blocks}
    return _key(one(connection, SQL["insert_message"], {**values, "content_hash": content_hash}))


def keep_text(connection: apsw.Connection, body: str | None) -> int | None:
    """Keep a text once and give its key; nothing for an empty one."""
    if not body:
        return None
    digest = wire.text_hash(body)
    row = one(connection, SQL["select_text_key"], (digest,))
    return _key(row or one(connection, SQL["insert_text"], (digest, body)))


def insert_plan(connection: apsw.Connection, turn_id: TurnId, session_id: bytes, step_index: int, plan: Plan) -> None:
    """Keep the account of a request and the chunks it held."""
    key = pack(turn_id)
    connection.execute(SQL["insert_plan"], (key, step_index, session_id, wire.dumps(plan).decode()))
    for placed in plan.retrieved:
        values = (key, pack(placed.chunk_id), session_id, placed.similarity, placed.rank)
        connection.execute(SQL["insert_retrieval"], values)


def metadata_column(metadata: Json) -> str | None:
    """Write free-form metadata."""
    return None if metadata is None else msgspec.json.encode(metadata).decode()


def _key(row: tuple[int] | None) -> int:
    """Give the key of a row that was just found or made."""
    assert row is not None  # noqa: S101 - RETURNING always gives a row
    return row[0]
