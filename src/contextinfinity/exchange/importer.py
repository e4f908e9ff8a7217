"""A file of messages into the ledger, each message once.

Messages go in batches. A batch of a conversation is one transaction that adds what is not there yet, so an import that
was killed is done by importing again, and a file that grew adds what is new. Batches end before a user
message, so that a question and its answer are usually in one batch; if not, the store joins them.

Messages go to the conversation they name, as its ``external_id``. Those that name none go to the one the caller names,
or else to the file's own: the one that began as the file begins. Its name is made from the first message, but many
conversations begin with the same words; so the beginnings are compared, and where they differ it is another one.

An invalid record takes a position in its conversation, so that nothing moves when it is corrected.
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
from contextinfinity.domain.imported import ImportCounts, ImportedMessage, Origin
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.transfer import MemoryTransfer
from contextinfinity.errors import AccessDenied, AlreadyExists, InvalidInput, LedgerAway, OutOfOrder
from contextinfinity.exchange.cix_reader import CixContent, CixConversation, CixMemory
from contextinfinity.exchange.conversation_tree import ExportedConversation, turns_of
from contextinfinity.exchange.export_files import ExportFile, ImportRecord, open_export
from contextinfinity.exchange.import_progress import BadRecord, Format, Imported, Progress
from contextinfinity.exchange.openai_messages import Blobs, ParsedMessage, Unfit
from contextinfinity.exchange.records import STDIN
from contextinfinity.exchange.tally import ImportTally, Tally, result_of
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.imports import hash_of

BATCH = 1000
LONGEST_BATCH = 1250
BATCH_BYTES = 8 << 20
TURNS = 500
"""Of a conversation with branches, in one transaction."""
COMPARED = 64
"""How many messages two beginnings have to share, where both have as many, to be the same conversation's."""

PATIENCE_SECONDS = 10.0
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 1.0
LONGEST_TITLE = 80

T = TypeVar("T")

