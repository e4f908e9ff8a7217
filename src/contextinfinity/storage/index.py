"""The contract of the search index: keyword search, reading the results, and keeping the index up to date.

The rules of ``storage.contract`` apply. The words of a message are indexed in the transaction that writes it; chunks
and vectors follow with TX-C, or with ``fill`` for turns that were recorded or imported.
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
"""At most this many words of a question are looked up."""


def weight(count: int, total: int) -> int:
    """Return the weight of a word by its rarity; even, so that half of it (for a borrowed word) is an integer."""
    rest = max(total - count, 0)
    return 2 * round(1024 * math.log1p((rest + 0.5) / (count + 0.5)))


class Index(Protocol):
    """The search index. All of it is derived from the messages and can be rebuilt."""

    async def find_words(self, terms: Sequence[str], scope: Scope, *, most: int = 128) -> WordHits:
        """Return positions that contain any of the terms, those with the most and the rarest terms first.

        A borrowed term has half the weight; of equal scores the newer position comes first. The result is exact within
        a session; in large scopes common words are looked up among the newest positions only. ``since`` is inclusive,
        ``until`` exclusive; ``types`` admits sides that have a chunk of one of these types.
        """
        ...

    async def read(self, places: Sequence[TextPosition]) -> tuple[IndexedMessage, ...]:
        """Return the messages at these positions, in the given order; unknown and empty ones are left out."""
        ...

    async def around(self, turn_ids: Collection[TurnId]) -> tuple[IndexedMessage, ...]:
        """Return the messages of these turns and of the turns just before and after them in the same branch."""
        ...

    async def uncut(self, *, limit: int = 256) -> tuple[Turn, ...]:
        """Return finished turns (Indexed, Done, Failed) without chunks, oldest first."""
        ...

    async def turns(self, *, after: TurnId | None = None, limit: int = 256) -> tuple[Turn, ...]:
        """Return turns in any phase, oldest first; with ``after``, those accepted after that turn.

        To rebuild the index, pass all pages to ``replace``.
        """
        ...

    async def check(self, *, after: int = 0) -> int | None:
        """Check a batch of messages, oldest first, for missing index words and chunks.

        Incomplete turns are returned by ``uncut`` from then on. Returns ``after`` for the next call; None at the end.
        """
        ...

    async def fill(self, cut: Sequence[CutTurn]) -> None:
        """Add the chunks and missing index words of finished turns; an empty turn is passed without chunks.

        Raises ``WrongPhase`` for a turn that has not ended.
        """
        ...

    async def replace(self, cut: Sequence[CutTurn]) -> None:
        """Replace the words, chunks and vectors of these turns in one transaction; searches keep working.

        A turn that has not ended is passed without chunks: only its words are replaced.
        """
        ...

    async def state(self) -> IndexState:
        """Return how complete the index is."""
        ...
