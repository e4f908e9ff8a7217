"""Copy every conversation from one ledger to another, for any combination of databases.

A conversation is exported in the format ``cix``, restored in one transaction, and exported again from the target: both
exports must have the same hash. An existing one is only compared, so an interrupted migration can be run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec

from contextinfinity.domain.ids import MemoryId, SessionId
from contextinfinity.domain.session import Owner
from contextinfinity.exchange.cix_format import write_cix
from contextinfinity.exchange.cix_reader import CixContent, CixConversation, CixMemory, CixReader
from contextinfinity.exchange.exporter import sessions_of
from contextinfinity.storage.contract import Store

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of conversations done, and their total."""


class StoreMigration(msgspec.Struct, frozen=True, kw_only=True):
    """The result: conversations that were copied, that existed, and whose hashes differ."""

    copied: int = 0
    there_before: int = 0
    memories: int = 0
    different: tuple[SessionId, ...] = ()


async def migrate_store(source: Store, target: Store, progress: Progress) -> StoreMigration:
    """Copy all conversations and memories, and compare the hash of each; the source is not changed."""
    owners = await source.transfers.owners()
    found = [(owner, session) for owner in owners for session in await sessions_of(source, owner)]
    copied, there, memories, different = 0, 0, 0, list[SessionId]()
    for done, (owner, session_id) in enumerate(found):
        progress(done, len(found))
        made, digest = await _copy(write_cix(source, [session_id]), target, owner)
        copied, there = copied + made, there + (not made)
        if digest != await _digest(write_cix(target, [session_id])):
            different.append(session_id)
    for owner in owners:
        after: MemoryId | None = None
        while some := await source.transfers.memories(owner, after=after):
            memories += await target.transfers.restore_memories(owner, some)
            after = some[-1].id
    progress(len(found), len(found))
    return StoreMigration(copied=copied, there_before=there, memories=memories, different=tuple(different))


async def _copy(pieces: AsyncIterator[bytes], target: Store, owner: Owner) -> tuple[bool, str]:
    """Restore one conversation; return whether it was new, and the hash of its export."""
    digest, rest, made = hashlib.sha256(), b"", False
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
            if isinstance(part, CixContent):
                if part.text is not None:
                    await target.contents.keep_text(part.text)
                if part.blob is not None:
                    await target.contents.keep_blob(*part.blob)
            elif isinstance(part, CixConversation):
                made = await target.transfers.restore(part.outline, part.states, part.turns)
                await target.transfers.restore_memories(owner, part.memories)
            elif isinstance(part, CixMemory):
                await target.transfers.restore_memories(owner, [part.memory])
    return made, digest.hexdigest()


async def _digest(pieces: AsyncIterator[bytes]) -> str:
    digest = hashlib.sha256()
    async for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
