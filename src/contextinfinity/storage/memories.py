"""What a store promises about memories.

Every verb takes the owner, and knows nothing of anybody else's: what is another's is not there. A memory is kept once
for the same words on the same shelf, with every turn that said it. What is said later wins over what was said earlier
of the same thing (``about``), as long as somebody says it: when its last turn is deleted, what it made untrue holds
again. What was forgotten leaves a hash and a time: no turn from before can bring it back, nor what it made untrue.
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
        """Keep a fact that comes from no turn; one that is there is kept once. ``InvalidInput`` for an empty one."""
        ...

    async def draw(self, turn_id: TurnId, new: Sequence[NewMemory]) -> tuple[Memory, ...]:
        """Keep what a turn says, and nothing else of it: what it was once said to say goes. Gives what it says.

        Doing so twice changes nothing. A turn that is not there says nothing.
        """
        ...

    async def read(self, owner: Owner, ids: Sequence[MemoryId]) -> tuple[Memory, ...]:
        """Read those that are there and the owner's, in the order of the ids."""
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
        """Read the owner's, the newest first; ``superseded``: also what was true once.

        ``thread``: that thread's alone; empty: those that are no thread's. ``after``: what stands behind it.
        """
        ...

    async def revision(self, owner: Owner) -> Revision:
        """Return the version of the owner's memories; an ``Extraction`` that is based on it is written only while it
        is current.
        """
        ...

    async def recall(self, asked: Recall) -> MemoryRecall:
        """Find what may matter to a turn: the user's own memories and its thread's, living and not expired.

        What was learned on a line that was left is there only where the turn sees it, or a person asked for it. What
        the turn does not see makes nothing untrue for it. What its thread alone says of a thing holds in place of what
        the user says elsewhere of the same.
        """
        ...

    async def current(self, asked: Recall, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        """Tell what a turn may take for true in place of each: itself, or what was said since.

        One is missing where that was forgotten, or where the turn may not see it any more.
        """
        ...

    async def edit(self, owner: Owner, memory_id: MemoryId, new: NewMemory) -> Memory:
        """Put other words in its place; the old ones are gone as if forgotten. ``NotFound`` where there is none.

        From now on it is true, and about what the new words are about; another with the same words goes into it.
        """
        ...

    async def forget(
        self, owner: Owner, ids: Sequence[MemoryId], *, at: datetime | None = None, thread: SessionId | None = None
    ) -> int:
        """Remove memories, and all that has the same words; tell how many are gone. Unknown ones count for nothing.

        ``at``: what was said until then cannot bring them back; None: until now. ``thread``: only what is its own.
        """
        ...

    async def placed(self, owner: Owner, ids: Sequence[MemoryId], at: datetime) -> None:
        """Note that they stood in a prompt; to the hour, so that most times nothing is written."""
        ...

    async def expire(self, owner: Owner, oldest: datetime) -> int:
        """Remove what was neither said nor shown since then; tell how many."""
        ...


def words_of(content: str) -> set[str]:
    """Give the words a memory is found by; all of them are about the user."""
    return set(terms(content)) - {"user"}


def check_memory(new: NewMemory) -> None:
    """Refuse a fact that says nothing, or is no single sentence any more."""
    if not new.content.strip():
        raise InvalidInput("A memory says something; this one is empty.")
    if len(new.content) > LONGEST_MEMORY or "\n" in new.content:
        raise InvalidInput(
            f"A memory is one line of at most {LONGEST_MEMORY} characters.", hint="Keep the fact, not the whole text."
        )
    check_id(new.thread)


def sees(lineage: Lineage, branch_id: BranchId, turn_seq: int) -> bool:
    """Tell whether a turn of a branch is one of a lineage."""
    return any(
        stretch.branch_id == branch_id
        and stretch.first <= turn_seq
        and (stretch.last is None or turn_seq <= stretch.last)
        for stretch in lineage.stretches
    )
