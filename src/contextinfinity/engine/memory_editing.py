"""List, add, edit, delete and audit memories on behalf of a user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from contextinfinity.domain.ids import MemoryId, Position, SessionId, is_id, now
from contextinfinity.domain.memory import ANONYMOUS, LONGEST_MEMORY, Memory, NewMemory, container_tags
from contextinfinity.domain.session import Owner, Session
from contextinfinity.engine.engine_setup import Remembering, extract_offline
from contextinfinity.engine.recall import known_from, placed_texts, placeholder_session, recall_memories
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.memory.memory_findings import MemoryFinding, StatedFact
from contextinfinity.memory.rendering import as_said
from contextinfinity.storage.contract import Store
from contextinfinity.text.orders import neutral

PAGE = 500
WEIGHT = 7
"""The weight of memories written by a person: high enough for every prompt, as far as there is room."""
HINT = "`cix memories list` lists the memories."


class MemoryEditing:
    """The memories of a ledger; an owner can access only their own.

    ``thread`` is our id of a thread or the owner's own; raise ``NotFound`` for a thread the owner does not have.
    """

    def __init__(self, store: Store, remembering: Remembering | None) -> None:
        self._store = store
        self._remembering = remembering or Remembering()

    async def list(
        self,
        owner: Owner,
        *,
        thread: str | None = None,
        superseded: bool = False,
        limit: int = 50,
        after: Position | None = None,
    ) -> tuple[Memory, ...]:
        """Return a page of an owner's memories, newest first.

        ``thread`` selects the memories of one thread, an empty string those of no thread. For anonymous users
        the result is empty without a thread: they share one owner.
        """
        if owner.user_id == ANONYMOUS and not thread:
            return ()
        if thread:
            thread = (await self._own(owner, thread)).id
        return await self._store.memories.list(owner, thread=thread, superseded=superseded, limit=limit, after=after)

    async def everything(self, owner: Owner, *, superseded: bool = True) -> tuple[Memory, ...]:
        """Return all memories of an owner."""
        found: list[Memory] = []
        after: Position | None = None
        while page := await self.list(owner, superseded=superseded, limit=PAGE, after=after):
            found += page
            after = page[-1].position
        return tuple(found)

    async def find(
        self, owner: Owner, question: str, *, thread: str | None = None, limit: int = 50
    ) -> tuple[Memory, ...]:
        """Search memories by meaning, best first; ``thread`` limits the search to that thread's memories."""
        session = await self._own(owner, thread) if thread else placeholder_session(owner)
        recalled = await recall_memories(
            self._store.memories, self._remembering, session, session.active_branch, question
        )
        known = await known_from(recalled, question, self._remembering.most)
        found = await self._store.memories.read(owner, [line.id for line in known.asked])
        shelf = container_tags(owner.user_id, session.id if thread else None)
        return tuple(memory for memory in found if memory.tags == shelf)[:limit]

    async def add(self, owner: Owner, content: str, *, thread: str | None = None) -> Memory:
        """Store a fact that a person wrote, with ``thread`` only for that thread.

        Raise ``InvalidInput`` if the text is empty or too long.
        """
        session_id = (await self._own(owner, thread)).id if thread else None
        return await self._store.memories.add(await _written(owner, content, session_id))

    async def edit(self, owner: Owner, memory_id: MemoryId, content: str) -> Memory:
        """Replace the text of a memory; the old text is deleted."""
        return await self._store.memories.edit(owner, memory_id, await _written(owner, content, None))

    async def forget(self, owner: Owner, memory_id: MemoryId) -> None:
        """Delete a memory permanently: no earlier turn recreates it. Raise ``NotFound`` if there is none."""
        found = await self._store.memories.read(owner, [memory_id]) if is_id(memory_id) else ()
        if not found:
            raise NotFound(f"There is no memory {memory_id}.", hint=HINT)
        thread = thread_of_tags(owner, found[0].tags) if owner.user_id == ANONYMOUS else None
        await self._store.memories.forget(owner, [memory_id], thread=thread or None)

    async def audit(self, owner: Owner) -> tuple[MemoryFinding, ...]:
        """Check an owner's memories against their source messages, against each other, and for expiry."""
        from contextinfinity.memory.audit import audit  # slow to import: phrase lists

        memories = await self.everything(owner, superseded=False)
        texts = {memory.id: await self._source_text(memory) for memory in memories}
        moment = now()
        oldest = moment - self._remembering.expiry + timedelta(days=1)
        return tuple(audit(memories, lambda memory: texts[memory.id], at=moment, oldest=oldest))

    async def _source_text(self, memory: Memory) -> str | None:
        turn = None if memory.source_turn is None else await self._store.turns.get(memory.source_turn)
        start, end = memory.source_span or (0, 0)
        return None if turn is None else turn.user_message.rendered_text[start:end]

    async def _own(self, owner: Owner, thread: str) -> Session:
        session = await self._store.sessions.get(thread) if is_id(thread) else None
        if session is None or session.owner != owner:
            session = await self._store.sessions.find(owner, thread)
        if session is None:
            raise NotFound(f"There is no conversation {thread}.", hint="`cix sessions` lists the conversations.")
        return session


async def _written(owner: Owner, content: str, thread: SessionId | None) -> NewMemory:
    text = neutral(content)
    if not text:
        raise InvalidInput("The memory is empty.", hint="Write the fact as a sentence.")
    if len(text) > LONGEST_MEMORY:
        raise InvalidInput(
            f"That is too long to remember: {len(text)} characters; the maximum is {LONGEST_MEMORY}.",
            hint="Shorten it to the fact, or pin it.",
        )
    (vector,) = await placed_texts([text])
    fact = await _parsed_fact(text)
    return NewMemory(
        owner=owner,
        content=text,
        said_at=now(),
        thread=thread,
        kind=fact.kind,
        about=fact.about,
        replaces=fact.replaces,
        origin="person",
        weight=WEIGHT,
        valid_to=fact.valid_to,
        vector=vector,
    )


async def _parsed_fact(text: str) -> StatedFact:
    """Extract the fact from a written text as from a message, so that later statements can supersede it."""
    drawn = await extract_offline(as_said(text), now())
    return drawn.facts[0] if len(drawn.facts) == 1 else StatedFact(content=text, start=0, end=len(text))


def thread_of_tags(owner: Owner, tags: Sequence[str]) -> str | None:
    """Return the thread that tags name, or an empty string if they name the user; raise ``InvalidInput`` for others."""
    thread: str | None = None
    for tag in tags:
        kind, _, name = tag.partition(":")
        if kind == "thread" and name:
            thread = name
        elif tag == f"user:{owner.user_id}":
            thread = thread or ""
        else:
            raise InvalidInput(f"{tag!r} is not a valid tag of {owner.user_id}.", hint="Use user:ID or thread:ID.")
    return thread
