"""The methods of ``/rpc``: sessions, answers that stream, and the files of a workspace, for one owner.

With a workspace the sessions are those of its history file, otherwise all conversations of the owner.

The sessions are all conversations of an owner, or with a workspace those of its history file.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from contextinfinity.client.contract import Conversations, StampedEvent
from contextinfinity.client.local import LocalClient
from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.events import Delta, TurnDone, TurnStarted
from contextinfinity.domain.message import ContentBlock, ImageBlock, TextBlock
from contextinfinity.domain.session import NewSession
from contextinfinity.errors import FileRefused, InvalidInput, NotFound, Refused, TooLarge
from contextinfinity.settings import Server
from contextinfinity.workspace.listing import only_listed

if TYPE_CHECKING:
    from contextinfinity.client.workspace_client import WorkspaceConversations

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


log = logging.getLogger(__name__)

METHODS = frozenset(
    {
        *("history_search", "history_get_session", "history_list_sessions", "history_new_session"),
        *("load_session_into_context", "get_history_status", "get_current_state", "chat_streaming"),
        *("cancel_streaming", "set_selected_files", "get_selected_files", "get_context_breakdown"),
    }
)
MOST_LISTED = 200
CHUNK_SECONDS = 0.05
"""How often a growing answer is sent at most."""
_IMAGE = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=]+)\Z")

Listener = Callable[[str, dict[str, Any]], None]


@dataclass
class RpcStream:
    """An answer that is running."""

    request_id: str
    session_id: str = ""
    turn_id: str = ""
    content: str = ""


@dataclass
class UserState:
    """The state that the connections of one owner share."""

    session_id: str | None = None
    streams: dict[str, RpcStream] = field(default_factory=dict)
    conversations: WorkspaceConversations | None = None
    listeners: set[Listener] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Subscribe to notifications; returns the function that unsubscribes."""
        self.listeners.add(listener)
        return lambda: self.listeners.discard(listener)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that does not end with a connection."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def notify(self, method: str, **params: Any) -> None:
        """Notify every connection of the owner."""
        for listener in [*self.listeners]:
            listener(method, msgspec.to_builtins(params))


