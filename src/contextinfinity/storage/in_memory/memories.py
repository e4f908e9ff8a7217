"""Memories in memory: one dict, gone through for what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import log

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.ids import MemoryId, SessionId, TurnId, new_id, now
from contextinfinity.domain.memory import Candidate, Memory, NewMemory, Recall, Recalled, container_tags
from contextinfinity.domain.session import Owner
from contextinfinity.errors import NotFound
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.memories import check_memory, sees, words_of
from contextinfinity.storage.rules import row_limit


class Source(Struct, frozen=True):
    """A turn that said it, where, and when."""

    turn_id: TurnId
    span: tuple[int, int]
    said_at: datetime


class Kept(Struct):
    """A memory with what it is known by."""

    memory: Memory
    thread: SessionId | None
    vector: Embedding | None
    sources: list[Source]

    def shown(self) -> Memory:
        """Give it with the turn that said it last."""
        last = max(self.sources, key=lambda source: source.said_at, default=None)
        if last is None:
            return self.memory
        return replace(self.memory, source_turn=last.turn_id, source_span=last.span)

    def last_used(self) -> datetime:
        """Tell when it was last said or shown."""
        memory = self.memory
        said = memory.valid_from or memory.created_at
        return said if memory.last_placed_at is None else max(said, memory.last_placed_at)


class InMemoryMemories:
    """The ``Memories`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, new: NewMemory) -> Memory:
        """Keep a fact that comes from no turn."""
        check_memory(new)
        check_text(new)
        with self._tables.transaction() as tables:
            tables.forgotten.pop((new.owner, new.content), None)
            return _keep(tables, new, None).shown()

    async def draw(self, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
        """Keep what a turn says, and nothing else of it."""
        for each in new:
            check_memory(each)
        check_text(new)
        with self._tables.transaction() as tables:
            _take_back(tables, turn_id, {each.content for each in new})
            if turn_id not in tables.turns:
                return ()
            kept = [_keep(tables, each, turn_id) for each in new if not _is_forgotten(tables, each)]
            return tuple(dict.fromkeys(each.shown() for each in kept))

    async def read(self, owner: Owner, ids: Sequence[MemoryId]) -> tuple[Memory, ...]:
        """Read those that are there and the owner's."""
        with self._tables.transaction() as tables:
            found = (tables.memories.get(each) for each in ids)
            return tuple(kept.shown() for kept in found if kept is not None and kept.memory.owner == owner)

    async def list(
        self,
        owner: Owner,
        *,
        thread: SessionId | None = None,
        superseded: bool = False,
        limit: int = 50,
        after: MemoryId | None = None,
    ) -> tuple[Memory, ...]:
        """Read the owner's, the newest first."""
        with self._tables.transaction() as tables:
            kept = [each for each in _of(tables, owner) if thread is None or each.thread == thread]
            found = [each.shown() for each in kept]
            found.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)
            if after is not None:
                places = [place for place, memory in enumerate(found) if memory.id == after]
                found = found[places[0] + 1 :] if places else []
            wanted = [memory for memory in found if superseded or memory.superseded_by is None]
            return tuple(wanted[: row_limit(limit)])

    async def recall(self, asked: Recall) -> Recalled:
        """Find what may matter to a turn."""
        with self._tables.transaction() as tables:
            kept = [each for each in _of(tables, asked.owner) if _may_be_seen(tables, each, asked)]
            words = {each.memory.id: words_of(each.memory.content) for each in kept}
            wanted = set(asked.terms)
            counts = {term: sum(term in known for known in words.values()) for term in wanted}
            found = []
            for each in kept:
                match = sum(log(1 + 20_000 / counts[term]) for term in words[each.memory.id] & wanted)
                found.append(Candidate(memory=each.shown(), match=match, vector=each.vector))
            best = sorted((each for each in found if each.match), key=lambda each: -each.match)
            found.sort(key=lambda each: (each.memory.weight, each.memory.valid_from, each.memory.id), reverse=True)
            return Recalled(found=tuple(best[: asked.most // 2]), standing=tuple(found[: 2 * asked.most]))

    async def edit(self, owner: Owner, memory_id: MemoryId, new: NewMemory) -> Memory:
        """Put other words in its place."""
        check_memory(new)
        check_text(new)
        with self._tables.transaction() as tables:
            kept = tables.memories.get(memory_id)
            if kept is None or kept.memory.owner != owner:
                raise NotFound(f"There is no memory {memory_id}.", hint="`cix memories list` shows those there are.")
            if kept.memory.content != new.content:
                tables.forgotten[owner, kept.memory.content] = now()
                tables.forgotten.pop((owner, new.content), None)
            weight = max(kept.memory.weight, new.weight)
            changed = replace(kept.memory, content=new.content, origin="person", confidence=1.0, weight=weight)
            kept.memory, kept.vector = replace(changed, valid_from=now()), new.vector
            return kept.shown()

    async def forget(self, owner: Owner, ids: Sequence[MemoryId], *, at: datetime | None = None) -> int:
        """Remove memories, and all that has the same words."""
        with self._tables.transaction() as tables:
            contents = {each.memory.content for each in _of(tables, owner) if each.memory.id in ids}
            gone = [each.memory for each in _of(tables, owner) if each.memory.content in contents]
            for memory in gone:
                tables.forgotten[owner, memory.content] = at or now()
                del tables.memories[memory.id]
            return len(gone)

    async def placed(self, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
        """Note that they stood in a prompt."""
        with self._tables.transaction() as tables:
            for kept in _of(tables, owner):
                before = kept.memory.last_placed_at
                if kept.memory.id in ids and (before is None or before < at - timedelta(hours=1)):
                    kept.memory = replace(kept.memory, last_placed_at=at)

    async def expire(self, owner: Owner, oldest: datetime) -> int:
        """Remove what was neither said nor shown since then."""
        with self._tables.transaction() as tables:
            gone = [each.memory.id for each in _of(tables, owner) if each.last_used() < oldest]
            for memory_id in gone:
                del tables.memories[memory_id]
            return len(gone)


def _of(tables: Tables, owner: Owner) -> list[Kept]:
    return [kept for kept in tables.memories.values() if kept.memory.owner == owner]


def _is_forgotten(tables: Tables, new: NewMemory) -> bool:
    gone = tables.forgotten.get((new.owner, new.content))
    return gone is not None and new.said_at <= gone


def _take_back(tables: Tables, turn_id: TurnId, contents: set[str]) -> None:
    """Let go of what a turn was said to say and does not."""
    for kept in [*tables.memories.values()]:
        sources = [source for source in kept.sources if source.turn_id != turn_id]
        if len(sources) == len(kept.sources) or kept.memory.origin == "person" or kept.memory.content in contents:
            continue
        kept.sources = sources
        if not sources:
            del tables.memories[kept.memory.id]
            _revive(tables.memories.values(), kept.memory.id)


def _revive(memories: Iterable[Kept], superseder: MemoryId) -> None:
    for kept in memories:
        if kept.memory.superseded_by == superseder:
            kept.memory = replace(kept.memory, superseded_by=None, valid_to=None)


def _keep(tables: Tables, new: NewMemory, turn_id: TurnId | None) -> Kept:
    """Keep a fact, or note that it was said again; what is said later of the same thing wins."""
    same = [kept for kept in _of(tables, new.owner) if (kept.memory.content, kept.thread) == (new.content, new.thread)]
    same.sort(key=lambda kept: (kept.memory.superseded_by is None, kept.memory.valid_from), reverse=True)
    kept = same[0] if same else None
    if kept is not None and kept.memory.superseded_by is None:
        kept.memory = _said_again(kept.memory, new)
        _settle(tables, new, kept)
    elif kept is None or (kept.memory.valid_from or kept.memory.created_at) < new.said_at:
        kept = Kept(_made(new), new.thread, new.vector, [])
        tables.memories[kept.memory.id] = kept
        _settle(tables, new, kept)
    if turn_id is not None:
        kept.sources = [source for source in kept.sources if source.turn_id != turn_id]
        kept.sources.append(Source(turn_id, new.span or (0, 0), new.said_at))
    return kept


def _made(new: NewMemory) -> Memory:
    return Memory(
        id=new_id(),
        owner=new.owner,
        content=new.content,
        tags=container_tags(new.owner.user_id, new.thread),
        created_at=new.said_at,
        confidence=new.confidence,
        valid_from=new.said_at,
        valid_to=new.valid_to,
        kind=new.kind,
        about=new.about,
        origin=new.origin,
        weight=new.weight,
    )


def _said_again(memory: Memory, new: NewMemory) -> Memory:
    return replace(
        memory,
        valid_from=max(memory.valid_from or memory.created_at, new.said_at),
        valid_to=memory.valid_to if new.valid_to is None else new.valid_to,
        weight=max(memory.weight, new.weight),
        confidence=max(memory.confidence, new.confidence),
        origin=new.origin if memory.origin == "drawn" else memory.origin,
    )


def _settle(tables: Tables, new: NewMemory, kept: Kept) -> None:
    """Let what was said later win, of everything that is said of the same thing."""
    abouts = {about for about in (new.about, *new.replaces) if about}
    for other in _of(tables, new.owner):
        memory, said_at = other.memory, kept.memory.valid_from or new.said_at
        if memory.superseded_by or memory.about not in abouts or other.thread != new.thread or other is kept:
            continue
        if (when := memory.valid_from or memory.created_at) <= said_at:
            other.memory = _superseded(memory, kept.memory.id, said_at)
        elif memory.about == new.about:
            kept.memory = _superseded(kept.memory, memory.id, when)


def _superseded(memory: Memory, by: MemoryId, at: datetime) -> Memory:
    ended = at if memory.valid_to is None else min(memory.valid_to, at)
    return replace(memory, superseded_by=by, valid_to=ended)


def _may_be_seen(tables: Tables, kept: Kept, asked: Recall) -> bool:
    memory = kept.memory
    if kept.thread not in (None, asked.session_id) or memory.superseded_by is not None:
        return False
    if kept.last_used() < asked.oldest or (memory.valid_to is not None and memory.valid_to <= asked.at):
        return False
    if not kept.sources or (kept.thread is None and (asked.other_branches or memory.origin != "drawn")):
        return True
    return any(_is_seen(tables, source.turn_id, asked) for source in kept.sources)


def _is_seen(tables: Tables, turn_id: TurnId, asked: Recall) -> bool:
    turn = tables.turns[turn_id]
    here = turn.session_id == asked.session_id
    line = asked.branch_id if here else tables.sessions[turn.session_id].active_branch
    return sees(tables.lineage(tables.branch(line)), turn.branch_id, turn.turn_seq)
