"""``MemoryClient`` of an engine in this process."""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.client.contract import LOCAL
from contextinfinity.client.references import fits, only_match
from contextinfinity.client.resource import ClientResource
from contextinfinity.client.results import ShownMemory, shown_memory
from contextinfinity.domain.ids import MemoryId, Position, is_id
from contextinfinity.domain.session import Owner
from contextinfinity.engine.memory_editing import HINT, thread_of_tags
from contextinfinity.errors import NotFound
from contextinfinity.memory.memory_findings import MemoryFinding


class LocalMemories(ClientResource):
    """``MemoryClient`` of an engine."""

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
        owner, memories = self._acting_owner(owner), self._engine.memories
        thread = None if tag is None else thread_of_tags(owner, [tag])
        if thread:
            await self._session(thread, owner)
        if q is not None and q.strip():
            found = await memories.find(owner, q, thread=thread, limit=limit)
        else:
            found = await memories.list(owner, thread=thread, limit=limit, after=after)
        return tuple(map(shown_memory, found))

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownMemory:
        """Return a memory by its id, or by its first or last 6 or more characters."""
        found = {memory.id: memory for memory in await self._engine.memories.everything(self._acting_owner(owner))}
        if is_id(reference) and reference not in found:
            raise NotFound(f"There is no memory {reference}.", hint=HINT)
        fitting = [name for name in found if name == reference or fits(name, reference)]
        return shown_memory(found[only_match("memory", reference, fitting, hint=HINT)])

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads."""
        owner = self._acting_owner(owner)
        return shown_memory(await self._engine.memories.add(owner, content, thread=thread_of_tags(owner, tags)))

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Replace the text of a memory; the old text is deleted permanently."""
        return shown_memory(await self._engine.memories.edit(self._acting_owner(owner), memory_id, content))

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Delete a memory permanently; earlier turns cannot restore it."""
        await self._engine.memories.forget(self._acting_owner(owner), memory_id)

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Return all memories, including superseded ones."""
        return tuple(map(shown_memory, await self._engine.memories.everything(self._acting_owner(owner))))

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Find memories that their turn does not support, duplicates, and expired ones."""
        return await self._engine.memories.audit(self._acting_owner(owner))
