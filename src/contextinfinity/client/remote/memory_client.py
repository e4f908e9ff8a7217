"""Memories at a server."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.client.contract import LOCAL
from contextinfinity.client.cursors import cursor_of
from contextinfinity.client.references import fits, only_match
from contextinfinity.client.remote.server_connection import ServerConnection, path
from contextinfinity.client.results import ShownMemory
from contextinfinity.domain.ids import MemoryId, Position
from contextinfinity.domain.session import Owner
from contextinfinity.memory.memory_findings import MemoryFinding

PAGE = 500
HINT = "`cix memories list` lists the memories."


class _MemoryPage(Struct, frozen=True, kw_only=True):
    memories: tuple[ShownMemory, ...]
    next: str | None = None


class _Findings(Struct, frozen=True, kw_only=True):
    findings: tuple[MemoryFinding, ...]


class _Forgotten(Struct, frozen=True, kw_only=True):
    forgotten: MemoryId


class RemoteMemories:
    """``MemoryClient`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def list(
        self,
        owner: Owner = LOCAL,
        *,
        tag: str | None = None,
        q: str | None = None,
        limit: int = 50,
        after: Position | None = None,
    ) -> tuple[ShownMemory, ...]:
        """Read an owner's memories, the newest first; ``tag`` (``thread:ID``): of that thread alone."""
        found: list[ShownMemory] = []
        cursor = None if after is None else cursor_of(after)
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._line.get("/memories", _MemoryPage, owner=owner, tag=tag, q=q, limit=wanted, after=cursor)
            found.extend(page.memories)
            cursor = page.next
            if cursor is None:
                break
        return tuple(found)

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownMemory:
        """Return a memory by its id, or by its first or last 6 or more characters."""
        found = {memory.id: memory for memory in await self.export(owner)}
        fitting = [reference] if reference in found else [name for name in found if fits(name, reference)]
        return found[only_match("memory", reference, fitting, hint=HINT)]

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads."""
        body = {"content": content, "tags": tags}
        return await self._line.send("POST", "/memories", ShownMemory, body, owner=owner)

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Replace the text of a memory; the old text is deleted permanently."""
        place, body = path("memories", memory_id), {"content": content}
        return await self._line.send("PATCH", place, ShownMemory, body, owner=owner)

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Delete a memory permanently; earlier turns cannot restore it."""
        await self._line.remove(path("memories", memory_id), _Forgotten, owner=owner)

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Return all memories, including superseded ones."""
        page = await self._line.get("/memories/export", _MemoryPage, owner=owner)
        return page.memories

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Find memories that their turn does not support, duplicates, and expired ones."""
        return (await self._line.get("/memories/audit", _Findings, owner=owner)).findings
