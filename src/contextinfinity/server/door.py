"""What all requests of one process share: the client, the limits, the figures, and whether the end is near."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from fastapi import Request

from contextinfinity.client.contract import Client
from contextinfinity.client.drop_in import DropIn
from contextinfinity.client.local import LocalClient
from contextinfinity.domain.session import Owner
from contextinfinity.errors import TooMany
from contextinfinity.server.metrics import Figures
from contextinfinity.settings import Retention, Server, Settings

OpenClient: TypeAlias = Callable[[Settings], LocalClient]
BURST_SECONDS = 10.0
"""Of the requests a minute, those of so many seconds may come at once."""
MOST_RATES = 100_000
"""How many callers' rates are kept; beyond it all begin anew."""


class Rates:
    """How many requests each caller may still make: a bucket that fills as time goes by."""

    def __init__(self, per_minute: int) -> None:
        self._per_second = per_minute / 60
        self._most = max(self._per_second * BURST_SECONDS, 1.0)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count a request; ``TooMany`` when the bucket is empty."""
        if self._per_second == 0:
            return
        moment = asyncio.get_running_loop().time()
        left, since = self._left.get(caller, (self._most, moment))
        left = min(self._most, left + (moment - since) * self._per_second)
        if left < 1:
            wait = (1 - left) / self._per_second
            raise TooMany(f"These are more than {self._per_second * 60:g} requests a minute.", retry_after=wait)
        if len(self._left) >= MOST_RATES:
            self._left.clear()
        self._left[caller] = (left - 1, moment)


class Streams:
    """How many streams each user has open."""

    def __init__(self, most: int, figures: Figures) -> None:
        self._most = most
        self._open: Counter[Owner] = Counter()
        self._figures = figures

    def take(self, owner: Owner) -> Callable[[], None]:
        """Open one more, and give what closes it."""
        if self._open[owner] >= self._most:
            raise TooMany(f"{owner.user_id} has {self._most} streams open, and more are not allowed.")
        self._open[owner] += 1
        self._figures.streams.inc()

        def close() -> None:
            self._open[owner] -= 1
            self._figures.streams.dec()
            if not self._open[owner]:
                del self._open[owner]

        return close


@dataclass(kw_only=True)
class Door:
    """One process's share of a server."""

    client: Client
    drop_in: DropIn
    server: Server
    figures: Figures
    retention: Retention
    rates: Rates = field(init=False)
    streams: Streams = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is told to end: what has no end of its own ends now."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when whatever still runs has to be let go."""

    def __post_init__(self) -> None:
        self.rates = Rates(self.server.requests_per_minute)
        self.streams = Streams(self.server.streams_per_user, self.figures)
        self._loop = asyncio.get_running_loop()

    def end_soon(self) -> None:
        """Give what runs its time, and then let it go. Any thread may say so."""
        self._loop.call_soon_threadsafe(self.closing.set)
        self._loop.call_soon_threadsafe(self._loop.call_later, self.server.shutdown_seconds, self.ending.set)


def door_of(request: Request) -> Door:
    """Give the door a request came through."""
    door: Door = request.app.state.door
    return door
