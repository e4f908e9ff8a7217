"""Import a file of messages into the ledger, each message once.

Messages are imported in batches. A batch of a conversation is one transaction that adds only new messages, so an import
that was killed is completed by importing again, and a file that grew adds only its new messages. Batches end before a
user message, so that a question and its answer are usually in one batch; if not, the store joins them.

A message belongs to the conversation that it names (its ``external_id``), else to the one that the caller names, else
to the file's own conversation: the one with the same first messages. Its id is derived from the first message; since
many conversations have the same first message, the first messages are compared, and another id is tried if they differ.

An invalid record keeps a position in its conversation, so that positions do not change when it is corrected.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import SessionId, is_id
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.transfer import ImportCounts, ImportedMessage, MemoryTransfer, Origin
from contextinfinity.errors import AccessDenied, AlreadyExists, InvalidInput, LedgerAway, OutOfOrder
from contextinfinity.exchange.cix_format import CixContent, CixConversation, CixMemory
from contextinfinity.exchange.conversation_tree import ExportedConversation, turns_of
from contextinfinity.exchange.export_files import ExportFile, ImportRecord, open_export
from contextinfinity.exchange.import_progress import (
    BadRecord,
    ConversationTally,
    Format,
    Imported,
    ImportTotals,
    Progress,
    result_of,
)
from contextinfinity.exchange.openai_messages import Blobs, ParsedMessage, RejectedRecord
from contextinfinity.exchange.records import STDIN
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.imports import hash_of

BATCH = 1000
LONGEST_BATCH = 1250
BATCH_BYTES = 8 << 20
TURNS = 500
"""The maximum number of turns of an exported conversation per transaction."""
COMPARED = 64
"""How many first messages are compared to recognise the conversation of a file."""

PATIENCE_SECONDS = 10.0
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 1.0
LONGEST_TITLE = 80

T = TypeVar("T")

Key = str | None
"""The name of a conversation; None for the file's own."""


