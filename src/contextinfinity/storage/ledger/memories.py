"""Memories: storing, editing, forgetting. ``memory_queries`` finds those relevant to a turn.

Methods see the memories of one owner only. Equal text in one scope (the user, or one conversation) is stored once, with
all turns that it was extracted from. A later memory supersedes an earlier one about the same subject (``about``); when
the last source turn of the later one is deleted, the earlier one is valid again. A forgotten memory leaves a hash and a
time: turns from before that time cannot restore it, nor the memories that it superseded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import MemoryId, Position, SessionId, TurnId, from_millis, new_id, now, to_millis
from contextinfinity.domain.memory import (
    LONGEST_MEMORY,
    Extraction,
    Memory,
    MemoryRecall,
    NewMemory,
    Recall,
    Revision,
    container_tags,
)
from contextinfinity.domain.search import Embedding
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.database import Connection, Row, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import check_id, row_limit
from contextinfinity.storage.ledger.rows import maybe_unpack, pack, unpack
from contextinfinity.text.keywords import terms

LATEST = 2**62
NOWHERE = b"-"
"""The key for an invalid conversation id; no memory has it."""

T = TypeVar("T")

FEW = 64
"""Up to this many memories of an owner are read on the event loop."""


def words_of(content: str) -> set[str]:
    """Return the search terms of a memory, without "user", which most memories contain."""
    return set(terms(content)) - {"user"}


def check_memory(new: NewMemory) -> None:
    """Raise ``InvalidInput`` for a fact that is empty, too long, or more than one line."""
    if not new.content.strip():
        raise InvalidInput("The memory is empty.")
    if len(new.content) > LONGEST_MEMORY or "\n" in new.content:
        raise InvalidInput(
            f"A memory is one line of at most {LONGEST_MEMORY} characters.", hint="Shorten it to the fact."
        )
    check_id(new.thread)


def add_memory(connection: Connection, new: NewMemory) -> Memory:
    """Store a fact without a source turn; an existing one is returned. Raises ``InvalidInput`` if it is empty."""
    check_memory(new)
    owner = owner_key(connection, new.owner)
    connection.execute("allow_words", _words(owner, wire.text_hash(new.content), _shelf(new.thread)))
    key = _keep(connection, owner, new, None)
    return _by_keys(connection, [key])[0]


def list_memories(
    connection: Connection,
    owner: Owner,
    *,
    thread: SessionId | None = None,
    superseded: bool = False,
    limit: int = 50,
    after: Position | None = None,
) -> tuple[Memory, ...]:
    """Return the owner's memories, newest first; with ``superseded``, also superseded ones.

    ``thread`` selects those of one conversation; an empty string selects those of none. ``after`` continues a
    listing after this position.
    """
    key = find_owner(connection, owner)
    if key is None:
        return ()
    moment, last = (LATEST, b"") if after is None else (to_millis(after.moment), pack(after.id))
    values = {"owner": key, "before": moment, "id": last, "limit": row_limit(limit)}
    asked = {"thread": None if thread is None else _shelf(thread), "superseded": superseded}
    return to_memories(connection, connection.many("list_memories", values | asked))


def forget_memories(
    connection: Connection,
    owner: Owner,
    ids: Sequence[MemoryId],
    *,
    at: datetime | None = None,
    thread: SessionId | None = None,
) -> int:
    """Delete memories and all others with the same text; return how many. Unknown ids are ignored.

    Turns up to ``at`` (default: now) cannot restore them. ``thread`` limits this to one conversation's memories.
    """
    shelf, moment = None if thread is None else _shelf(thread), to_millis(at or now())
    return _forget(connection, owner, hexed(ids), shelf, moment)


def find_owner(connection: Connection, owner: Owner) -> int | None:
    """Return the key of an owner; None if they have no memories."""
    row = connection.one("select_owner", (owner.org_id, owner.user_id))
    return None if row is None else row[0]


def owner_key(connection: Connection, owner: Owner) -> int:
    """Return the key of an owner, creating it if needed."""
    found = find_owner(connection, owner)
    if found is None:
        found = connection.one("insert_owner", (owner.org_id, owner.user_id))[0]  # type: ignore[index]
    return found


def replace_memories_of_turn(connection: Connection, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
    """Replace all memories that were extracted from this turn; one that a person wrote or edited stays."""
    hashes = {wire.text_hash(each.content) for each in new}
    for key, digest, origin in connection.many("select_memories_of_turn", (pack(turn_id),)):
        if digest not in hashes and origin != "person":
            connection.execute("delete_source", (key, pack(turn_id)))
    if connection.one("select_turn_exists", (pack(turn_id),)) is None:
        return ()
    keys = []
    for each in new:
        owner = owner_key(connection, each.owner)
        words = _words(owner, wire.text_hash(each.content), _shelf(each.thread))
        (gone,) = connection.one("select_forgotten", words)  # type: ignore[misc]
        if gone is None or to_millis(each.said_at) > gone:
            keys.append(_keep(connection, owner, each, turn_id))
    return _by_keys(connection, keys)


def read_revision(connection: Connection, owner: Owner) -> Revision:
    """Return the version of the owner's memories; an ``Extraction`` that is based on it is written only while it
    is current.
    """
    return Revision(*connection.one("select_revision", (find_owner(connection, owner),)))  # type: ignore[misc]


def is_current(connection: Connection, extraction: Extraction) -> bool:
    """Return whether the owner's memories are still those that an extraction was reconciled with."""
    based_on = extraction.based_on
    return based_on is None or based_on == read_revision(connection, extraction.owner)


