"""The index, in every store: finding by words, reading what was found, and keeping in step with the ledger.

What all verbs of a store share, these share. A message is found by its words from the transaction on in which it
became durable; its chunks and vectors come with TX-C, or with ``fill`` for turns that came finished.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

from contextinfinity.domain.chunk import NewChunk
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.search import IndexedMessage, IndexState, Scope, TextPosition, WordHits
from contextinfinity.domain.turn import Turn

CutTurn: TypeAlias = tuple[TurnId, Sequence[NewChunk]]

BORROWED_FROM = 2
"""How many earlier turns a turn borrows words from."""
MOST_TERMS = 32
"""Words of a question that are looked up; further ones are not."""


def weight(count: int, total: int) -> int:
    """Weigh a word by how rare it is: an even number, so that half of it, for a borrowed word, is one too."""
    rest = max(total - count, 0)
    return 2 * round(1024 * math.log1p((rest + 0.5) / (count + 0.5)))


class Index(Protocol):
    """Words that find what was said. All of it is derived and can be made anew."""

    async def find_words(self, terms: Sequence[str], scope: Scope, *, most: int = 128) -> WordHits:
        """Find places that hold any of the terms, those with the most and the rarest first.

        A term that is only borrowed counts half; of equals the newer place comes first. Within a session all is exact;
        in much more than that, places of common words are only looked for among the newest. ``since`` is meant with
        that moment, ``until`` without; ``types`` admits sides that have a chunk of one of them.
        """
        ...

    async def read(self, places: Sequence[TextPosition]) -> tuple[IndexedMessage, ...]:
        """Read places in the order asked for; unknown ones, and sides on which nothing was said, are left out."""
        ...

    async def around(self, turn_ids: Collection[TurnId]) -> tuple[IndexedMessage, ...]:
        """Read all that was said in those turns, and in the turns just before and after them in the same branch."""
        ...

    async def uncut(self, *, limit: int = 256) -> tuple[Turn, ...]:
        """Read turns that have ended (Indexed, Done, Failed) and have no chunks yet, the oldest first."""
        ...

    async def turns(self, *, after: TurnId | None = None, limit: int = 256) -> tuple[Turn, ...]:
        """Read turns in any phase, the oldest first; ``after``: those that were said after that one.

        All of them, page by page, given to ``replace``, make the index anew.
        """
        ...

    async def check(self, *, after: int = 0) -> int | None:
        """Look over some of what was said, the oldest first, whether words and chunks of it are there.

        What is missing is among the ``uncut`` from then on. Gives what the next call goes on after; None at the end.
        """
        ...

    async def fill(self, cut: Sequence[CutTurn]) -> None:
        """Add the chunks of such turns; a turn in which nothing was said is given without any, and is done.

        Words that are missing come with them. ``WrongPhase`` for a turn that has not ended.
        """
        ...

    async def replace(self, cut: Sequence[CutTurn]) -> None:
        """Make words, chunks and vectors of those turns anew, in one transaction: they are found all the while.

        A turn that has not ended is given without chunks: only its words are made anew, and what it has stays.
        """
        ...

    async def state(self) -> IndexState:
        """Tell how far the index goes."""
        ...
