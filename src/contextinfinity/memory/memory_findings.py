"""Facts extracted from one message before they become memories, and the findings of an audit."""

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
    """A problem of a memory that an audit found, with the reason."""

    memory_id: MemoryId
    trouble: Trouble
    why: str


class StatedFact(Struct, frozen=True, kw_only=True):
    """A fact and its position in the message; ``here`` limits it to this thread."""

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
    """The kinds of facts that it ends if they contain ``named``; without such a memory the fact is dropped."""
    named: tuple[str, ...] = ()
    vague: bool = False
    """Whether it may refer to a known fact in fewer words: "the flight" for the flight to Rome."""


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """A request to forget: ``facts``, otherwise memories with all of ``words``; or ``everything``.

    ``abouts`` are kinds of facts, such as the home, limited to those with the words ``only``; ``denied`` selects
    negated facts.
    """

    facts: tuple[str, ...] = ()
    abouts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    denied: bool = False
    everything: bool = False


class ExtractedMemories(Struct, frozen=True, kw_only=True):
    """The facts that a message states, and the requests to forget."""

    facts: tuple[StatedFact, ...] = ()
    unwanted: tuple[ForgetRequest, ...] = ()


class StatedPeriod(Protocol):
    """A mentioned time: from ``start`` until just before ``end``, and the words that mention it."""

    @property
    def start(self) -> datetime:
        """The start of the period."""
        ...

    @property
    def end(self) -> datetime:
        """The end of the period."""
        ...

    @property
    def words(self) -> str:
        """The words that mention it."""
        ...


When: TypeAlias = Callable[[str, datetime], Sequence[StatedPeriod]]
"""Returns the times that a text mentions, relative to a moment."""


def key_of(text: str) -> str:
    """Return a key that is equal for forms of one name: "the Blue Whales" and "blue whale"."""
    return " ".join(sorted(set(terms(text))))
