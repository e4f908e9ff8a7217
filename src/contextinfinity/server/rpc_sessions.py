"""The sessions of ``/rpc``: all conversations of an owner, or with a workspace those of its history file."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from contextinfinity.client.local import LocalClient
from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.session import NewSession
from contextinfinity.errors import NotFound

if TYPE_CHECKING:
    from contextinfinity.client.workspace_client import WorkspaceConversations
    from contextinfinity.server.rpc_methods import UserState

PAGE, PREVIEW = 500, 100


class LedgerSessions:
    """The conversations of an owner; the current one is the most recently used one, or the one that was chosen."""

    def __init__(self, client: LocalClient, state: UserState) -> None:
        self._client, self._state = client, state

    async def current(self) -> str | None:
        """Return the current session, if there is any."""
        if self._state.session_id is None:
            newest = await self._client.threads.list(limit=1)
            self._state.session_id = newest[0].thread_id if newest else None
        return self._state.session_id

    async def begin(self) -> str:
        """Begin a session and make it the current one."""
        self._state.session_id = (await self._client.threads.create(NewSession())).thread_id
        return self._state.session_id

    async def resume(self, session_id: str) -> str:
        """Make a session the current one and return its id."""
        self._state.session_id = (await self._client.threads.get(session_id)).thread_id
        return self._state.session_id

    async def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest sessions."""
        return [
            {
                "session_id": one.thread_id,
                "timestamp": one.updated_at,
                "message_count": 2 * one.turns,
                "preview": (one.opening or one.said)[:PREVIEW],
                "first_role": "user",
            }
            for one in await self._client.threads.list(limit=limit)
        ]

    async def search(self, query: str, role: str | None, limit: int) -> list[dict[str, Any]]:
        """Return messages that match."""
        return [
            {"session_id": hit.thread_id, "role": hit.role, "content": hit.text, "timestamp": hit.created_at}
            for hit in (await self._client.past.search(query, limit=limit)).hits
            if role in (None, hit.role)
        ]

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return all messages of a session with their images; raises ``NotFound``."""
        turns: list[ShownTurn] = []
        before = None
        while page := (await self._client.conversations.show(session_id, limit=PAGE, before=before)).turns:
            turns[:0] = page
            before = page[0].turn_seq
        return [
            {"id": f"{turn.turn_id}-{role}", "session_id": turn.thread_id, "timestamp": turn.created_at, "role": role}
            | {"content": content, "files": [], "images": images}
            for turn in turns
            for role, content, images in (
                ("user", turn.user, await self._images_of(turn)),
                ("assistant", turn.assistant, []),
            )
            if content or images
        ]

    async def status(self) -> dict[str, Any]:
        """Return how full the current session is."""
        if (session_id := await self.current()) is not None:
            with suppress(NotFound):  # nothing was said in it
                return {**await self._client.history_status(session_id), "session_id": session_id}
        return {"session_id": session_id, "message_count": 0, "history_tokens": 0, "trigger": 0, "percent": 0.0}

    async def _images_of(self, turn: ShownTurn) -> list[str]:
        """Return the images of a message as data URIs."""
        found = []
        for number in range(1, turn.images + 1):
            with suppress(NotFound):  # it was deleted
                data, kind = await self._client.images.get(turn.turn_id, number)
                found.append(f"data:{kind};base64,{base64.b64encode(data).decode()}")
        return found


class WorkspaceSessions(LedgerSessions):
    """The sessions of a repository's history file; messages that it does not hold are read from the ledger."""

    def __init__(self, client: LocalClient, state: UserState, workspace: Callable[[], WorkspaceConversations]) -> None:
        super().__init__(client, state)
        self._workspace = workspace

    async def current(self) -> str | None:
        """Return the current session, if there is any."""
        store = self._workspace().store
        return store.session_id or await asyncio.to_thread(store.restore_session)

    async def begin(self) -> str:
        """Begin a session and make it the current one."""
        return await asyncio.to_thread(self._workspace().store.new_session)

    async def resume(self, session_id: str) -> str:
        """Make a session the current one and return its id."""
        return await asyncio.to_thread(self._workspace().store.continue_session, session_id)

    async def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest sessions."""
        return await asyncio.to_thread(self._workspace().store.list_sessions, limit)

    async def search(self, query: str, role: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the newest messages that contain a text."""
        return await asyncio.to_thread(self._workspace().store.search, query, role, limit)

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return all messages of a session with all that is known of them; raises ``NotFound``."""
        kept = await asyncio.to_thread(self._workspace().store.get_session_messages, session_id)
        return kept or await super().messages(session_id)

    async def status(self) -> dict[str, Any]:
        """Return how full the current session is, which is imported if only the file has it."""
        if (session_id := await self.current()) is not None:
            await self._workspace().find_or_import(session_id)
        return await super().status()
