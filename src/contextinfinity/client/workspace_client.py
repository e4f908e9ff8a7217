"""Talking about a repository: every message goes with the files and symbols of the workspace, in cache tiers.

A thread of a workspace is a session of its history file as well: its id there is the thread's external id. The user's
message is written to the file when the ledger has it, before the model is asked, the answer after it. What a crash left
out of one of the two is repaired before the next message of the thread.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Unpack

from msgspec.structs import replace

from contextinfinity.client.contract import Content, SendFields, StampedEvent
from contextinfinity.client.local import LocalConversations
from contextinfinity.domain.events import FinishedTurn, TurnDone, TurnStarted
from contextinfinity.domain.message import ImageBlock, Message, TextBlock, say
from contextinfinity.domain.prompt import WorkspaceText
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import UNFINISHED, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.image_content import with_kept_pictures, with_pictures
from contextinfinity.engine.running_turn import end_of
from contextinfinity.engine.turn_cache import read_back
from contextinfinity.errors import FileRefused, NotFound
from contextinfinity.storage.loop_thread import PATIENCE_SECONDS
from contextinfinity.storage.workspace_registry import Registration, register, registrations
from contextinfinity.text.image_size import media_type_of
from contextinfinity.workspace.assembly import (
    TIER_READ,
    ChatMessage,
    PromptParts,
    context_pairs,
    matches_pair,
    system_text,
    tier_text,
)
from contextinfinity.workspace.files import fenced, read_bytes
from contextinfinity.workspace.history import exchanges_of, messages_of, patiently
from contextinfinity.workspace.history_encryption import encrypt_workspace
from contextinfinity.workspace.history_file import HistoryStore
from contextinfinity.workspace.history_sync import complete, messages_of_session, record, said
from contextinfinity.workspace.prompting import SYMBOL_CACHE, cache_target, history_folder
from contextinfinity.workspace.repository import Workspace

log = logging.getLogger(__name__)

NEW = "new"
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
MAX_IMAGE_BYTES = 5_000_000


class WorkspaceConversations(LocalConversations):
    """``Conversations`` about a repository. ``warn`` is called with warnings for the user."""

    def __init__(
        self,
        engine: Engine,
        owner: Owner | None,
        root: str | Path,
        *,
        model: str | None = None,
        folder: str = "",
    ) -> None:
        super().__init__(engine, owner)
        chosen = engine.models.named(model)
        own_folder = history_folder(Path(root).expanduser().resolve())
        self.data_dir = engine.streams_folder.parent
        encrypt_workspace(root, self.data_dir)
        self.store = HistoryStore(own_folder / folder)
        self.workspace = Workspace(
            root,
            chosen.counter.count,
            window=chosen.abilities.context_limit,
            target=cache_target(None, chosen.abilities.min_cache_tokens),
            cache=own_folder / SYMBOL_CACHE,
        )
        self.warn: Callable[[str], object] = log.warning
        self.changing = asyncio.Lock()
        """Held while files are opened or read, so that a prompt is made of one state of them."""
        self._images: list[ImageBlock] = []
        self._covers: dict[str, int] = {}
        self._in_step: set[str] = set()
        """The sessions whose history file and ledger hold the same since this was opened."""
        self._sending: Counter[str] = Counter()
        """How many messages of a session are being answered here."""

    # --- files ---

    def add(self, path: str) -> bool:
        """Open a file, or attach an image to the next message; False if there is no such file."""
        if Path(path).suffix.lower() not in IMAGES:
            return self.workspace.files.add_file(path)
        try:
            data, _ = read_bytes(self.workspace.root, self.workspace.files.name_of(path), MAX_IMAGE_BYTES)
        except FileNotFoundError:
            return False
        if (kind := media_type_of(data)) is None:
            raise FileRefused(f"{path} is not an image.", hint="Use a PNG, JPEG, GIF or WebP file.")
        source = {"type": "base64", "data": base64.b64encode(data).decode()}
        self._images.append(ImageBlock(media_type=kind, source=source))
        return True

    # --- talking ---

    def send(
        self, thread_id: str, content: Content, *, deltas: bool = True, **how: Unpack[SendFields]
    ) -> AsyncIterator[StampedEvent]:
        """Send a message and yield its events, from ``TurnStarted`` to ``TurnDone``."""
        return self._send(thread_id, content, deltas, how)

    async def ask(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> FinishedTurn:
        """Send a message and return the finished turn."""
        return await end_of(self._send(thread_id, content, False, how))

    async def _send(
        self, thread_id: str, content: Content, deltas: bool, how: SendFields
    ) -> AsyncIterator[StampedEvent]:
        thread_id = self.store.new_session() if thread_id == NEW else thread_id
        how = {**self._how(how)}
        session = await self.find_or_import(thread_id, how)
        thread_id = thread_id if session is None else session.id
        name = thread_id if session is None else session.external_id or session.id
        self._sending[name] += 1
        try:
            async for stamped in self._answered(session, thread_id, name, self._with_images(content), deltas, how):
                yield stamped
        finally:
            self._sending[name] -= 1

    async def _answered(
        self, session: Session | None, thread_id: str, name: str, message: Message, deltas: bool, how: SendFields
    ) -> AsyncIterator[StampedEvent]:
        """Send a message of a session, and write it and its answer to the history file."""
        turns = await self._turns(session, how, name)
        async with self.changing:
            before = self.workspace.files.get_files()
            how["workspace"] = await asyncio.to_thread(self._prepared, turns, message.rendered_text)
            opened = self.workspace.files.get_files()
        if dropped := [path for path in before if path not in opened]:
            self.warn(f"No longer in the context: {', '.join(dropped)}. The file is gone or can no longer be read.")
        is_written = False
        async for stamped in super().send(thread_id, message.blocks, deltas=deltas, **how):
            event = stamped.event
            if isinstance(event, TurnStarted):
                register(self.data_dir, Registration(event.thread_id, self.store.folder, name))
            elif not is_written:  # it is its turn: what was sent to the same thread before has been answered
                is_written = True
                record(self.store, [message], opened, name)
            if isinstance(event, TurnDone):
                self.workspace.answered()
                if opened:
                    await self._drop_unshown(event.turn.turn_id)
                if answer := event.turn.text:
                    record(self.store, [say("assistant", answer)], (), name)
                if name not in self._in_step:
                    await self._turns(await self._engine.session(event.turn.thread_id), how, name)
            yield stamped

    async def _drop_unshown(self, turn_id: str) -> None:
        """Close the files that did not fit into the prompts of a turn, and warn about it."""
        try:
            shrunk = (await self._engine.context(turn_id)).shrunk
        except NotFound:  # it failed before a prompt was made
            return
        if shrunk is not None and shrunk.files:
            for path in shrunk.files:
                self.workspace.files.remove_file(path)
            self.warn(
                f"The prompt was too large. Dropped from the context: {', '.join(shrunk.files)}. "
                "Open them again with /add when there is room."
            )

    def _with_images(self, content: Content) -> Message:
        blocks = (TextBlock(text=content),) if isinstance(content, str) else tuple(content)
        images, self._images = tuple(self._images), []
        return Message(role="user", blocks=(*blocks, *images))

    async def last_session(self) -> str:
        """Return the session that was used last: of the history file, or of the ledger if the file is gone."""
        session_id = await asyncio.to_thread(self.store.restore_session)
        listed = await asyncio.to_thread(self.store.list_sessions)
        if session_id and any(one["session_id"] == session_id for one in listed):
            return session_id
        found = []
        for one in await asyncio.to_thread(registrations, self.data_dir):
            if one.folder == self.store.folder:
                with suppress(NotFound):
                    found.append(await self._engine.session(one.session_id, self._acting))
        return max(found, key=lambda session: session.updated_at).id if found else NEW

    async def find_or_import(self, thread_id: str, how: SendFields | None = None) -> Session | None:
        """Return the thread; one that only the history file contains is imported."""
        how = self._how(how or {})
        named = how.get("user_id"), how.get("org_id")
        owner = Owner(user_id=named[0] or "local", org_id=named[1] or "") if any(named) else None
        try:
            return await self._engine.session(thread_id, owner)
        except NotFound:
            if not (kept := messages_of_session(self.store, thread_id)):
                return None
        session = await self._engine.store.sessions.create(NewSession(owner=owner or Owner(), external_id=thread_id))
        await self._import(session, kept)
        return session

    async def _import(self, session: Session, messages: Sequence[Message]) -> None:
        """Append messages of the history file to the active branch of the ledger."""
        contents = self._engine.store.contents
        kept = [await with_kept_pictures(contents, message) for message in messages]
        record_all = partial(self._engine.store.turns.record, session.active_branch, exchanges_of(kept))
        await patiently(record_all, PATIENCE_SECONDS)  # a turn that was just answered may have to be committed first

    async def _turns(self, session: Session | None, how: SendFields, name: str) -> Sequence[Turn]:
        """Return the turns that the next prompt contains verbatim; the first time, repair ledger and history file."""
        if session is None:
            return ()
        store = self._engine.store
        branch_id = how.get("branch_id") or session.active_branch
        head, branch = await store.states.head(branch_id), await store.branches.get(branch_id)
        if self._covers.setdefault(branch_id, head.covers_turn_seq) != head.covers_turn_seq:
            self._covers[branch_id] = head.covers_turn_seq
            self.workspace.forget_history()
        end = head.turn_seq if branch is None else branch.last_turn_seq
        turns = await read_back(store.turns, branch_id, after=head.covers_turn_seq, before=end + 1)
        if name not in self._in_step and self._sending[name] <= 1 and not any(one.phase in UNFINISHED for one in turns):
            self._in_step.add(name)
            newer = await self._repair(session, branch_id, end, name)
            if newer and branch_id == session.active_branch and turns and turns[-1].turn_seq == end:
                await self._import(session, newer)
                return await self._turns(session, how, name)
        return turns

    async def _repair(self, session: Session, branch_id: str, end: int, name: str) -> Sequence[Message]:
        """Add to the history file what only the ledger has; return what was said in the file after the ledger's end.

        A message of the file that is older than the last change of the ledger was deleted or rolled back there.
        """
        store = self._engine.store
        turns = await read_back(store.turns, branch_id, after=0, before=end + 1)
        stored = said([message for turn in turns for message in messages_of(turn)])
        place = await complete(self.store, name, stored, partial(with_pictures, store.contents))
        if place is None:
            return ()
        newer = messages_of_session(self.store, name, after=session.updated_at, start=place)
        return newer if newer == messages_of_session(self.store, name, start=place) else ()

    # --- the prompt ---

    def _prepared(self, turns: Sequence[Turn], message: str) -> WorkspaceText:
        """Return the section of the workspace."""
        history: list[ChatMessage] = []
        for turn in turns:
            history += [{"role": "user", "content": turn.user_message.rendered_text}]
            history += [{"role": "assistant", "content": turn.text}]
        self.workspace.prepare(history)
        files = tuple(fenced(path, content) for path, content in self.workspace.files.contents().items())
        return replace(_section(self.workspace.parts("", message, history), turns), files=files)


def _section(parts: PromptParts, turns: Sequence[Turn]) -> WorkspaceText:
    """Convert the parts of a prompt to the section that the engine places; history is passed as turns."""
    early = len(parts.tiers["L3"].history) // 2
    tiers = [tier_text(name, parts.tiers[name]) for name in ("L1", "L2", "L3")]
    return WorkspaceText(
        system=system_text(parts, parts.tiers["L0"]),
        tiers=tuple((say("user", text), say("assistant", TIER_READ)) if text else () for text in tiers),
        context=tuple(say(one["role"], one["content"]) for one in context_pairs(parts)),
        history_to=turns[early - 1].turn_seq if early else 0,
        matches=tuple(say(one["role"], one["content"]) for one in matches_pair(parts)),
    )