Key = str | None
"""What names a conversation; None: nothing does, it is the file's own."""


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

    ``thread_id``: where messages go that name no conversation, one that is there or a new one. The path ``-`` is what
    is piped in.
    """
    with ExitStack() as stack:
        source = await _in_a_thread(lambda: stack.enter_context(open_export(path, form)))
        work = _Import(store, owner, thread_id, title=_title(path))
        async with aclosing(_read_ahead(_batches(source))) as batches:
            async for batch in batches:
                await work.put(batch)
                if progress is not None:
                    progress(source.position, work.tally.messages)
    imported = result_of(work.talks())
    if not imported.sessions and work.tally.first_bad:
        raise _no_messages_error(path, work.tally.first_bad)
    return imported


def _title(path: Path) -> str | None:
    """Name a conversation after its file, as far as the name is text."""
    if path == STDIN:
        return None
    return path.name.split(".")[0][:LONGEST_TITLE].encode(errors="replace").decode() or None


async def _read_ahead(batches: Iterator[list[ImportRecord]]) -> AsyncGenerator[list[ImportRecord], None]:
    """Read the next batch in another thread while the one before is being put in."""
    upcoming = _in_a_thread(lambda: next(batches, None))
    try:
        while (batch := await upcoming) is not None:
            upcoming = _in_a_thread(lambda: next(batches, None))
            yield batch
    finally:
        await asyncio.wait((upcoming,), timeout=LEAVE_SECONDS)  # a file is closed when no one reads it; a pipe may stay
        if upcoming.done():
            upcoming.exception()


def _in_a_thread(read: Callable[[], T]) -> asyncio.Future[T]:
    """Run what may wait for ever, for a pipe: in a thread that keeps no process from ending."""
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
    said = following.said
    opens = not isinstance(said, ParsedMessage) or said.imported.message.role in ("user", "system")
    return len(batch) >= BATCH and not isinstance(said, Unfit) and opens


def _no_messages_error(path: Path, first: BadRecord) -> InvalidInput:
    """Return the error for a file without messages."""
    return InvalidInput(
        f"{path} holds no messages that could be read; {first.place}: {first.reason.rstrip('.')}.",
        hint="`cix import --help` lists the formats that can be read.",
    )


class _Import:
    """One import under way, and the conversations met so far."""

    def __init__(self, store: Store, owner: Owner, thread_id: str | None, *, title: str | None) -> None:
        self._store = store
        self._owner = owner
        self._home: Key = thread_id
        self._title = title
        self._talks: dict[Key, ImportTally] = {}
        self._by_thread: dict[SessionId, ImportTally] = {}
        self._last: ImportTally | None = None
        self.tally = Tally()

    def talks(self) -> Iterable[ImportTally]:
        """Return the conversations in the order in which they first appear; one of several names may come again."""
        return self._talks.values()

    async def put(self, batch: Sequence[ImportRecord]) -> None:
        """Put a batch in, all its conversations side by side."""
        await self._meet(batch)
        new: dict[ImportTally, list[tuple[int, ImportedMessage]]] = {}
        blobs: Blobs = {}
        await self._keep_contents([entry.said for entry in batch if isinstance(entry.said, CixContent)])
        conversations: list[ImportRecord] = []
        memories: list[MemoryTransfer] = []
        for entry in batch:
            line, said = entry.line, entry.said
            if isinstance(said, CixContent):
                continue
            if isinstance(said, CixMemory):
                memories.append(said.memory)
                continue
            if isinstance(said, ExportedConversation | CixConversation):
                conversations.append(entry)
                continue
            talk = self._talk(said)
            place = talk.next_place()
            if isinstance(said, Unfit):
                self.tally.bad(talk, line, said.reason, entry.file)
                continue
            new.setdefault(talk, []).append((line, msgspec.structs.replace(said.imported, place=place)))
            blobs |= said.blobs
        await asyncio.gather(*(self._store.contents.keep_blob(*blob) for blob in blobs.values()))
        await asyncio.gather(*(self._add(talk, numbered) for talk, numbered in new.items()))
        await asyncio.gather(*map(self._put_conversation, conversations))
        if memories:
            await self._store.transfers.restore_memories(self._owner, memories)

    async def _keep_contents(self, contents: Iterable[CixContent]) -> None:
        """Keep texts and images before the conversations that refer to them."""
        kept = self._store.contents
        await asyncio.gather(*(kept.keep_text(one.text) for one in contents if one.text is not None))
        await asyncio.gather(*(kept.keep_blob(*one.blob) for one in contents if one.blob is not None))

    async def _put_conversation(self, entry: ImportRecord) -> None:
        if isinstance(entry.said, CixConversation):
            await self._restore(entry, entry.said)
        elif isinstance(entry.said, ExportedConversation):
            await self._add_conversation(entry, entry.said)

    async def _restore(self, entry: ImportRecord, given: CixConversation) -> None:
        """Create a conversation as it was, for the owner of this import; one that is there stays as it is."""
        session = given.outline.session
        talk = self._of(session.id)
        session = replace(session, user_id=self._owner.user_id, org_id=self._owner.org_id)
        count = sum(1 if turn.answer is None else 2 for turn in given.turns)
        try:
            outline = replace(given.outline, session=session)
            made = await self._store.transfers.restore(outline, given.states, given.turns)
            await self._store.transfers.restore_memories(self._owner, given.memories)
        except (InvalidInput, AccessDenied) as error:
            self.tally.bad(talk, entry.line, error.message, entry.file)
            return
        talk.thread_id, talk.branch_id = session.id, session.active_branch
        self.tally.count(talk, count if made else 0, 0 if made else count)

    async def _add_conversation(self, entry: ImportRecord, conversation: ExportedConversation) -> None:
        """Put one conversation in, its turns in batches; messages that cannot be stored are reported."""
        talk = self._of(conversation.id)
        for place, reason in conversation.bad:
            self.tally.bad(talk, entry.line, f"{place}: {reason}", entry.file)
        if not conversation.size:
            return
        try:
            session = await self._session_of(conversation)
            talk.thread_id, talk.branch_id = session.id, session.active_branch
            for body, media_type in conversation.blobs.values():
                await self._store.contents.keep_blob(body() if callable(body) else body, media_type)
            added = 0
            turns = turns_of(conversation, session.id)
            while batch := list(islice(turns, TURNS)):
                counts = await _patiently(partial(self._store.imports.add_turns, session.id, batch))
                added += counts.added
                for number in counts.clashing:
                    name = conversation.messages[number].id
                    self.tally.bad(talk, entry.line, f"message {name}: it follows one that was deleted", entry.file)
        except (InvalidInput, AlreadyExists, AccessDenied) as error:
            self.tally.bad(talk, entry.line, f"conversation {conversation.id[:80]}: {error.message}", entry.file)
            return
        self.tally.count(talk, added, conversation.size - added)

    async def _session_of(self, conversation: ExportedConversation) -> Session:
        """Find the owner's session of a conversation by the id it has elsewhere; make it if there is none."""
        new = NewSession(
            owner=self._owner,
            external_id=conversation.id,
            title=None if conversation.title is None else conversation.title[:LONGEST_TITLE],
            system=conversation.system,
            metadata={"imported": conversation.metadata} if conversation.metadata else {},
        )
        return await self._named(conversation.id, new)

    async def _meet(self, batch: Sequence[ImportRecord]) -> None:
        """Find the conversations that messages name for the first time; two names may mean the same one."""
        keys = dict.fromkeys(
            entry.said.session or self._home for entry in batch if isinstance(entry.said, ParsedMessage)
        )
        names = [key for key in keys if key is not None and self._of(key).thread_id is None]
        for name, session in zip(names, await asyncio.gather(*map(self._named, names)), strict=True):
            talk = self._by_thread.setdefault(session.id, self._of(name))
            if talk is not self._of(name):
                talk.take_over(self._of(name))
            talk.thread_id, talk.branch_id = session.id, session.active_branch
            self._talks[name] = talk

    def _of(self, key: Key) -> ImportTally:
        return self._talks.setdefault(key, ImportTally())

    def _talk(self, said: ParsedMessage | Unfit) -> ImportTally:
        """Return the conversation of a record; an invalid one without a conversation belongs to the current one."""
        if isinstance(said, Unfit) and said.session is None and self._last is not None:
            return self._last
        talk = self._of(said.session or self._home)
        if isinstance(said, ParsedMessage):
            self._last = talk
        return talk

    async def _add(self, talk: ImportTally, numbered: Sequence[tuple[int, ImportedMessage]]) -> None:
        """Add messages of one conversation; those whose id is taken are bad records."""
        imported = [each for _, each in numbered]
        if talk.branch_id is None:
            session = await self._own(imported[:COMPARED])
            talk.thread_id, talk.branch_id = session.id, session.active_branch
        arrived = await _patiently(partial(self._store.imports.add, talk.branch_id, imported))
        self.tally.count(talk, arrived.added, arrived.skipped)
        clashing = set(arrived.clashing)
        for line, each in numbered if clashing else ():
            if each.place in clashing:
                reason = f"its id {each.external_id!r} is used by a message with other text, which is kept"
                self.tally.bad(talk, line, reason)

    async def _named(self, name: str, new: NewSession | None = None) -> Session:
        """Find a conversation of the owner by the id it has elsewhere or here; make it if there is none."""
        sessions, owner = self._store.sessions, self._owner
        while (session := await sessions.find(owner, name)) is None:
            there = await sessions.get(name) if is_id(name) else None
            if there is not None and there.owner == owner:
                return there
            with suppress(AlreadyExists):  # another process was faster: it is found now
                return await sessions.create(new or NewSession(owner=owner, external_id=name))
        return session

    async def _own(self, begins: Sequence[ImportedMessage]) -> Session:
        """Find the conversation that begins as the file does; make it if there is none.

        It may be called after any of the first messages: those before were invalid records then and are corrected now.
        """
        while True:
            free: list[str] = []
            for first in begins:
                for name in _names(first):
                    session = await self._store.sessions.find(self._owner, name)
                    if session is None:
                        free.append(name)
                        break
                    if _same_beginning(await self._store.imports.beginning(session.id, limit=COMPARED), begins):
                        return session
            with suppress(AlreadyExists):  # another process was faster: it is found now
                new = NewSession(owner=self._owner, external_id=free[0], title=self._title)
                return await self._store.sessions.create(new)


def _names(first: ImportedMessage) -> Iterator[str]:
    """Return the names a file's own conversation may have, from what its first message says."""
    said = hashlib.sha256(hash_of(first) + repr((first.external_id, first.created_at)).encode()).hexdigest()[:16]
    return (f"import-{said}" + (f"-{number}" if number > 1 else "") for number in count(1))


def _same_beginning(there: Iterable[Origin], begins: Sequence[ImportedMessage]) -> bool:
    """Return whether what is there could be from an earlier state of the file: nothing in the same place differs."""
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


async def _patiently(add: Callable[[], Awaitable[ImportCounts]]) -> ImportCounts:
    """Add something; wait for a while where a turn of the branch is being answered, or the ledger is away."""
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE_SECONDS
    while True:
        try:
            return await add()
        except (LedgerAway, OutOfOrder):
            if clock() > end:
                raise
        await asyncio.sleep(LOOK_SECONDS)
