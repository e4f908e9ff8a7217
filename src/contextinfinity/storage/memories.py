"""The contract for memories.

Methods see the memories of one owner only. Equal text in one scope (the user, or one conversation) is stored once, with
all turns that it was extracted from. A later memory supersedes an earlier one about the same subject (``about``); when
the last source turn of the later one is deleted, the earlier one is valid again. A forgotten memory leaves a hash and a
time: turns from before that time cannot restore it, nor the memories that it superseded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from contextinfinity.domain.ids import BranchId, MemoryId, Position, SessionId, TurnId
from contextinfinity.domain.memory import LONGEST_MEMORY, Memory, MemoryRecall, NewMemory, Recall, Revision
from contextinfinity.domain.session import Lineage, Owner
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.invariants import check_id
from contextinfinity.text.keywords import terms


class Memories(Protocol):
    """Facts kept across conversations."""

    async def add(self, new: NewMemory) -> Memory:
        """Store a fact without a source turn; an existing one is returned. Raises ``InvalidInput`` if it is empty."""
        ...

    async def draw(self, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
        """Replace all memories extracted from this turn, and return the new ones.

        Idempotent. For an unknown turn nothing is stored.
        """
        ...

    async def read(self, owner: Owner, ids: Sequence[MemoryId]) -> tuple[Memory, ...]:
        """Return the owner's memories with these ids, in the order of the ids."""
        ...

    async def list(
        self,
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
        ...

    async def revision(self, owner: Owner) -> Revision:
        """Return the version of the owner's memories; an ``Extraction`` that is based on it is written only while it
        is current.
        """
        ...

    async def recall(self, asked: Recall) -> MemoryRecall:
        """Return memories that may be relevant to a turn: valid ones of the user and of the turn's conversation.

        Memories from an abandoned branch are included only if the turn sees that branch or a person asked to keep them.
        Memories that the turn does not see supersede nothing for it. A memory of the conversation takes precedence over
        one of the user about the same subject.
        """
        ...

    async def current(self, asked: Recall, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        """Return for each memory the one that is valid for the turn: itself, or the one that superseded it.

        An id is missing if its successor was forgotten or is not visible to the turn.
        """
        ...

    async def edit(self, owner: Owner, memory_id: MemoryId, new: NewMemory) -> Memory:
        """Replace the text of a memory; the old text is treated as forgotten. Raises ``NotFound`` if it is unknown.

        The memory is valid from now on and is about the subject of the new text. Another memory with equal text is
        merged into it.
        """
        ...

    async def forget(
        self, owner: Owner, ids: Sequence[MemoryId], *, at: datetime | None = None, thread: SessionId | None = None
    ) -> int:
        """Delete memories and all others with the same text; return how many. Unknown ids are ignored.

        Turns up to ``at`` (default: now) cannot restore them. ``thread`` limits this to one conversation's memories.
        """
        ...

    async def placed(self, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
        """Record that memories were placed in a prompt, at most once an hour for each."""
        ...

    async def expire(self, owner: Owner, oldest: datetime) -> int:
        """Delete memories that were neither stated nor placed in a prompt since ``oldest``; return how many."""
        ...


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


def sees(lineage: Lineage, branch_id: BranchId, turn_seq: int) -> bool:
    """Return whether a lineage includes this turn of the branch."""
    return any(
        stretch.branch_id == branch_id
        and stretch.first <= turn_seq
        and (stretch.last is None or turn_seq <= stretch.last)
        for stretch in lineage.stretches
    )
