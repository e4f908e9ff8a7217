"""How tasks of this process notify each other.

A task that waits for ``News`` takes the present event first, looks, and then waits for it, so that nothing that happens
in between is missed. A ``Broadcast`` gives every follower all that is told from then on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from contextinfinity.domain.events import CompactionEvent

MOST_UNHEARD = 100
"""How many events are kept for one who follows and is slow."""


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


class Broadcast:
    """Sends the events of folds to every follower; a slow follower loses the oldest ones."""

    def __init__(self) -> None:
        self._followers: list[deque[CompactionEvent]] = []
        self._news = News()

    def tell(self, event: CompactionEvent) -> None:
        """Tell all who follow."""
        for follower in self._followers:
            follower.append(event)
        self._news.tell()

    async def follow(self) -> AsyncIterator[CompactionEvent]:
        """Give what happens from now on."""
        heard = deque[CompactionEvent](maxlen=MOST_UNHEARD)
        self._followers.append(heard)
        try:
            while True:
                news = self._news.listen()
                while heard:
                    yield heard.popleft()
                await news.wait()
        finally:
            self._followers.remove(heard)
