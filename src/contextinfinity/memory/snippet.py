"""Render facts for a prompt: one line each, never cutting a fact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from contextinfinity.domain.ids import MemoryId, TurnId

LONGEST = 2000
"""The maximum number of characters of a snippet."""


class MemoryLine(NamedTuple):
    """A fact as shown in a prompt, and its source turn; without an id it is not a stored memory."""

    text: str
    id: MemoryId = ""
    source: TurnId | None = None


def fitting(some: Iterable[MemoryLine], most: int = LONGEST) -> tuple[MemoryLine, ...]:
    """Return the first lines that fit into ``most`` characters; no line is cut."""
    kept, room = [], min(most, LONGEST) + 1
    for line in some:
        room -= len(line.text) + 1
        if room < 0:
            break
        kept.append(line)
    return tuple(kept)


def within(some: Iterable[MemoryLine], count: Callable[[str], int], tokens: int) -> tuple[MemoryLine, ...]:
    """Return the first lines that fit into ``tokens`` tokens."""
    kept = []
    for line in some:
        tokens -= count(line.text) + 1
        if tokens < 0:
            break
        kept.append(line)
    return tuple(kept)


def besides(some: Iterable[MemoryLine], shown: Collection[MemoryId], said: Collection[TurnId]) -> list[MemoryLine]:
    """Drop lines that the prompt already shows, as a memory or as the turn that stated them."""
    return [line for line in some if line.id and line.id not in shown and line.source not in said]


def lines(some: Iterable[MemoryLine]) -> str:
    """Join facts, one per line."""
    return "\n".join(line.text for line in some)
