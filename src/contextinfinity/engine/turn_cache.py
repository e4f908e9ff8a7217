"""Caches of ledger data: the turns of recently used branches, the turns answered last, and texts stored by hash.

``TurnCache`` keeps earlier turns as they were read, rendered and counted for the last request of a branch. A settled
turn never changes, so a request reads only newer turns. Before a copy is used, it is compared with the ledger's digest
of the same range: after a change by any process, an expiry or a deletion everything is read again. Only complete ranges
of settled turns are cached, up to a total size. The least recently used branch is evicted first, and every branch after
``IDLE_SECONDS``, so that text deleted by another process does not stay in memory.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from contextinfinity.domain.ids import BranchId, TurnId, to_millis
from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.state import KnownTurns, State
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.domain.wire import text_hash
from contextinfinity.errors import NotFound
from contextinfinity.prompt.prompt_sections import RenderCache
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.contents import Contents
from contextinfinity.storage.ledger.turns import FEW, Turns

PAGE = 100
"""The number of turns that are read at a time."""
IDLE_SECONDS = 600.0
MOST_BYTES = 32_000_000
"""The maximum size of the cached turns, as JSON."""
MOST_ANSWERED = 4_000_000
"""The maximum number of characters of the cached answered turns: more turns than wait for their jobs."""
MOST_TEXTS = 256
MOST_UNSAVED = 4096
"""The maximum number of texts waiting to be stored; the oldest, left by failed turns, are dropped first."""
FRESH_SECONDS = 1800.0
"""How long a text is assumed to be stored; unreferenced texts may be removed after an hour."""


@dataclass(frozen=True, kw_only=True)
class CachedTurns:
    """All turns of a branch after turn ``after``, up to the last settled one."""

    after: int
    turns: tuple[Turn, ...]
    updated: int
    """The sum of their update times, in milliseconds."""
    characters: int
    size: int
    """Their size in bytes."""
    rendered: RenderCache = field(default_factory=RenderCache)
    used_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, after: int, turns: Sequence[Turn], before: CachedTurns | None) -> CachedTurns:
        """Extend the range ``before`` to these turns, or create a new one."""
        new = turns[len(before.turns) :] if before is not None else turns
        return cls(
            after=after,
            turns=tuple(turns),
            updated=sum(to_millis(turn.updated_at) for turn in new) + (before.updated if before else 0),
            characters=sum(map(length, new)) + (before.characters if before else 0),
            size=sum(len(msgspec.json.encode(turn)) for turn in new) + (before.size if before else 0),
            rendered=before.rendered if before else RenderCache(),
        )

    @property
    def last(self) -> int:
        """The number of the last turn."""
        return self.turns[-1].turn_seq

    @property
    def known(self) -> KnownTurns:
        """The range, for a comparison with the ledger."""
        return KnownTurns(first=self.after + 1, last=self.last, count=len(self.turns), updated=self.updated)

    def later_than(self, turn_seq: int) -> CachedTurns | None:
        """Return the turns after ``turn_seq``; None if there are none."""
        if turn_seq == self.after:
            return self
        left = [turn for turn in self.turns if turn.turn_seq > turn_seq]  # the older ones were folded
        return CachedTurns.of(turn_seq, left, None) if left else None


class TurnCache:
    """An LRU cache of the latest turns of branches, limited to ``most`` bytes."""

    def __init__(self, turns: Turns, most: int) -> None:
        self._turns = turns
        self._most = most
        self._size = 0
        self._stretches: OrderedDict[BranchId, CachedTurns] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stretches)

    async def read(
        self, branch_id: BranchId, *, before: int, after: int | None = None, room: float = math.inf
    ) -> tuple[State, list[Turn], RenderCache]:
        """Return a branch's head and its turns between two turn numbers, oldest first, with their cached rendering.

        ``after`` defaults to the last turn that the head's summary covers. Older turns beyond ``room`` characters are
        omitted.
        """
        kept = self._stretches.get(branch_id)
        kept = None if kept is None or kept.last >= before else kept
        known = None if kept is None else kept.known
        try:
            tail = await self._turns.tail(branch_id, before=before, after=after, known=known)
        except NotFound:
            self._drop(branch_id)
            raise
        after = tail.state.covers_turn_seq if after is None else after
        kept = kept.later_than(after) if kept is not None and tail.extends else None
        begin = after if kept is None else kept.last
        turns = [*(kept.turns if kept else ()), *await self._with_older(branch_id, tail.turns, begin, room)]
        if sum(map(length, turns)) < room:
            return tail.state, *self._keep(branch_id, after, turns, kept)
        if kept is None:
            self._drop(branch_id)
        return tail.state, newest_within(turns, room), RenderCache()

    def forget(self) -> None:
        """Empty the cache; call this after a deletion."""
        self._stretches.clear()
        self._size = 0

    def drop_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Drop the branches that were not read for ``seconds``."""
        for branch_id, stretch in [*self._stretches.items()]:
            if time.monotonic() - stretch.used_at >= seconds:
                self._drop(branch_id)

    async def _with_older(self, branch_id: BranchId, turns: Sequence[Turn], after: int, room: float) -> Sequence[Turn]:
        """Return the newest turns with the pages before them."""
        if len(turns) < FEW or turns[0].turn_seq - 1 <= after:
            return turns
        room -= sum(map(length, turns))
        return [*await read_back(self._turns, branch_id, after=after, before=turns[0].turn_seq, room=room), *turns]

    def _keep(
        self, branch_id: BranchId, after: int, turns: list[Turn], before: CachedTurns | None
    ) -> tuple[list[Turn], RenderCache]:
        end = 0 if before is None else len(before.turns)
        while end < len(turns) and turns[end].phase in (Phase.DONE, Phase.FAILED):
            end += 1
        if end and turns[end - 1].outcome is None:  # its answer may still be logged
            end -= 1
        self._drop(branch_id)
        if end == 0 or self._most <= 0:
            return turns, RenderCache()
        stretch = self._stretches[branch_id] = CachedTurns.of(after, turns[:end], before)
        self._size += stretch.size
        while self._size > self._most:
            self._drop(next(iter(self._stretches)))
        return turns, stretch.rendered

    def _drop(self, branch_id: BranchId) -> None:
        stretch = self._stretches.pop(branch_id, None)
        self._size -= 0 if stretch is None else stretch.size