def write_extraction(connection: Connection, turn_id: TurnId, extraction: Extraction) -> bool:
    """Write a turn's changes to its owner's memories; return whether the turn has new memories."""
    owner, only = extraction.owner, extraction.only_thread
    if extraction.forget:
        forget_memories(connection, owner, extraction.forget, at=extraction.forget_at, thread=only)
    if extraction.placed:
        _mark_placed(connection, owner, extraction.placed, extraction.placed_at or now())
    if extraction.new is None:
        return False
    for each in extraction.new:
        check_memory(each)
    before = {key for key, _, _ in connection.many("select_memories_of_turn", (pack(turn_id),))}
    if not before and not extraction.new:
        return False
    replace_memories_of_turn(connection, turn_id, extraction.new)
    return any(key not in before for key, _, _ in connection.many("select_memories_of_turn", (pack(turn_id),)))


def _mark_placed(connection: Connection, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
    """Record that memories were placed in a prompt, unless that was recorded in the last hour."""
    values = {"owner": find_owner(connection, owner), "ids": hexed(ids), "at": to_millis(at)}
    for (key,) in connection.many("select_unmarked", values):
        connection.execute("mark_placed", {"key": key, "at": to_millis(at)})


def _keep(connection: Connection, owner: int, new: NewMemory, turn_id: TurnId | None) -> int:
    """Store a fact, or add a source to an existing one; later facts about a subject supersede earlier ones."""
    thread = _shelf(new.thread)
    digest, said_at = wire.text_hash(new.content), to_millis(new.said_at)
    same = connection.one("select_same", (owner, digest, thread))
    if same is not None and (same[2] is None or same[1] >= said_at):
        key: int = same[0]
        if same[2] is None:
            connection.execute("say_again", _columns(new) | {"key": key})
            _settle(connection, owner, new, key)
    else:
        values = {"id": pack(new_id()), "owner": owner, "thread": thread, "content": new.content, "hash": digest}
        key = connection.one("insert_memory", _columns(new) | values)[0]  # type: ignore[index]
        connection.execute_many("insert_word", [(owner, term, key) for term in words_of(new.content)])
        _settle(connection, owner, new, key)
    if turn_id is not None:
        start, end = new.span or (0, 0)
        values = {"key": key, "turn_id": pack(turn_id), "start": start, "end": end, "said_at": said_at}
        connection.execute("insert_source", values)
    return key


def _columns(new: NewMemory) -> dict[str, object]:
    return {
        "kind": new.kind,
        "about": new.about,
        "origin": new.origin,
        "confidence": new.confidence,
        "weight": new.weight,
        "said_at": to_millis(new.said_at),
        "valid_to": None if new.valid_to is None else to_millis(new.valid_to),
        **_vector(new),
    }


def _vector(new: NewMemory) -> dict[str, object]:
    vector = new.vector
    return {"namespace": vector and vector.model, "vector": vector and vector.values}


def _settle(connection: Connection, owner: int, new: NewMemory, key: int) -> None:
    """Mark earlier memories about the same subject as superseded."""
    abouts = [about for about in (new.about, *new.replaces) if about]
    if not abouts:
        return
    thread = _shelf(new.thread)
    values = {"owner": owner, "abouts": json.dumps(abouts), "thread": thread, "hash": wire.text_hash(new.content)}
    (memory_id, said_at) = connection.one("select_memory_time", (key,))  # type: ignore[misc]
    for other, other_id, about, valid_from in connection.many("select_rivals", values):
        if valid_from <= said_at:
            connection.execute("supersede", {"by": memory_id, "at": said_at, "key": other})
        elif about == new.about:
            connection.execute("supersede", {"by": other_id, "at": valid_from, "key": key})


def edit_memory(connection: Connection, owner: Owner, memory_id: MemoryId, new: NewMemory) -> Memory:
    """Replace the text of a memory; the old text is treated as forgotten. Raises ``NotFound`` if it is unknown.

    The memory is valid from now on and is about the subject of the new text. Another memory with equal text is
    merged into it.
    """
    check_memory(new)
    row = connection.one("select_memories", {"owner": find_owner(connection, owner), "ids": hexed([memory_id])})
    if row is None:
        raise NotFound(f"There is no memory {memory_id}.", hint="`cix memories list` lists the memories.")
    connection.execute("soil_log")
    key, owner_key, thread, before = row[2], row[4], row[5], row[7]
    digest, moment = wire.text_hash(new.content), now()
    if digest != before:
        connection.execute("forget_words", _words(owner_key, before, thread) | {"at": to_millis(moment)})
        connection.execute("allow_words", _words(owner_key, digest, thread))
    new = replace(new, said_at=moment, thread=unpack(thread) if thread else None)
    values = {"content": new.content, "hash": digest, "key": key}
    connection.execute("edit_memory", _columns(new) | values)
    connection.execute("delete_memory_words", (key,))
    connection.execute_many("insert_word", [(owner_key, term, key) for term in words_of(new.content)])
    for twin, twin_id in connection.many("select_twins", _words(owner_key, digest, thread) | {"key": key}):
        connection.execute("take_sources", {"key": key, "twin": twin})
        connection.execute("take_superseded", {"id": row[3], "twin_id": twin_id})
        connection.execute("delete_memory", (twin,))
    _settle(connection, owner_key, new, key)
    return _by_keys(connection, [key])[0]


def _forget(connection: Connection, owner: Owner, ids: str, thread: bytes | None, at: int) -> int:
    """Delete all memories with the text of these, in one conversation or everywhere."""
    connection.execute("soil_log")
    key, gone = find_owner(connection, owner), 0
    for (digest,) in connection.many("select_hashes", {"owner": key, "ids": ids, "thread": thread}):
        connection.execute("forget_words", {"owner": key, "hash": digest, "thread": thread or b"", "at": at})
        gone += len(connection.many("delete_memories", {"owner": key, "hash": digest, "thread": thread}))
    return gone


def _shelf(thread: SessionId | None) -> bytes:
    return (pack(thread) or NOWHERE) if thread else b""


def _words(owner: int, digest: bytes, thread: bytes) -> dict[str, object]:
    return {"owner": owner, "hash": digest, "thread": thread}


def hexed(ids: Sequence[MemoryId]) -> str:
    """Encode ids as a statement parameter."""
    return json.dumps([pack(each).hex() for each in ids])


def _by_keys(connection: Connection, keys: Collection[int]) -> tuple[Memory, ...]:
    rows = [connection.one("select_memory", (key,)) for key in dict.fromkeys(keys)]
    return to_memories(connection, [row for row in rows if row is not None])


def to_memories(connection: Connection, rows: Sequence[Row]) -> tuple[Memory, ...]:
    """Decode rows of ``select_memories`` and similar statements, each with its latest source turn."""
    last: dict[int, Row] = {}
    for source in connection.many("select_sources", (json.dumps([row[2] for row in rows]),)):
        last.setdefault(source[0], source)
    return tuple(to_memory(row, last.get(row[2])) for row in rows)


def to_memory(row: Row, source: Row | None) -> Memory:
    """Decode a row and its latest source."""
    thread = unpack(row[5]) if row[5] else None
    ended = min((end for end in (row[15], row[18]) if end is not None), default=None)
    return Memory(
        id=unpack(row[3]),
        owner=Owner(org_id=row[0], user_id=row[1]),
        content=row[6],
        tags=container_tags(row[1], thread),
        created_at=from_millis(row[13]),
        confidence=row[11],
        source_turn=None if source is None else unpack(source[1]),
        source_span=None if source is None else (source[2], source[3]),
        valid_from=from_millis(row[14]),
        valid_to=None if ended is None else from_millis(ended),
        last_placed_at=None if row[16] is None else from_millis(row[16]),
        superseded_by=maybe_unpack(row[17]),
        kind=row[8],
        about=row[9],
        origin=row[10],
        weight=row[12],
    )


def to_vector(row: Row) -> Embedding | None:
    """Decode the vector of a row."""
    body: bytes | None = row[20]
    return None if body is None else Embedding(model=row[19], dim=len(body) - 4, values=body)


def read_memories(connection: Connection, owner: Owner, ids: Sequence[MemoryId]) -> tuple[Memory, ...]:
    """Return the owner's memories with these ids."""
    values = {"owner": find_owner(connection, owner), "ids": hexed(ids)}
    return to_memories(connection, connection.many("select_memories", values))


def current_memories(connection: Connection, asked: Recall, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
    """Return for each memory the one that is valid for the turn."""
    from contextinfinity.storage.ledger.memory_queries import current

    return current(connection, asked, hexed(ids))


class Memories(StoreResource):
    """Facts kept across conversations."""

    add = writes(add_memory)
    list = reads(list_memories)
    revision = looks(read_revision)
    edit = writes(edit_memory, wipe=True)
    forget = writes(forget_memories, wipe=True)

    async def replace_extracted(self, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
        """Replace all memories extracted from this turn, and return the new ones.

        Idempotent. For an unknown turn nothing is stored.
        """
        for each in new:
            check_memory(each)

        def is_settled(connection: Connection) -> bool:
            return not new and not connection.many("select_memories_of_turn", (pack(turn_id),))

        if await self._database.read(is_settled):
            return ()
        return await self._database.write(lambda connection: replace_memories_of_turn(connection, turn_id, new))

    async def read(self, owner: Owner, ids: Sequence[MemoryId]) -> tuple[Memory, ...]:
        """Return the owner's memories with these ids, in the order of the ids."""
        return await self._database.read(lambda connection: read_memories(connection, owner, ids)) if ids else ()

    async def recall(self, asked: Recall) -> MemoryRecall:
        """Return memories that may be relevant to a turn: valid ones of the user and of the turn's conversation.

        Memories from an abandoned branch are included only if the turn sees that branch or a person asked to keep them.
        Memories that the turn does not see supersede nothing for it. A memory of the conversation takes precedence over
        one of the user about the same subject.
        """
        from contextinfinity.storage.ledger.memory_queries import recall

        return await self._read_of(asked.owner, lambda connection: recall(connection, asked))

    async def current(self, asked: Recall, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        """Return for each memory the one that is valid for the turn: itself, or the one that superseded it.

        An id is missing if its successor was forgotten or is not visible to the turn.
        """
        return await self._database.read(lambda connection: current_memories(connection, asked, ids)) if ids else {}

    async def placed(self, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
        """Record that memories were placed in a prompt, at most once an hour for each."""

        def find(connection: Connection) -> list[Row]:
            values = {"owner": find_owner(connection, owner), "ids": hexed(ids), "at": to_millis(at)}
            return connection.many("select_unmarked", values)

        if ids and (rows := await self._database.read(find)):
            mark = [{"key": key, "at": to_millis(at)} for (key,) in rows]
            await self._database.write(lambda connection: connection.execute_many("mark_placed", mark))

    async def expire(self, owner: Owner, oldest: datetime) -> int:
        """Delete memories that were neither stated nor placed in a prompt since ``oldest``; return how many."""

        def asked(connection: Connection) -> dict[str, int | None]:
            return {"owner": find_owner(connection, owner), "oldest": to_millis(oldest)}

        if not await self._read_of(
            owner, lambda connection: connection.many("select_expired_memories", asked(connection))
        ):
            return 0

        def write(connection: Connection) -> int:
            connection.execute("soil_log")
            return len(connection.many("delete_expired", asked(connection)))

        return await self._database.write(write, wipe=True)

    async def _read_of(self, owner: Owner, work: Callable[[Connection], T]) -> T:
        """Run a read of an owner's memories: a small one while they are few."""

        def if_few(connection: Connection) -> tuple[T] | None:
            key = find_owner(connection, owner)
            is_many = key is not None and connection.one("select_many_memories", (key, FEW)) is not None
            return None if is_many else (work(connection),)

        done = await self._database.look(if_few)
        return await self._database.read(work) if done is None else done[0]
