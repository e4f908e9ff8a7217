"""What one message tells, before it is anybody's memory, and what an audit finds wrong with memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import MemoryId
from contextinfinity.domain.memory import MemoryKind, MemoryOrigin
from contextinfinity.text.keywords import terms

Trouble: TypeAlias = Literal["ungrounded", "duplicate", "stale"]


class MemoryFinding(Struct, frozen=True, kw_only=True):
    """What an audit finds wrong with a memory, and why."""

    memory_id: MemoryId
    trouble: Trouble
    why: str


class StatedFact(Struct, frozen=True, kw_only=True):
    """A fact, and where in the message it was said. ``here``: it is to hold in this thread alone."""

    content: str
    start: int
    end: int
    kind: MemoryKind = "note"
    about: str = ""
    replaces: tuple[str, ...] = ()
    weight: int = 3
    origin: MemoryOrigin = "drawn"
    confidence: float = 0.9
    valid_to: datetime | None = None
    here: bool = False
    ends: tuple[str, ...] = ()
    """The sorts of facts of which it ends those that name ``named``; where there is none, it says nothing."""
    named: tuple[str, ...] = ()
    vague: bool = False
    """Whether it may name by fewer words what is known: "the flight" for the flight to Rome."""


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """What the user wants to be forgotten: these facts, or else whatever has these words; ``everything``: all of it.

    ``abouts`` are sorts of facts, such as where they live, of which those are meant that have the words ``only``;
    ``denied``: what is meant says that something is not so.
    """

    facts: tuple[str, ...] = ()
    abouts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    denied: bool = False
    everything: bool = False


class ExtractedMemories(Struct, frozen=True, kw_only=True):
    """What a message tells, and what it takes back."""

    told: tuple[StatedFact, ...] = ()
    unwanted: tuple[ForgetRequest, ...] = ()


class StatedPeriod(Protocol):
    """A time that was named: from ``start`` until just before ``end``, by these words."""

    @property
    def start(self) -> datetime:
        """When it begins."""
        ...

    @property
    def end(self) -> datetime:
        """When it is over."""
        ...

    @property
    def words(self) -> str:
        """What named it."""
        ...


When: TypeAlias = Callable[[str, datetime], Sequence[StatedPeriod]]
"""Reads the times that a text names, said at that moment."""


def key_of(text: str) -> str:
    """Name a thing so that its forms agree: "the Blue Whales" and "blue whale"."""
    return " ".join(sorted(set(terms(text))))
