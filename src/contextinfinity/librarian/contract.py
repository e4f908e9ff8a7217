"""The input and output of a librarian.

The input is the current summary, the messages that leave the verbatim part of the prompt, and a budget; the output is
the new summary. A librarian uses neither the store nor the engine, never exceeds its budget and never raises: every
problem is listed in ``problems``.
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
    """One message of a turn, and its time."""

    turn_seq: int
    role: Role
    text: str
    at: datetime | None = None


class Task(Struct, frozen=True, kw_only=True):
    """The messages to fold into a summary.

    ``said`` is oldest first. ``budget`` limits the whole new summary. Pinned facts are in the prompt verbatim and
    are not repeated. If the topic is over, its narrative shrinks to one line, and binding entries are kept;
    ``topic`` says in a few words what it was about.
    """

    summary: str = ""
    said: tuple[TranscriptMessage, ...] = ()
    budget: int = 500
    pinned_facts: tuple[str, ...] = ()
    topic_is_over: bool = False
    topic: str = ""


class Summary(Struct, frozen=True, kw_only=True):
    """The new summary, its author (``offline`` or a model's id), and the tokens used.

    ``problems`` lists what went wrong; it quotes nothing but names. ``rejected`` is the kind of failure if the
    provider currently rejects every request: invalid key, no credit, rate limit.
    """

    text: str
    by: str = "offline"
    problems: tuple[str, ...] = ()
    usage: Usage = Usage()
    rejected: str = ""


class Librarian(Protocol):
    """Writes summaries."""

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        """Fold the messages into the summary; the result has at most ``task.budget`` tokens."""
        ...
