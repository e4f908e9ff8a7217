"""Facts as a prompt shows them: one line each, cut between facts only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from contextinfinity.domain.ids import MemoryId, TurnId

LONGEST = 2000
"""Characters that a snippet may have."""


class MemoryLine(NamedTuple):
    """A fact as it stands in a prompt, and the turn that said it; without an id it is nobody's memory."""

    text: str
    id: MemoryId = ""
    source: TurnId | None = None


def fitting(some: Iterable[MemoryLine], most: int = LONGEST) -> tuple[MemoryLine, ...]:
    """Keep lines from the first on, as many as fit; none is cut."""
    kept, room = [], min(most, LONGEST) + 1
    for line in some:
        room -= len(line.text) + 1
        if room < 0:
            break
        kept.append(line)
    return tuple(kept)


def within(some: Iterable[MemoryLine], count: Callable[[str], int], tokens: int) -> tuple[MemoryLine, ...]:
    """Keep lines from the first on, as many as that many tokens hold."""
    kept = []
    for line in some:
        tokens -= count(line.text) + 1
        if tokens < 0:
            break
        kept.append(line)
    return tuple(kept)


def besides(some: Iterable[MemoryLine], shown: Collection[MemoryId], said: Collection[TurnId]) -> list[MemoryLine]:
    """Keep what does not stand in the prompt anyway, as a memory or in the words of the turn that said it."""
    return [line for line in some if line.id and line.id not in shown and line.source not in said]


def lines(some: Iterable[MemoryLine]) -> str:
    """Write facts, a line each."""
    return "\n".join(line.text for line in some)
