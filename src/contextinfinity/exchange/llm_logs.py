"""The ``logs.db`` of the command line tool ``llm``: conversations with prompts and responses.

Newer releases keep a tree of messages (``threads``, ``turns``, ``messages``, ``parts``), older ones a table of
``responses``; an upgraded database contains both, and each conversation is in one of them.

The database belongs to another program: it is opened read-only, only its own tables are read, and nothing that its
schema defines (views, triggers, functions) runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, TextBlock, ToolCallItem, arguments_of
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.cix_format import LARGEST_CONVERSATION
from contextinfinity.exchange.conversation_builder import (
    LONGEST_PLACE,
    ConversationBuilder,
    content_of_reply,
    items,
    mapping,
    moment_of,
    reply_text,
    said_by,
    text,
)
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem, ToolOutput
from contextinfinity.exchange.openai_messages import RejectedRecord

_Read: TypeAlias = Callable[[str, object, datetime | None], ExportedConversation]

PROVIDER = "llm"
LONGEST_VALUE = 64 << 20
_RESPONSES = {
    "responses": {"id", "model", "prompt", "system", "response", "conversation_id", "datetime_utc"},
    "conversations": {"id", "name"},
}
_TURNS = {
    "threads": {"id", "name", "datetime_utc"},
    "turns": {"id", "thread_id", "tip_message_hash", "model", "datetime_utc"},
    "messages": {"hash", "parent_hash", "role"},
    "parts": {"message_hash", "position", "type", "text", "payload"},
}
"""The tables of older and newer releases with the columns that are read. A view of the same name is not queried."""

_Failures = (apsw.Error, UnicodeDecodeError)


class LlmLogs:
    """An open ``logs.db``."""

    def __init__(self, path: Path) -> None:
        self._size = 0
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            self._connection = apsw.Connection(f"{path.absolute().as_uri()}?mode=ro", flags=flags)
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            for pragma, value in (("trusted_schema", "OFF"), ("cell_size_check", "ON"), ("query_only", "ON")):
                self._connection.pragma(pragma, value)
            tables = "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
            names = [str(row[0]) for row in self._rows(tables)]
            self._columns = {name: self._columns_of(name) for name in names if name.isidentifier()}
        except apsw.Error as error:
            raise InvalidInput(f"{path} cannot be read as a database ({error}).") from error
        self._has_responses = all(self._has(name, columns) for name, columns in _RESPONSES.items())
        self._has_turns = all(self._has(name, columns) for name, columns in _TURNS.items())
        if not (self._has_responses or self._has_turns):
            self.close()
            raise InvalidInput(f"{path} is a database, and not one of `llm`: it has neither responses nor turns.")

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def records(self) -> Iterator[ExportedConversation | RejectedRecord]:
        """Yield the conversations of both kinds, each once; for an invalid one, yield the reason."""
        try:
            for name, title, begun, read in self._list_conversations():
                self._size = 0
                try:
                    record: ExportedConversation | RejectedRecord = read(name, title, moment_of(begun))
                except (RejectedRecord, *_Failures) as error:
                    record = RejectedRecord(f"conversation {name[:LONGEST_PLACE]} cannot be read: {error}")
                yield record
        except (RejectedRecord, *_Failures) as error:
            yield RejectedRecord(f"the database cannot be read from here on: {error}")

    def _list_conversations(self) -> Iterator[tuple[str, object, Any, _Read]]:
        """Yield (id, title, start time, reader function) of every conversation."""
        done: set[str] = set()
        if self._has_turns:
            for name, title, begun in self._rows(
                "SELECT id, name, datetime_utc FROM threads ORDER BY datetime_utc, id"
            ):
                done.add(str(name))
                yield str(name), title, begun, self._thread
        if self._has_responses:
            query = (
                "SELECT coalesce(r.conversation_id, r.id), max(c.name), min(r.datetime_utc) FROM responses AS r "
                "LEFT JOIN conversations AS c ON c.id = r.conversation_id GROUP BY 1 ORDER BY 3, 1"
            )
            for name, title, begun in self._rows(query):
                if str(name) not in done:
                    yield str(name), title, begun, self._conversation

    def _thread(self, name: str, title: object, begun: datetime | None) -> ExportedConversation:
        """Read a thread of the message store: the last message of each turn and all its ancestors."""
        built, seen = ConversationBuilder(PROVIDER), set[str]()
        system, current = "", None
        turns = "SELECT tip_message_hash, model, datetime_utc FROM turns WHERE thread_id = ? ORDER BY datetime_utc, id"
        for tip, model, moment in self._rows(turns, (name,)):
            current = at = tip
            while at is not None and at not in seen:
                row = next(self._rows("SELECT parent_hash, role FROM messages WHERE hash = ?", (at,)), None)
                if row is None:
                    break
                parts = list(self._parts(str(at)))
                if row[1] == "system":
                    system = system or "\n\n".join(text(part, "text") for part in parts)
                    parts = []
                reply = tuple(item for part in parts for item in self._items(part, built))
                is_user = row[1] == "user"
                built.add(
                    ExportedMessage(
                        id=str(at),
                        parent=row[0],
                        said=said_by("user", content_of_reply(reply)) if is_user else None,
                        reply=() if is_user else reply,
                        created_at=moment_of(moment),
                        model=str(model or ""),
                    )
                )
                seen.add(str(at))
                at = row[0]
        return built.build(name, title=str(title or ""), system=system, created_at=begun, current=current)

    def _parts(self, message: str) -> Iterator[dict[str, Json]]:
        query = "SELECT type, text, payload FROM parts WHERE message_hash = ? ORDER BY position"
        for kind, words, payload in self._rows(query, (message,)):
            read = arguments_of(payload) if payload else {}
            part: dict[str, Json] = read if isinstance(read, dict) else {"payload": read}
            pieces = "".join(map(self._piece, items(part, "text_ref")))
            yield {**part, "type": kind, "text": words if isinstance(words, str) else pieces}

    def _piece(self, piece: Json) -> str:
        if not isinstance(piece, dict) or "fragment" not in piece or not self._has("fragments", {"id", "content"}):
            return text(piece, "literal") if isinstance(piece, dict) else ""
        row = next(self._rows("SELECT content FROM fragments WHERE id = ?", (piece["fragment"],)), ("",))
        return str(row[0])

    def _items(self, part: dict[str, Json], built: ConversationBuilder) -> Iterator[ReplyItem]:
        kind, name, call_id = text(part, "type"), text(part, "name") or "tool", text(part, "tool_call_id")
        if kind == "text" and text(part, "text"):
            yield reply_text(text(part, "text"))
        elif kind == "tool_call":
            yield ToolCallItem(call_id=call_id, name=name, arguments=part.get("arguments") or {})
        elif kind == "tool_result":
            yield ToolOutput(call_id=call_id or None, name=name, blocks=(TextBlock(text=text(part, "output")),))
        elif kind == "attachment":
            yield AssistantItem(blocks=tuple(self._attached((mapping(part, "attachment").get("id"),), built)))

    def _conversation(self, name: str, title: object, begun: datetime | None) -> ExportedConversation:
        """Read a conversation from the table of responses."""
        built, system = ConversationBuilder(PROVIDER), ""
        query = (
            "SELECT id, model, prompt, system, response, datetime_utc FROM responses "
            "WHERE conversation_id = ?1 OR (conversation_id IS NULL AND id = ?1) ORDER BY datetime_utc, id"
        )
        for key, model, prompt, its_system, response, moment in self._rows(query, (name,)):
            system = system or self._with_fragments("system_fragments", str(key), its_system)
            created, words = moment_of(moment), self._with_fragments("prompt_fragments", str(key), prompt)
            blocks: list[ContentBlock] = [TextBlock(text=words)] if words else []
            if said := said_by("user", [*blocks, *self._attachments(str(key), built)]):
                built.add(ExportedMessage(id=f"{key}-prompt", parent=built.last, said=said, created_at=created))
            reply = (*self._results(str(key)), *self._reply(str(key), response))
            built.add(
                ExportedMessage(id=str(key), parent=built.last, reply=reply, created_at=created, model=str(model or ""))
            )
        return built.build(name, title=str(title or ""), system=system, created_at=begun, current=built.last)

    def _with_fragments(self, table: str, response_id: str, words: object) -> str:
        """Return a prompt after its fragments (``llm -f``)."""
        pieces = [str(words)] if words else []
        if self._has(table, {"response_id", "fragment_id", "order"}) and self._has("fragments", {"id", "content"}):
            query = (
                f'SELECT content FROM "{table}" JOIN fragments ON id = fragment_id WHERE response_id = ? '
                'ORDER BY "order"'
            )
            pieces = [*(str(row[0]) for row in self._rows(query, (response_id,))), *pieces]
        return "\n\n".join(pieces)

    def _reply(self, response_id: str, response: object) -> Iterator[ReplyItem]:
        if response:
            yield reply_text(str(response))
        if self._has("tool_calls", {"response_id", "name", "arguments", "tool_call_id"}):
            query = "SELECT tool_call_id, name, arguments FROM tool_calls WHERE response_id = ? ORDER BY id"
            for call_id, name, arguments in self._rows(query, (response_id,)):
                yield ToolCallItem(call_id=str(call_id or ""), name=str(name), arguments=arguments_of(arguments))

    def _results(self, response_id: str) -> Iterator[ToolOutput]:
        if self._has("tool_results", {"response_id", "name", "output", "tool_call_id"}):
            query = "SELECT tool_call_id, name, output FROM tool_results WHERE response_id = ? ORDER BY id"
            for call_id, name, output in self._rows(query, (response_id,)):
                blocks = (TextBlock(text=str(output or "")),)
                yield ToolOutput(call_id=str(call_id) if call_id else None, name=str(name), blocks=blocks)

    def _attachments(self, response_id: str, built: ConversationBuilder) -> Iterator[ContentBlock]:
        if self._has("prompt_attachments", {"response_id", "attachment_id", "order"}):
            query = 'SELECT attachment_id FROM prompt_attachments WHERE response_id = ? ORDER BY "order"'
            for row in self._rows(query, (response_id,)):
                yield from self._attached(row, built)

    def _attached(self, key: tuple[object, ...], built: ConversationBuilder) -> Iterator[ContentBlock]:
        if self._has("attachments", {"id", "type", "path", "url", "content"}):
            for name, kind, path, url, content in self._rows(
                "SELECT id, type, path, url, content FROM attachments WHERE id = ?", key
            ):
                made = built.image(content) if isinstance(content, bytes) else None
                raw = {"id": name, "type": kind, "path": path, "url": url}
                yield made or built.unknown(raw)

    def _has(self, table: str, columns: set[str]) -> bool:
        return columns <= self._columns.get(table, set())

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
        for row in self._connection.execute(query, values):
            self._size += sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._size > LARGEST_CONVERSATION:
                raise RejectedRecord(f"it has more than {LARGEST_CONVERSATION >> 20} MB, the maximum")
            yield row

    def _columns_of(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._rows(f'PRAGMA table_info("{table}")')}
