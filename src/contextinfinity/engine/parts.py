"""What answering a turn needs, put together once: the ledger, the journals, the models, and who we are.

``News`` is how tasks of this process hear of each other: whoever waits takes the present one first, looks,
and then waits for it, so that nothing that happens in between is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from contextinfinity.domain.ids import StepId, TurnId, WorkerId
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import InvalidInput
from contextinfinity.providers.contract import Provider
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import Journal, JournalFolder


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model under the name people use for it."""

    name: str
    provider: Provider
    model_id: str


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models there are, and the one that answers where none is named."""

    by_name: Mapping[str, Model]
    default: str

    def named(self, name: str | None) -> Model:
        """Give a model by its name."""
        wanted = name or self.default
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise InvalidInput(f"There is no model {wanted!r}; there are: {known}.", hint="Name it under [models].")
        return self.by_name[wanted]


class News:
    """Something others wait for, again and again."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def listen(self) -> asyncio.Event:
        """Take the event that the next ``tell`` will set."""
        return self._next

    def tell(self) -> None:
        """Wake everybody who listens."""
        self._next.set()
        self._next = asyncio.Event()


class Running:
    """A turn that is being answered in this process, as its watchers see it."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.steps: list[StepId] = []
        self.journal: Journal | None = None
        self.cancelled = asyncio.Event()
        self.news = News()
        self.ended = False

    def move(self, turn: Turn) -> None:
        """Note where the turn stands now."""
        self.turn = turn
        self.news.tell()

    def end(self) -> None:
        """Say that nothing more will come."""
        self.ended = True
        self.news.tell()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The means to answer."""

    store: Store
    journals: JournalFolder
    models: Models
    worker: WorkerId
    taken_over: dict[TurnId, None] = field(default_factory=dict)
    """Turns of dead workers that are ours now and not brought to an end yet, oldest first."""
    branches: News = field(default_factory=News)
    """Told whenever a turn ends: a branch may be free."""
    look_seconds: float = 0.05
    """How often to look for what other processes do."""
