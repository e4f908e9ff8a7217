"""Audit memories: each must be supported by its source message, be unique, and not be outdated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TypeAlias

from contextinfinity.domain.memory import Memory
from contextinfinity.memory.memory_findings import MemoryFinding
from contextinfinity.memory.reconciling import same
from contextinfinity.memory.table import TABLE
from contextinfinity.text.keywords import terms

SourceOf: TypeAlias = Callable[[Memory], str | None]
"""Returns the text that a memory was extracted from; None if it was deleted."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d(?: to \d{4}-\d\d-\d\d)?")
_OURS = """
user said was cancelled called works as at not no longer they them their theirs themselves are have will would
favourite colour goes does never cannot
"""


def audit(memories: Sequence[Memory], source: SourceOf, *, at: datetime, oldest: datetime) -> list[MemoryFinding]:
    """Return the problems of an owner's current memories; a memory written by a person needs no source message."""
    found = [*_ungrounded(memories, source), *_duplicates(memories), *_stale(memories, at, oldest)]
    order = {memory.id: place for place, memory in enumerate(memories)}
    return sorted(found, key=lambda finding: order[finding.memory_id])


def is_grounded(content: str, words: str) -> bool:
    """Return whether all words of a fact occur in the text it was extracted from."""
    return set(terms(_DAY.sub(" ", content))) <= set(terms(words)) | _own_terms()


@cache
def _own_terms() -> frozenset[str]:
    """Return the words of our own sentence templates."""
    facts = " ".join(re.sub(r"\{\w\}", " ", row.fact) for row in TABLE)
    return frozenset(terms(f"{facts} {_OURS}"))


def _ungrounded(memories: Sequence[Memory], source: SourceOf) -> Iterator[MemoryFinding]:
    for memory in memories:
        if memory.origin == "person":
            continue
        words = source(memory)
        if words is None:
            yield MemoryFinding(memory_id=memory.id, trouble="ungrounded", why="its turn was deleted")
        elif not is_grounded(memory.content, words):
            yield MemoryFinding(memory_id=memory.id, trouble="ungrounded", why="its turn does not support it")


def _duplicates(memories: Sequence[Memory]) -> Iterator[MemoryFinding]:
    by_word: dict[tuple[tuple[str, ...], str], list[Memory]] = {}
    for memory in memories:
        twin: Memory | None = None
        words = sorted(set(terms(memory.content)), key=lambda word: (-len(word), word))[:3]
        for word in words:
            near = by_word.setdefault((memory.tags, word), [])
            twin = twin or next((one for one in near if same(one.content, memory.content)), None)
            near.append(memory)
        if twin is not None and twin.about.partition(":")[0] == memory.about.partition(":")[0] != "plan":
            yield MemoryFinding(memory_id=memory.id, trouble="duplicate", why=f"{twin.id} says the same")


def _stale(memories: Sequence[Memory], at: datetime, oldest: datetime) -> Iterator[MemoryFinding]:
    for memory in memories:
        said = memory.valid_from or memory.created_at
        used = said if memory.last_placed_at is None else max(said, memory.last_placed_at)
        if memory.valid_to is not None and memory.valid_to <= at:
            yield MemoryFinding(memory_id=memory.id, trouble="stale", why="its date has passed")
        elif used < oldest:
            yield MemoryFinding(
                memory_id=memory.id, trouble="stale", why="it was neither confirmed nor used for a long time"
            )