async def import_file(
    store: Store,
    path: Path,
    *,
    owner: Owner,
    form: Format = "auto",
    thread_id: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a file; invalid records are reported, everything else is imported.

    ``thread_id`` names the conversation for messages that name none; it is created if needed. The path ``-`` is stdin.
    """
    with ExitStack() as stack:
        source = await _in_daemon_thread(lambda: stack.enter_context(open_export(path, form)))
        work = _Import(store, owner, thread_id, title=_title(path))
        async with aclosing(_read_ahead(_batches(source))) as batches:
            async for batch in batches:
                await work.import_batch(batch)
                if progress is not None:
                    progress(source.position, work.totals.messages)
    imported = result_of(work.conversation_tallies())
    if not imported.sessions and work.totals.first_bad:
        raise _no_messages_error(path, work.totals.first_bad)
    return imported


def _title(path: Path) -> str | None:
    """Return the file name without extension as a title; None for piped input."""
    if path == STDIN:
        return None
    return path.name.split(".")[0][:LONGEST_TITLE].encode(errors="replace").decode() or None


async def _read_ahead(batches: Iterator[list[ImportRecord]]) -> AsyncGenerator[list[ImportRecord], None]:
    """Read the next batch in another thread while the previous one is imported."""
    upcoming = _in_daemon_thread(lambda: next(batches, None))
    try:
        while (batch := await upcoming) is not None:
            upcoming = _in_daemon_thread(lambda: next(batches, None))
            yield batch
    finally:
        await asyncio.wait(
            (upcoming,), timeout=LEAVE_SECONDS
        )  # a file must not be read while it is closed; a pipe may block for ever
        if upcoming.done():
            upcoming.exception()


def _in_daemon_thread(read: Callable[[], T]) -> asyncio.Future[T]:
    """Run a read that may block for ever, as of a pipe, in a daemon thread, which does not delay process exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def resolve(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = read()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: there is no one to notify
            loop.call_soon_threadsafe(resolve, result, failure)

    threading.Thread(target=run, name="import", daemon=True).start()
    return done


def _batches(source: ExportFile) -> Iterator[list[ImportRecord]]:
    batch: list[ImportRecord] = []
    size = 0
    for entry in source.records:
        if _is_full(batch, size, entry):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def _is_full(batch: Sequence[ImportRecord], size: int, following: ImportRecord) -> bool:
    if len(batch) >= LONGEST_BATCH or size >= BATCH_BYTES:
        return True
    parsed = following.parsed
    opens = not isinstance(parsed, ParsedMessage) or parsed.imported.message.role in ("user", "system")
    return len(batch) >= BATCH and not isinstance(parsed, RejectedRecord) and opens


def _no_messages_error(path: Path, first: BadRecord) -> InvalidInput:
    """Return the error for a file without messages."""
    return InvalidInput(
        f"{path} holds no messages that could be read; {first.place}: {first.reason.rstrip('.')}.",
        hint="`cix import --help` lists the formats that can be read.",
    )


class _Import:
    """A running import, and the conversations found so far."""

    def __init__(self, store: Store, owner: Owner, thread_id: str | None, *, title: str | None) -> None:
        self._store = store
        self._owner = owner
        self._home: Key = thread_id
        self._title = title
        self._tallies: dict[Key, ConversationTally] = {}
        self._by_thread: dict[SessionId, ConversationTally] = {}
        self._last: ConversationTally | None = None
        self.totals = ImportTotals()

    def conversation_tallies(self) -> Iterable[ConversationTally]:
        """Return the conversations in the order in which they first appear; one with several names may repeat."""
        return self._tallies.values()

    async def import_batch(self, batch: Sequence[ImportRecord]) -> None:
        """Import a batch, its conversations concurrently."""
        await self._find_named_conversations(batch)
        new: dict[ConversationTally, list[tuple[int, ImportedMessage]]] = {}
        blobs: Blobs = {}
        await self._keep_contents([entry.parsed for entry in batch if isinstance(entry.parsed, CixContent)])
        conversations: list[ImportRecord] = []
        memories: list[MemoryTransfer] = []
        for entry in batch:
            line, parsed = entry.line, entry.parsed
            if isinstance(parsed, CixContent):
                continue
            if isinstance(parsed, CixMemory):
                memories.append(parsed.memory)
                continue
            if isinstance(parsed, ExportedConversation | CixConversation):
                conversations.append(entry)
                continue
            tally = self._tally_of(parsed)
            place = tally.next_place()
            if isinstance(parsed, RejectedRecord):
                self.totals.bad(tally, line, parsed.reason, entry.file)
                continue
            new.setdefault(tally, []).append((line, msgspec.structs.replace(parsed.imported, place=place)))
            blobs |= parsed.blobs
        await asyncio.gather(*(self._store.contents.keep_blob(*blob) for blob in blobs.values()))
        await asyncio.gather(*(self._add_messages(tally, numbered) for tally, numbered in new.items()))
        await asyncio.gather(*map(self._import_conversation, conversations))
        if memories:
            await self._store.transfers.restore_memories(self._owner, memories)

    async def _keep_contents(self, contents: Iterable[CixContent]) -> None:
        """Store texts and images before the conversations that refer to them."""
        kept = self._store.contents
        await asyncio.gather(*(kept.keep_text(one.text) for one in contents if one.text is not None))
        await asyncio.gather(*(kept.keep_blob(*one.blob) for one in contents if one.blob is not None))

    async def _import_conversation(self, entry: ImportRecord) -> None:
        if isinstance(entry.parsed, CixConversation):
            await self._restore(entry, entry.parsed)
        elif isinstance(entry.parsed, ExportedConversation):
            await self._add_conversation(entry, entry.parsed)

    async def _restore(self, entry: ImportRecord, given: CixConversation) -> None:
        """Restore a conversation for the owner of this import; an existing one is not changed."""
        session = given.outline.session
        tally = self._tally_named(session.id)
        session = replace(session, user_id=self._owner.user_id, org_id=self._owner.org_id)
        count = sum(1 if turn.answer is None else 2 for turn in given.turns)
        try:
            outline = replace(given.outline, session=session)
            made = await self._store.transfers.restore(outline, given.states, given.turns)
            await self._store.transfers.restore_memories(self._owner, given.memories)
        except (InvalidInput, AccessDenied) as error:
            self.totals.bad(tally, entry.line, error.message, entry.file)
            return
        tally.use_conversation(session)
        self.totals.count(tally, count if made else 0, 0 if made else count)

    async def _add_conversation(self, entry: ImportRecord, conversation: ExportedConversation) -> None:
        """Import one conversation, its turns in batches; messages that cannot be stored are reported."""
        tally = self._tally_named(conversation.id)
        for place, reason in conversation.bad:
            self.totals.bad(tally, entry.line, f"{place}: {reason}", entry.file)
        if not conversation.size:
            return
        try:
            session = await self._session_of(conversation)
            tally.use_conversation(session)
            for body, media_type in conversation.blobs.values():
                await self._store.contents.keep_blob(body() if callable(body) else body, media_type)
            added = 0
            turns = turns_of(conversation, session.id)
            while batch := list(islice(turns, TURNS)):
                counts = await _retry_while_busy(partial(self._store.imports.add_turns, session.id, batch))
                added += counts.added
                for number in counts.clashing:
                    name = conversation.messages[number].id
                    self.totals.bad(tally, entry.line, f"message {name}: it follows one that was deleted", entry.file)
        except (InvalidInput, AlreadyExists, AccessDenied) as error:
            self.totals.bad(tally, entry.line, f"conversation {conversation.id[:80]}: {error.message}", entry.file)
            return
        self.totals.count(tally, added, conversation.size - added)

    async def _session_of(self, conversation: ExportedConversation) -> Session:
        """Find the owner's session of an exported conversation by its original id; create it if there is none."""
        new = NewSession(
            owner=self._owner,
            external_id=conversation.id,
            title=None if conversation.title is None else conversation.title[:LONGEST_TITLE],
            system=conversation.system,
            metadata={"imported": conversation.metadata} if conversation.metadata else {},
        )
        return await self._find_or_create(conversation.id, new)

    async def _find_named_conversations(self, batch: Sequence[ImportRecord]) -> None:
        """Find or create the conversations that messages name for the first time; two names may mean the same one."""
        keys = dict.fromkeys(
            entry.parsed.session or self._home for entry in batch if isinstance(entry.parsed, ParsedMessage)
        )
        names = [key for key in keys if key is not None and self._tally_named(key).thread_id is None]
        for name, session in zip(names, await asyncio.gather(*map(self._find_or_create, names)), strict=True):
            tally = self._by_thread.setdefault(session.id, self._tally_named(name))
            if tally is not self._tally_named(name):
                tally.merge(self._tally_named(name))
            tally.use_conversation(session)
            self._tallies[name] = tally

    def _tally_named(self, key: Key) -> ConversationTally:
        return self._tallies.setdefault(key, ConversationTally())

    def _tally_of(self, parsed: ParsedMessage | RejectedRecord) -> ConversationTally:
        """Return the tally of a record's conversation; an invalid record that names none belongs to the current one."""
        if isinstance(parsed, RejectedRecord) and parsed.session is None and self._last is not None:
            return self._last
        tally = self._tally_named(parsed.session or self._home)
        if isinstance(parsed, ParsedMessage):
            self._last = tally
        return tally

    async def _add_messages(self, tally: ConversationTally, numbered: Sequence[tuple[int, ImportedMessage]]) -> None:
        """Add messages to one conversation; those whose id belongs to another text are reported."""
        imported = [each for _, each in numbered]
        branch_id = tally.branch_id or tally.use_conversation(
            await self._find_or_create_by_beginning(imported[:COMPARED])
        )
        arrived = await _retry_while_busy(partial(self._store.imports.add, branch_id, imported))
        self.totals.count(tally, arrived.added, arrived.skipped)
        clashing = set(arrived.clashing)
        for line, each in numbered if clashing else ():
            if each.place in clashing:
                reason = f"its id {each.external_id!r} is used by a message with other text, which is kept"
                self.totals.bad(tally, line, reason)

    async def _find_or_create(self, name: str, new: NewSession | None = None) -> Session:
        """Find a conversation of the owner by its external id or its own id; create it if there is none."""
        sessions, owner = self._store.sessions, self._owner
        while (session := await sessions.find(owner, name)) is None:
            there = await sessions.get(name) if is_id(name) else None
            if there is not None and there.owner == owner:
                return there
            with suppress(AlreadyExists):  # another process was faster: it is found now
                return await sessions.create(new or NewSession(owner=owner, external_id=name))
        return session

    async def _find_or_create_by_beginning(self, begins: Sequence[ImportedMessage]) -> Session:
        """Find the conversation with the same first messages as the file; create it if there is none.

        Its id may be derived from any of the first messages: earlier ones may have been invalid in the first import.
        """
        while True:
            free: list[str] = []
            for first in begins:
                for name in _candidate_names(first):
                    session = await self._store.sessions.find(self._owner, name)
                    if session is None:
                        free.append(name)
                        break
                    if _same_beginning(await self._store.imports.beginning(session.id, limit=COMPARED), begins):
                        return session
            with suppress(AlreadyExists):  # another process was faster: it is found now
                new = NewSession(owner=self._owner, external_id=free[0], title=self._title)
                return await self._store.sessions.create(new)


def _candidate_names(first: ImportedMessage) -> Iterator[str]:
    """Yield the ids that a file's own conversation may have, derived from its first message."""
    digest = hashlib.sha256(hash_of(first) + repr((first.external_id, first.created_at)).encode()).hexdigest()[:16]
    return (f"import-{digest}" + (f"-{number}" if number > 1 else "") for number in count(1))


def _same_beginning(there: Iterable[Origin], begins: Sequence[ImportedMessage]) -> bool:
    """Return whether stored messages may come from an earlier state of the file: none differs at the same position."""
    known = {origin.place: origin for origin in there}
    for each in begins:
        origin = known.get(each.place)
        if origin is None:
            continue
        same = (
            origin.external_id == each.external_id if each.external_id else origin.content_hash == hash_of(each).hex()
        )
        if not same:
            return False
    return True


async def _retry_while_busy(add: Callable[[], Awaitable[ImportCounts]]) -> ImportCounts:
    """Retry for a while if a turn of the branch is being answered or the ledger is unavailable."""
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE_SECONDS
    while True:
        try:
            return await add()
        except (LedgerAway, OutOfOrder):
            if clock() > end:
                raise
        await asyncio.sleep(LOOK_SECONDS)