def length(turn: Turn) -> int:
    """Return the number of characters that a turn shows."""
    return len(turn.user_message.rendered_text) + len(turn.text)


async def read_back(
    turns: Turns, branch_id: BranchId, *, after: int, before: int, room: float = math.inf
) -> list[Turn]:
    """Return a branch's turns between two turn numbers, oldest first, without older ones beyond ``room`` characters."""
    found: list[Turn] = []
    while before - 1 > after and room > 0:
        count = min(PAGE, before - 1 - after)
        page = await turns.history(branch_id, limit=count, before=before)
        page = tuple(turn for turn in page if turn.turn_seq > after)  # fewer than requested if some were deleted
        if not page:
            break
        found[:0] = page
        before = page[0].turn_seq
        if before - 1 > after:
            room -= sum(map(length, page))
    return found


def newest_within(turns: Sequence[Turn], room: float) -> list[Turn]:
    """Return the newest turns, back to the one with which they exceed ``room`` characters."""
    newest: list[Turn] = []
    for turn in reversed(turns):
        newest.append(turn)
        room -= length(turn)
        if room <= 0:
            break
    return newest[::-1]


class AnsweredTurns:
    """The turns that this process answered last: their jobs and the next request need not read them from the ledger."""

    def __init__(self) -> None:
        self._turns: OrderedDict[TurnId, AnsweredTurn] = OrderedDict()
        self._characters = 0

    def keep(self, answered: AnsweredTurn) -> None:
        """Keep a turn that was just answered; the oldest ones are dropped beyond ``MOST_ANSWERED`` characters."""
        if (before := self._turns.pop(answered.turn.id, None)) is not None:
            self._characters -= _length_with_context(before)
        self._turns[answered.turn.id] = answered
        self._characters += _length_with_context(answered)
        while self._characters > MOST_ANSWERED:
            self._characters -= _length_with_context(self._turns.popitem(last=False)[1])

    def get(self, turn_id: TurnId | None) -> AnsweredTurn | None:
        """Return a turn as it was when it was answered; None if it is not cached."""
        return None if turn_id is None else self._turns.get(turn_id)

    def forget(self) -> None:
        """Empty the cache."""
        self._turns.clear()
        self._characters = 0


def _length_with_context(answered: AnsweredTurn) -> int:
    return sum(map(length, (answered.turn, *answered.earlier)))


class TextCache:
    """Texts that are stored once by hash: fronts, request forms, redaction spans.

    A text is stored by the transaction of the step whose plan refers to it (TX-P). A recently stored text is not
    stored again.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._known: OrderedDict[str, str] = OrderedDict()
        self._saved_at: dict[str, float] = {}
        self._unsaved: dict[str, str] = {}

    def keep(self, text: str) -> str:
        """Cache a text and return its hash; the step that refers to it must store what ``unsaved`` returns."""
        sha256 = text_hash(text).hex()
        if time.monotonic() - self._saved_at.get(sha256, -FRESH_SECONDS) >= FRESH_SECONDS:
            self._unsaved[sha256] = text
            if len(self._unsaved) > MOST_UNSAVED:
                del self._unsaved[next(iter(self._unsaved))]
        self._known[sha256] = text
        self._known.move_to_end(sha256)
        while len(self._known) > MOST_TEXTS:
            self._saved_at.pop(self._known.popitem(last=False)[0], None)
        return sha256

    def unsaved(self, *hashes: str | None) -> tuple[str, ...]:
        """Return the texts among ``hashes`` that must be stored."""
        return tuple(self._unsaved[sha256] for sha256 in hashes if sha256 in self._unsaved)

    def saved(self, texts: tuple[str, ...]) -> None:
        """Record that texts were stored."""
        for sha256 in (text_hash(text).hex() for text in texts):
            self._unsaved.pop(sha256, None)
            if sha256 in self._known:
                self._saved_at[sha256] = time.monotonic()

    async def read(self, sha256: str) -> str | None:
        """Return a text; None if it was deleted."""
        if (known := self._known.get(sha256)) is not None:
            self._known.move_to_end(sha256)
            return known
        return await self._contents.text(sha256)

    def forget(self) -> None:
        """Empty the cache; call this after a deletion."""
        self._known.clear()
        self._saved_at.clear()


class Caches:
    """The caches of one engine; ``most`` limits the bytes of turns."""

    def __init__(self, store: Store, most: int = MOST_BYTES) -> None:
        self.turns = TurnCache(store.turns, most)
        self.answered = AnsweredTurns()
        self.texts = TextCache(store.contents)

    def forget(self) -> None:
        """Empty all caches; call this after a deletion."""
        self.turns.forget()
        self.answered.forget()
        self.texts.forget()

    def drop_idle(self) -> None:
        """Drop what was not used for a while, so that text deleted by another process does not stay in memory."""
        self.turns.drop_idle()
        self.answered.forget()
