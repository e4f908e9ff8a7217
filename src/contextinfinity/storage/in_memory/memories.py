"""Memories in memory: one dict, gone through for what is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from math import log

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.ids import MemoryId, Position, SessionId, TurnId, new_id, now
from contextinfinity.domain.memory import Candidate, Memory, NewMemory, Recall, Recalled, container_tags
from contextinfinity.domain.session import Owner
from contextinfinity.errors import NotFound
from contextinfinity.storage.in_memory.sight import Sight, holds
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.memories import check_memory, words_of
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
    ended_at: datetime | None = None
    """When what made it untrue was said."""

    def shown(self) -> Memory:
        """Give it with the turn that said it last, and the time until which it held."""
        last = max(self.sources, key=lambda source: source.said_at, default=None)
        ends = [end for end in (self.memory.valid_to, self.ended_at) if end is not None]
        memory = replace(self.memory, valid_to=min(ends, default=None))
        if last is None:
            return memory
        return replace(memory, source_turn=last.turn_id, source_span=last.span)

    def supersede(self, by: MemoryId | None, at: datetime | None) -> None:
        """Note what makes it untrue since then; None: nothing."""
        self.memory, self.ended_at = replace(self.memory, superseded_by=by), at

    def said_at(self) -> datetime:
        """Tell when it was last said."""
        return self.memory.valid_from or self.memory.created_at

    def rivals(self, other: Kept) -> bool:
        """Tell whether another holds that is about the same."""
        mine, theirs = self.memory, other.memory
        is_same = (mine.about, self.thread) == (theirs.about, other.thread)
        return bool(mine.about) and is_same and theirs.superseded_by is None

    def last_used(self) -> datetime:
        """Tell when it was last said or shown."""
        said, placed = self.said_at(), self.memory.last_placed_at
        return said if placed is None else max(said, placed)


class InMemoryMemories:
    """The ``Memories`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, new: NewMemory) -> Memory:
        """Keep a fact that comes from no turn."""
        check_memory(new)
        check_text(new)
        with self._tables.transaction() as tables:
            _allow(tables, new)
            return _keep(tables, new, None).shown()

    async def draw(self, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
        """Keep what a turn says, and nothing else of it."""
        for each in new:
            check_memory(each)
        check_text(new)
        with self._tables.transaction() as tables:
            said = {each.content for each in new}
            unsay(tables, {turn_id}, lambda kept: kept.memory.content in said or kept.memory.origin == "person")
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
        after: Position | None = None,
    ) -> tuple[Memory, ...]:
        """Read the owner's, the newest first."""
        with self._tables.transaction() as tables:
            kept = [each for each in of(tables, owner) if thread in (None, each.thread or "")]
            found = [each.shown() for each in kept]
            found.sort(key=lambda memory: memory.position, reverse=True)
            behind = [memory for memory in found if after is None or memory.position < after]
            wanted = [memory for memory in behind if superseded or memory.superseded_by is None]
            return tuple(wanted[: row_limit(limit)])

    async def recall(self, asked: Recall) -> Recalled:
        """Find what may matter to a turn."""
        with self._tables.transaction() as tables:
            sight = Sight(tables, asked)
            kept = [each for each in sight.true() if holds(each, asked)]
            words = {each.memory.id: words_of(each.memory.content) for each in kept}
            wanted = set(asked.terms)
            counts = {term: sum(term in known for known in words.values()) for term in wanted}
            found = []
            for each in kept:
                match = sum(log(1 + 20_000 / counts[term]) for term in words[each.memory.id] & wanted)
                found.append(Candidate(memory=sight.shown(each), match=match, vector=each.vector))
            best = sorted((each for each in found if each.match), key=lambda each: -each.match)
            found.sort(key=lambda each: (each.memory.weight, each.memory.valid_from, each.memory.id), reverse=True)
            return Recalled(found=tuple(best[: asked.most // 2]), standing=tuple(found[: 2 * asked.most]))

    async def current(self, asked: Recall, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        """Tell what a turn may take for true in place of each."""
        with self._tables.transaction() as tables:
            sight = Sight(tables, asked)
            there = [kept for kept in of(tables, asked.owner) if kept.memory.id in ids]
            instead = ((kept.memory.id, sight.instead(kept)) for kept in there)
            return {memory_id: sight.shown(other) for memory_id, other in instead if other is not None}

    async def edit(self, owner: Owner, memory_id: MemoryId, new: NewMemory) -> Memory:
        """Put other words in its place."""
        check_memory(new)
        check_text(new)
        with self._tables.transaction() as tables:
            kept = tables.memories.get(memory_id)
            if kept is None or kept.memory.owner != owner:
                raise NotFound(f"There is no memory {memory_id}.", hint="`cix memories list` shows those there are.")
            new = replace(new, thread=kept.thread, said_at=now())
            if kept.memory.content != new.content:
                tables.forgotten[owner, kept.memory.content, kept.thread] = new.said_at
                _allow(tables, new)
            kept.memory, kept.ended_at, kept.vector = _edited(kept.memory, new), None, new.vector
            _take_in_twins(tables, kept)
            _settle(tables, new, kept)
            return kept.shown()

    async def forget(
        self, owner: Owner, ids: Sequence[MemoryId], *, at: datetime | None = None, thread: SessionId | None = None
    ) -> int:
        """Remove memories, and all that has the same words."""
        with self._tables.transaction() as tables:
            there = [each for each in of(tables, owner) if thread in (None, each.thread)]
            contents = {each.memory.content for each in there if each.memory.id in ids}
            gone = [each.memory for each in there if each.memory.content in contents]
            for memory in gone:
                place = owner, memory.content, thread
                moment = at or now()
                tables.forgotten[place] = max(tables.forgotten.get(place, moment), moment)
                remove(tables, memory.id)
            return len(gone)

    async def placed(self, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
        """Note that they stood in a prompt."""
        with self._tables.transaction() as tables:
            for kept in of(tables, owner):
                before = kept.memory.last_placed_at
                if kept.memory.id in ids and (before is None or before < at - timedelta(hours=1)):
                    kept.memory = replace(kept.memory, last_placed_at=at)

    async def expire(self, owner: Owner, oldest: datetime) -> int:
        """Remove what was neither said nor shown since then."""
        with self._tables.transaction() as tables:
            gone = [each.memory.id for each in of(tables, owner) if each.last_used() < oldest]
            for memory_id in gone:
                remove(tables, memory_id)
            return len(gone)


def of(tables: Tables, owner: Owner) -> list[Kept]:
    """Give what is an owner's."""
    return [kept for kept in tables.memories.values() if kept.memory.owner == owner]


def remove(tables: Tables, memory_id: MemoryId) -> None:
    """Remove one; what it made untrue stays so, by what made itself untrue where there is such."""
    gone = tables.memories.pop(memory_id)
    for kept in tables.memories.values():
        if kept.memory.superseded_by == memory_id and gone.memory.superseded_by is not None:
            kept.supersede(gone.memory.superseded_by, gone.ended_at)


def unsay(tables: Tables, turns: Collection[TurnId], stays: Callable[[Kept], bool] = lambda _: False) -> None:
    """Let go of what turns said, but for some; what nobody says any more goes, and makes nothing untrue."""
    for kept in [*tables.memories.values()]:
        sources = [source for source in kept.sources if source.turn_id not in turns]
        if len(sources) == len(kept.sources) or stays(kept):
            continue
        kept.sources = sources
        if not sources and kept.memory.origin != "person":
            if kept.memory.superseded_by is None:
                _revive(tables, kept)
            remove(tables, kept.memory.id)


def _revive(tables: Tables, gone: Kept) -> None:
    """Let hold again what one made untrue; of each thing what was said last."""
    freed = [kept for kept in of(tables, gone.memory.owner) if kept.memory.superseded_by == gone.memory.id]
    for kept in sorted(freed, key=lambda kept: kept.said_at(), reverse=True):
        rivals = [other for other in of(tables, gone.memory.owner) if other not in (gone, kept) and kept.rivals(other)]
        kept.supersede(rivals[0].memory.id if rivals else None, rivals[0].said_at() if rivals else None)


def _allow(tables: Tables, new: NewMemory) -> None:
    for shelf in (None, new.thread):
        tables.forgotten.pop((new.owner, new.content, shelf), None)


def _is_forgotten(tables: Tables, new: NewMemory) -> bool:
    gone = [tables.forgotten.get((new.owner, new.content, shelf)) for shelf in (None, new.thread)]
    return any(moment is not None and new.said_at <= moment for moment in gone)


def _take_in_twins(tables: Tables, kept: Kept) -> None:
    """Put others with the same words on the same shelf into one."""
    same = (kept.memory.owner, kept.memory.content, kept.thread)
    for twin in [*tables.memories.values()]:
        if twin is kept or (twin.memory.owner, twin.memory.content, twin.thread) != same:
            continue
        known = {source.turn_id for source in kept.sources}
        kept.sources += [source for source in twin.sources if source.turn_id not in known]
        for other in tables.memories.values():
            if other.memory.superseded_by == twin.memory.id:
                other.supersede(kept.memory.id, other.ended_at)
        del tables.memories[twin.memory.id]


def _keep(tables: Tables, new: NewMemory, turn_id: TurnId | None) -> Kept:
    """Keep a fact, or note that it was said again; what is said later of the same thing wins."""
    same = [kept for kept in of(tables, new.owner) if (kept.memory.content, kept.thread) == (new.content, new.thread)]
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
        origin=new.origin if memory.origin == "drawn" or new.origin == "person" else memory.origin,
        kind=memory.kind if memory.about else new.kind,
        about=memory.about or new.about,
    )


def _edited(memory: Memory, new: NewMemory) -> Memory:
    return replace(
        memory,
        content=new.content,
        kind=new.kind,
        about=new.about,
        origin="person",
        confidence=1.0,
        weight=max(memory.weight, new.weight),
        valid_from=new.said_at,
        valid_to=new.valid_to,
        superseded_by=None,
    )


def _settle(tables: Tables, new: NewMemory, kept: Kept) -> None:
    """Let what was said later win, of everything that is said of the same thing."""
    abouts = {about for about in (new.about, *new.replaces) if about}
    for other in of(tables, new.owner):
        memory = other.memory
        if memory.superseded_by or memory.about not in abouts or other.thread != new.thread or other is kept:
            continue
        if other.said_at() <= kept.said_at():
            other.supersede(kept.memory.id, kept.said_at())
        elif memory.about == new.about:
            kept.supersede(memory.id, other.said_at())
