"""What a librarian is given and what it gives back.

In go the summary so far, what leaves the word-for-word part of the prompt, and a budget; out comes the new summary. A
librarian knows no store and no engine, never takes more than its budget, and never fails: whatever goes wrong on the
way is named in ``problems``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Role

Count: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text."""

Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Lets others go first. A librarian takes one after every message, within long ones, and every few entries."""


async def no_pause() -> None:
    """Go on at once."""


class Said(Struct, frozen=True, kw_only=True):
    """One thing said in a turn; a turn has several."""

    turn_seq: int
    role: Role
    text: str


class Task(Struct, frozen=True, kw_only=True):
    """What is to be folded into a summary.

    ``said`` is oldest first. ``budget`` bounds the whole new summary. Pinned facts stand elsewhere in the prompt word
    for word and are not repeated. When the topic is over, the story leaves and what was agreed stays; ``topic`` says in
    a few words what it was about.
    """

    summary: str = ""
    said: tuple[Said, ...] = ()
    budget: int = 500
    pinned_facts: tuple[str, ...] = ()
    topic_is_over: bool = False
    topic: str = ""


class Summary(Struct, frozen=True, kw_only=True):
    """The new summary, and who wrote it: ``offline`` or a model's id.

    ``problems`` says what went wrong on the way; of what people said it holds at most the missing entities.
    """

    text: str
    by: str = "offline"
    problems: tuple[str, ...] = ()


class Librarian(Protocol):
    """Writes summaries."""

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold what was said into the summary; the result takes at most ``task.budget`` tokens."""
        ...
