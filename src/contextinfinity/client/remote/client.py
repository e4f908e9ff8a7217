"""The client of a server, assembled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import copy
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from contextinfinity.client.contract import (
    LOCAL,
    Conversations,
    ExportFormat,
    Exports,
    Folds,
    HistoryClient,
    Imports,
    MemoryClient,
    PinnedFacts,
    Threads,
    TokenClient,
)
from contextinfinity.client.remote.conversation_client import RemoteConversations
from contextinfinity.client.remote.server_connection import ServerConnection
from contextinfinity.client.remote.thread_client import (
    ELSEWHERE,
    RemoteFolds,
    RemoteHistory,
    RemoteMemories,
    RemotePins,
    RemoteThreads,
)
from contextinfinity.client.results import Health, MadeToken
from contextinfinity.domain.job import Backlog
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import Token, TokenId, TokenScope
from contextinfinity.errors import ContextInfinityError, Refused
from contextinfinity.exchange.import_progress import Format, Imported, Progress


class _State(Struct, frozen=True, kw_only=True):
    status: Literal["ready", "degraded", "unready"]
    reasons: tuple[str, ...]


class RemoteClient:
    """``Client`` of a server; closing it does not affect the server."""

    conversations: Conversations
    threads: Threads
    pins: PinnedFacts
    folds: Folds
    past: HistoryClient
    memories: MemoryClient
    imports: Imports
    exports: Exports
    tokens: TokenClient

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.tokens = RemoteTokens()
        self._bind(ServerConnection(url, token))

    def _bind(self, line: ServerConnection) -> None:
        self._line = line
        self.conversations = RemoteConversations(self._line)
        self.threads = RemoteThreads(self._line)
        self.pins = RemotePins(self._line)
        self.folds = RemoteFolds(self._line)
        self.past = RemoteHistory(self._line)
        self.memories = RemoteMemories(self._line)
        self.imports = RemoteImports(self._line)
        self.exports = RemoteExports(self._line)

    def acting_for(self, owner: Owner) -> RemoteClient:
        """Return a client of the same engine that finds and creates only the owner's objects."""
        client = copy(self)
        client._bind(self._line.acting_for(owner))
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def health(self) -> Health:
        """Return the state of the engine; never raises."""
        try:
            state = await self._line.get("/healthz", _State)
        except ContextInfinityError as error:
            return Health(status="unready", reasons=(error.message,), backlog=Backlog())
        return Health(status=state.status, reasons=state.reasons, backlog=Backlog())

    async def close(self, *, answer_seconds: float = 5.0) -> None:
        """Close the connections; running turns continue at the server."""
        await self._line.close()


class RemoteImports:
    """``Imports`` at a server: the file is uploaded as it is read."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def load(
        self,
        path: Path,
        *,
        form: Format = "auto",
        thread_id: str | None = None,
        owner: Owner = LOCAL,
        progress: Progress | None = None,
    ) -> Imported:
        """Upload a file; ``progress`` receives how much of it was sent."""
        return await self._line.upload(
            "/import", Imported, path, owner=owner, progress=progress, format=form, thread_id=thread_id
        )


class RemoteExports:
    """``Exports`` of a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def open(
        self, form: ExportFormat, *, thread_id: str | None = None, owner: Owner = LOCAL
    ) -> AsyncIterator[bytes]:
        """Return the pieces of an export of one conversation, or of all that an owner has."""
        return self._line.download("/export", owner=owner, format=form, thread_id=thread_id)

    async def owners(self) -> tuple[Owner, ...]:
        """Refuse: a server does not list its users."""
        raise Refused("A server does not list its users.", hint=ELSEWHERE)


class RemoteTokens:
    """``TokenClient`` that refuses: tokens are managed where the ledger is."""

    async def create(
        self, owner: Owner, *, scope: TokenScope = "user", expires_at: datetime | None = None
    ) -> MadeToken:
        """Refuse."""
        raise _not_here()

    async def list(self) -> tuple[Token, ...]:
        """Refuse."""
        raise _not_here()

    async def revoke(self, token_id: TokenId) -> Token:
        """Refuse."""
        raise _not_here()

    async def check(self, text: str) -> Token:
        """Refuse."""
        raise _not_here()

    async def closed(self) -> bool:
        """Refuse."""
        raise _not_here()

    async def needed(self) -> bool:
        """Refuse."""
        raise _not_here()


def _not_here() -> Refused:
    return Refused("Tokens can be created, listed and revoked only on the server's machine.", hint=ELSEWHERE)