class LLMService:
    """The methods, each taking and returning plain values."""

    def __init__(self, client: LocalClient, state: UserState, server: Server) -> None:
        self.state = state
        self._client, self._root, self._longest = client, server.workspace, server.max_message_chars
        self._sessions = (
            WorkspaceSessions(client, state, self._workspace) if self._root else LedgerSessions(client, state)
        )

    # --- sessions ---

    async def history_search(self, query: str, role: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """Return messages that match, from all sessions, or else from the current one by its text."""
        if not query.strip():
            return []
        limit = max(1, min(limit, MOST_LISTED))
        if hits := await self._sessions.search(query, role, limit):
            return hits
        needle, session_id = query.casefold(), await self._sessions.current()
        messages = [] if session_id is None else await self.history_get_session(session_id)
        return [one for one in messages if needle in one["content"].casefold() and role in (None, one["role"])][:limit]

    async def history_get_session(self, session_id: str) -> list[dict[str, Any]]:
        """Return all messages of a session; none if it is unknown."""
        try:
            return await self._sessions.messages(session_id)
        except NotFound:
            return []

    async def history_list_sessions(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the sessions, most recently used first."""
        return await self._sessions.newest(max(1, min(limit, MOST_LISTED)))

    async def history_new_session(self) -> dict[str, Any]:
        """Start a session."""
        return {"session_id": await self._sessions.begin()}

    async def load_session_into_context(self, session_id: str) -> dict[str, Any]:
        """Continue a session; returns its messages."""
        messages = await self._sessions.messages(session_id)
        session_id = await self._sessions.resume(session_id)
        return {"session_id": session_id, "message_count": len(messages), "messages": messages}

    async def get_history_status(self) -> dict[str, Any]:
        """Return how full the history is: tokens, trigger, percent, session, messages."""
        return await self._sessions.status()

    async def get_current_state(self) -> dict[str, Any]:
        """Return the current session with its messages, the open files, and the answers that are running."""
        session_id = await self._sessions.current()
        return {
            "session_id": session_id,
            "messages": [] if session_id is None else await self.history_get_session(session_id),
            "selected_files": await self.get_selected_files(),
            "streams": list(self.state.streams.values()),
        }

    # --- talking ---

    async def chat_streaming(
        self,
        request_id: str,
        message: str,
        files: list[str] | None = None,
        images: list[str] | None = None,
        model: str | None = None,
    ) -> dict[str, Any]:
        """Send a message; the answer arrives as ``streamChunk`` and ``streamComplete`` with this ``request_id``."""
        if request_id in self.state.streams:
            raise InvalidInput(f"The request {request_id} is running.", hint="Use a unique id for each request.")
        if len(message) > self._longest:
            raise TooLarge(f"The message has more than {self._longest} characters.")
        content: tuple[ContentBlock, ...] = (TextBlock(text=message), *map(_image, images or ()))
        stream = self.state.streams[request_id] = RpcStream(request_id)
        await asyncio.shield(self.state.run(self._start(stream, content, files, model)))
        shown = {"session_id": stream.session_id, "turn_id": stream.turn_id}
        return {"status": "started", "request_id": request_id, **shown}

    async def _start(
        self, stream: RpcStream, content: tuple[ContentBlock, ...], files: list[str] | None, model: str | None
    ) -> None:
        """Send a message and follow its answer; the connection that asked for it may close meanwhile."""
        try:
            if files is not None:
                await self.set_selected_files(files)
            stream.session_id = await self._sessions.current() or await self._sessions.begin()
            conversations: Conversations = self._workspace() if self._root else self._client.conversations
            events = conversations.send(stream.session_id, content, model=model)
            started = (await anext(events)).event
            if not isinstance(started, TurnStarted):
                raise Refused("The message was not accepted.", hint="Send it again.")
        except BaseException:
            del self.state.streams[stream.request_id]
            raise
        stream.turn_id = started.turn_id
        self.state.run(self._pass_on(stream, events))

    async def _pass_on(self, stream: RpcStream, events: AsyncIterator[StampedEvent]) -> None:
        """Send notifications as an answer grows; a new connection gets the whole text with the next chunk."""
        sent, result = 0.0, None
        try:
            async for stamped in events:
                if isinstance(stamped.event, TurnDone):
                    result = stamped.event.turn
                elif isinstance(stamped.event, Delta):
                    stream.content += stamped.event.text
                    if time.monotonic() - sent >= CHUNK_SECONDS:
                        sent = time.monotonic()
                        self.state.notify("streamChunk", request_id=stream.request_id, content=stream.content)
        except Exception:
            log.exception("the stream %s broke", stream.turn_id)
        finally:
            self.state.streams.pop(stream.request_id, None)
            self.state.notify("streamComplete", request_id=stream.request_id, result=result)

    async def cancel_streaming(self, request_id: str) -> dict[str, Any]:
        """Stop a running answer; what was shown of it is kept."""
        stream = self.state.streams.get(request_id)
        if stream is None or not stream.turn_id:
            raise NotFound(f"No answer to {request_id} is running.", hint="It may have finished.")
        turn = await self._client.conversations.cancel(stream.turn_id)
        return {"status": turn.outcome, "request_id": request_id}

    # --- files ---

    async def set_selected_files(self, files: list[str]) -> list[str]:
        """Open exactly these files of the workspace; returns those that exist. Nothing changes if one is refused."""
        workspace = self._workspace()
        opened = workspace.workspace.files
        async with workspace.changing:
            before = opened.get_files()
            try:
                for path in files:
                    await asyncio.to_thread(opened.add_file, path)
            except FileRefused:
                for path in opened.get_files():
                    if path not in before:
                        opened.remove_file(path)
                raise
            wanted = {*map(opened.name_of, files)}
            for path in before:
                if path not in wanted:
                    opened.remove_file(path)
            return opened.get_files()

    async def get_selected_files(self) -> list[str]:
        """Return the open files."""
        conversations = self.state.conversations
        return [] if conversations is None else conversations.workspace.files.get_files()

    async def get_context_breakdown(self) -> dict[str, Any]:
        """Return what is in each cache tier, and the tokens of the open files."""
        return self._workspace().workspace.breakdown()

    # --- behind them ---

    async def follow_folds(self, listener: Listener) -> None:
        """Forward compaction events to one connection as ``compactionEvent``."""
        async for event in self._client.folds.follow():
            shown = msgspec.to_builtins(event)
            listener("compactionEvent", {"request_id": None, "event": {**shown, "type": event.__struct_config__.tag}})

    def watch_files(self, listener: Listener) -> Coroutine[Any, Any, None] | None:
        """Return the watcher that reports changed files to a connection; None without a workspace or the extra."""
        if not self._root:
            return None
        try:
            from watchfiles import awatch
        except ImportError:
            return None
        root = Path(self._root).resolve()

        async def watch() -> None:
            async for changes in awatch(root):
                if shown := only_listed(root, {Path(path) for _, path in changes}):
                    listener("filesChanged", {"files": shown})

        return watch()

    def _workspace(self) -> WorkspaceConversations:
        if not self._root:
            raise Refused("This server has no workspace.", hint="Name one as `workspace` under [server].")
        if self.state.conversations is None:
            opened = copy(self._client).open_workspace(self._root, folder=self._folder())
            if self._folder() and opened.data_dir.resolve().is_relative_to(opened.workspace.root):
                raise Refused(
                    "The data_dir is inside the workspace, where one user could open the data of another.",
                    hint="Move one of them.",
                )
            self.state.conversations = opened
        return self.state.conversations

    def _folder(self) -> str:
        """Return the folder of an owner's history: each owner except the local one has its own."""
        owner = self._client.owner
        if owner is None or (owner.user_id, owner.org_id) == ("local", ""):
            return ""
        return f"users/{hashlib.sha256(f'{owner.org_id}/{owner.user_id}'.encode()).hexdigest()[:32]}"


def _image(uri: str) -> ImageBlock:
    if (found := _IMAGE.match(uri)) is None:
        raise InvalidInput("An image is not a data URI of a known type.", hint="Give PNG, JPEG, GIF or WebP.")
    return ImageBlock(media_type=found[1], source={"type": "base64", "data": found[2]})
