"""State that all requests of one process share: client, limits, metrics, and whether it is shutting down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fastapi import Request

from contextinfinity.client.contract import TokenClient
from contextinfinity.client.local import LocalClient
from contextinfinity.client.results import Health
from contextinfinity.domain.session import Owner
from contextinfinity.server.limits import Counts, RateLimits, Streams
from contextinfinity.server.metrics import Metrics
from contextinfinity.settings import Retention, Server, Settings

OpenClient: TypeAlias = Callable[[Settings], AbstractAsyncContextManager[LocalClient]]


@dataclass(kw_only=True)
class AppState:
    """The state of one server process. Routes reach the engine only through ``acting_for``."""

    client: InitVar[LocalClient]
    server: Server
    figures: Metrics
    retention: Retention
    data_dir: Path
    counts: Counts = field(default_factory=Counts)
    rates: RateLimits = field(init=False)
    streams: Streams = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server shuts down: streams without an end stop now."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when everything that still runs must be cancelled."""

    rpc_users: dict[Owner, Any] = field(default_factory=dict)
    """State that the ``/rpc`` connections of an owner share, by owner."""

    def __post_init__(self, client: LocalClient) -> None:
        self._client = client
        self.rates = RateLimits(self.server.requests_per_minute, self.counts)
        self.streams = Streams(self.server.streams_per_user, self.counts, self.figures)
        self._loop = asyncio.get_running_loop()
        self._ends_at: float | None = None

    def acting_for(self, owner: Owner) -> LocalClient:
        """Return the client of one owner."""
        return self._client.acting_for(owner)

    @property
    def tokens(self) -> TokenClient:
        """The tokens of all users."""
        return self._client.tokens

    async def health(self) -> Health:
        """Return the state of the engine."""
        return await self._client.health()

    def end_soon(self) -> None:
        """Return running requests their shutdown time, then cancel them. May be called from any thread."""
        self._ends_at = self._loop.time() + self.server.shutdown_seconds
        self._loop.call_soon_threadsafe(self.closing.set)
        self._loop.call_soon_threadsafe(self._loop.call_later, self.server.shutdown_seconds, self.ending.set)

    def seconds_left(self) -> float:
        """Return how long unread answers may still run: they share ``shutdown_seconds`` with streams."""
        if self._ends_at is None:
            return self.server.shutdown_seconds
        return max(0.0, self._ends_at - self._loop.time())


def app_state_of(request: Request) -> AppState:
    """Return the interface a request came through."""
    app_state: AppState = request.app.state.app_state
    return app_state
