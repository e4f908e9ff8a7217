"""What a librarian is given and what it returns.

The input is the summary so far, what leaves the verbatim part of the prompt, and a budget; the output is the new
summary. A librarian knows no store and no engine, never exceeds its budget and never fails: every problem on the way
is listed in ``problems``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Role
from contextinfinity.domain.turn import Usage

Count: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text."""

Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Gives other tasks a turn. A librarian pauses after every message, within long ones, and every few entries."""


async def no_pause() -> None:
    """Continue at once."""


class TranscriptMessage(Struct, frozen=True, kw_only=True):
    """One message of a turn, and when it was said."""

    turn_seq: int
    role: Role
    text: str
    at: datetime | None = None


class Task(Struct, frozen=True, kw_only=True):
    """What is folded into a summary.

    ``said`` is oldest first. ``budget`` bounds the whole new summary. Pinned facts are in the prompt verbatim and are
    not repeated. When the topic is over, its narrative shrinks to one line, and what binds stays; ``topic`` says in a
    few words what it was about.
    """

    summary: str = ""
    said: tuple[TranscriptMessage, ...] = ()
    budget: int = 500
    pinned_facts: tuple[str, ...] = ()
    topic_is_over: bool = False
    topic: str = ""


class Summary(Struct, frozen=True, kw_only=True):
    """The new summary, who wrote it (``offline`` or a model's id), and what the model used.

    ``problems`` lists what went wrong; of what people said it contains at most names. ``rejected`` is the kind of
    failure when the provider refuses every request for now: no key, no credit, too many requests.
    """

    text: str
    by: str = "offline"
    problems: tuple[str, ...] = ()
    usage: Usage = Usage()
    rejected: str = ""


class Librarian(Protocol):
    """Writes summaries."""

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold what was said into the summary; the result takes at most ``task.budget`` tokens."""
        ...
