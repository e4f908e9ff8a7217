"""Copy every conversation from one ledger to another, for any combination of databases, while the first one is in use.

A conversation is exported in the format ``cix``, restored in one transaction, and exported again from the target: both
exports must have the same hash. One that was continued, changed or deleted since it was copied is replaced or deleted
in the target, so an interrupted migration can be run again, and a last run after the source was stopped is short. What
was written in the target itself is never replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from contextinfinity.domain.ids import MemoryId, SessionId, now
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import MemoryTransfer
from contextinfinity.exchange.cix_format import CixContent, CixConversation, CixReader, write_cix
from contextinfinity.exchange.exporter import sessions_of
from contextinfinity.storage.contract import Store

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of conversations done, and their total."""

PASSES = 5
"""How often conversations that change meanwhile are copied again."""
LONGEST_TURN = timedelta(hours=1)
"""How long after the last message of a conversation it may still change without a new one."""


class StoreMigration(msgspec.Struct, frozen=True, kw_only=True):
    """The result: numbers of conversations by what was done, and those that differ."""

    copied: int = 0
    there_before: int = 0
    updated: int = 0
    deleted: int = 0
    memories: int = 0
    changing: int = 0
    """Conversations and memories that changed while the last were copied: run the migration again."""
    only_there: int = 0
    """Memories that only the target has: written there, or forgotten in the source since they were copied."""
    different: tuple[SessionId, ...] = ()
    """Conversations that were continued in the target."""


class _Migration:
    def __init__(self, source: Store, target: Store, progress: Progress) -> None:
        self.source, self.target = source, target
        self.copied, self.there, self.updated = set[SessionId](), set[SessionId](), set[SessionId]()
        self.different = set[SessionId]()
        self._progress = progress

    async def copy_all(self) -> int:
        """Copy conversations until none has changed; after ``PASSES`` times, return how many still change."""
        since: datetime | None = None
        changed = 0
        for _ in range(PASSES):
            began = now()
            changed = await self._copy_since(since)
            if not changed:
                break
            since = began - LONGEST_TURN
        return changed

    async def _copy_since(self, since: datetime | None) -> int:
        """Copy what was changed since a time; return how many conversations were changed."""
        found = [
            (owner, session_id)
            for owner in await self.source.transfers.owners()
            for session_id in await sessions_of(self.source, owner, since=since)
        ]
        changed = 0
        for done, (owner, session_id) in enumerate(found):
            self._progress(done, len(found))
            changed |= await self._copy(owner, session_id)
        self._progress(len(found), len(found))
        return changed

    async def _copy(self, owner: Owner, session_id: SessionId) -> bool:
        """Make the target's copy equal to the source; return whether that took a change."""
        there = await _digest(write_cix(self.target, [session_id]))
        reader = _Conversation(self.target)
        digest = await reader.read(write_cix(self.source, [session_id]))
        given = reader.conversation
        if given is None or digest == there:
            self.there |= {session_id} - self.copied - self.updated
            return False
        parts = given.outline, given.states, given.turns
        if await self.target.transfers.restore(*parts):
            self.copied.add(session_id)
        elif session_id not in self.different and await self.target.transfers.replace(*parts):
            self.updated |= {session_id} - self.copied
        else:
            self.different.add(session_id)
            return False
        await self.target.transfers.restore_memories(owner, given.memories)
        if digest != await _digest(write_cix(self.target, [session_id])):
            self.different.add(session_id)
        return True

    async def delete_gone(self) -> int:
        """Delete copies of conversations that were deleted in the source; return how many."""
        gone = 0
        for owner in await self.target.transfers.owners():
            for session_id in await sessions_of(self.target, owner):
                if await self.source.sessions.get(session_id) is None:
                    copy = await self.target.sessions.get(session_id)
                    if copy is not None and await self.source.deletions.sessions_of({copy.active_branch}):
                        while (await self.target.deletions.delete(session_id)).more:
                            pass
                        gone += 1
        return gone

    async def copy_memories(self) -> tuple[int, int, int]:
        """Copy the memories of all owners; return how many were added, are unequal, and only in the target."""
        added = unequal = only_there = 0
        for owner in await self.source.transfers.owners():
            wanted, there = await _memories(self.source, owner), await _memories(self.target, owner)
            if any(there.get(name) != memory for name, memory in wanted.items()):
                await self.target.transfers.replace_memories(owner, list(wanted.values()))
                added += len(wanted.keys() - there.keys())
                there = await _memories(self.target, owner)
            known = {memory.content for memory in there.values()}
            missing = [memory for name, memory in wanted.items() if there.get(name) != memory]
            unequal += sum(memory.id in there or memory.content not in known for memory in missing)
            only_there += len(there.keys() - wanted.keys())
        return added, unequal, only_there


class _Conversation:
    """Stores the contents of an export in a ledger, and keeps its conversation."""

    def __init__(self, target: Store) -> None:
        self._target = target
        self.conversation: CixConversation | None = None

    async def read(self, pieces: AsyncIterator[bytes]) -> str:
        """Read an export to its end; return its hash."""
        digest, rest = hashlib.sha256(), b""
        reader: CixReader | None = None
        async for piece in pieces:
            digest.update(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                record = msgspec.json.decode(line)
                if reader is None:
                    reader = CixReader(record)
                    continue
                part = reader.read(record, len(line))
                if isinstance(part, CixConversation):
                    self.conversation = part
                elif isinstance(part, CixContent) and part.text is not None:
                    await self._target.contents.keep_text(part.text)
                elif isinstance(part, CixContent) and part.blob is not None:
                    await self._target.contents.keep_blob(*part.blob)
        return digest.hexdigest()


async def migrate_store(source: Store, target: Store, progress: Progress) -> StoreMigration:
    """Copy all conversations and memories, and compare the hash of each; the source is not changed."""
    migration = _Migration(source, target, progress)
    changing = await migration.copy_all()
    deleted = await migration.delete_gone()
    memories, unequal, only_there = await migration.copy_memories()
    return StoreMigration(
        copied=len(migration.copied),
        there_before=len(migration.there),
        updated=len(migration.updated),
        deleted=deleted,
        memories=memories,
        changing=changing + unequal,
        only_there=only_there,
        different=tuple(sorted(migration.different)),
    )


async def _memories(store: Store, owner: Owner) -> dict[MemoryId, MemoryTransfer]:
    found: dict[MemoryId, MemoryTransfer] = {}
    after: MemoryId | None = None
    while some := await store.transfers.memories(owner, after=after):
        found.update((memory.id, memory) for memory in some)
        after = some[-1].id
    return found


async def _digest(pieces: AsyncIterator[bytes]) -> str:
    digest = hashlib.sha256()
    async for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
