"""Delete a turn, a conversation, a user or everything, and prove it.

With ``scan``, the result lists each place that was searched for what was deleted. ``rows``: every table, by ids.
``files``: also the bytes of every file, for samples of the text that are taken before the deletion. What files contain
says something about all users, so only a caller with direct access to them may ask for that.

A deletion records its intent first, clears the copies outside the ledger, deletes the rows, and wipes the file. If its
process is killed in between, another one finishes it: ``finish`` runs at every start, ``clean_up`` every few hours. A
clean-up processes sessions in batches. A session that fails is reported in the result and retried by the next run; the
others are not delayed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from contextinfinity.domain.ids import Position, SessionId, TurnId
from contextinfinity.domain.session import CleanupResult, Deleted, Owner, Removed, ScannedPlace, Session
from contextinfinity.domain.transfer import MessageTransfer
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import BranchBusy, ContextInfinityError, LedgerError, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies
from contextinfinity.storage.deletion_scan import MOST_SAMPLES, samples_of
from contextinfinity.telemetry.counters import count
from contextinfinity.text.plurals import counted

log = logging.getLogger(__name__)

CLEANED_AT_ONCE = 16
"""The number of sessions that are cleaned up concurrently, so that their writes share a commit."""
SWEEP_SECONDS = 1.0
"""The time limit of one sweep; the next sweep continues."""
FINISH_SECONDS = 5.0
"""The time limit at start for finishing the deletions of another process."""
WIPE_TRIES, WIPE_PAUSE = 5, 0.02
"""How often a start tries to empty the write-ahead log, which a reader may block, and the pause between tries."""
STILL_THERE = (
    "The ledger's own files still hold deleted text: another process reads an older state of them, or they take longer "
    "to rewrite. It is removed as soon as that ends, by a running engine, the next start or `cix cleanup`."
)


@dataclass(frozen=True, kw_only=True)
class RetentionLimits:
    """The longest time to live of turns in hours: of all users (None: for ever), and of single users.

    ``raw_response_hours``: of the raw responses of providers; None: as long as their turns.
    """

    hours: float | None = None
    users: Mapping[str, float] = field(default_factory=dict)
    raw_response_hours: float | None = None


class Cleaner:
    """Deletes conversations from the ledger and from the copies outside it."""

    def __init__(self, store: Store, copies: Copies | None = None, retention: RetentionLimits | None = None) -> None:
        self._store = store
        self._retention = RetentionLimits() if retention is None else retention
        self._copies = Copies() if copies is None else copies
        self._finished = Removed()
        """Counts of what ``finish`` deleted; the next ``clean_up`` includes them in its result."""

    async def delete(self, session_id: SessionId) -> int:
        """Delete a conversation with all its data and return the number of its turns."""
        turns = await self.delete_rows(session_id)
        await self.sweep()
        return turns

    async def delete_rows(self, session_id: SessionId) -> int:
        """Delete a conversation as ``delete`` does; unused bytes hold its words until the next ``sweep``."""
        await self._clear_thread(session_id)
        await self._store.deletions.begin(session_id)
        await self._copies.clear(self._store.deletions, (session_id,))
        turns = 0
        while True:
            removed = await self._store.deletions.delete(session_id)
            turns += _counted(removed)
            if not removed.more:
                break
        return turns

    async def delete_turn(self, turn: Turn) -> None:
        """Delete one finished turn with everything derived from it.

        A kill before the rows are deleted leaves the turn in place; one after that leaves only journals, which the
        next start removes.
        """
        deletions = self._store.deletions
        await self._store.memories.replace_extracted(turn.id, ())
        await self._clear_thread(turn.session_id, turn)
        await self._copies.clear_turn(turn)
        _counted(await deletions.delete_turn(turn.id))
        await self._copies.clear(deletions)
        await self.sweep()

    async def _clear_thread(self, session_id: SessionId, turn: Turn | None = None) -> None:
        """Clear the copy in another backend of threads, first: a deletion that has begun has lost the thread's name."""
        if self._copies.threads is not None:
            session = await self._store.sessions.get(session_id)
            if session is not None:
                await self._copies.threads.clear(session, turn)

    async def scan(
        self, samples: Sequence[str] | None, sessions: Sequence[SessionId], turns: Sequence[TurnId] = ()
    ) -> tuple[ScannedPlace, ...]:
        """Search the ledger for rows and, unless ``samples`` is None, every file for samples of what was deleted."""
        rows = await self._store.deletions.rows_left(sessions, turns)
        left = ", ".join(f"{table}: {count}" for table, count in rows.items() if count)
        table_rows = ScannedPlace(
            place="ledger rows", scanned=f"{len(rows)} tables", found=sum(rows.values()), note=left
        )
        scans = () if samples is None else await self._copies.scan(samples)
        kept = await self._store.deletions.said({sample for scan in scans for sample in scan.samples})
        return (table_rows, *(scan.result(kept) for scan in scans))

    async def expire(self, session_id: SessionId) -> tuple[int, int]:
        """Delete what has expired in one session; return (sessions, turns).

        Of the copies outside the ledger only journals are cleared; the others are left to ``clean_up``.
        """
        if not await self._store.deletions.is_due(session_id):
            return 0, 0
        await self._copies.clear_journals(self._store.deletions)
        return await self._expire_rows(session_id)

    async def _expire_rows(self, session_id: SessionId) -> tuple[int, int]:
        sessions = turns = 0
        while True:
            removed = await self._store.deletions.expire(session_id)
            sessions, turns = sessions + removed.sessions, turns + _counted(removed)
            if not removed.more:
                return sessions, turns

    async def clean_up(self) -> CleanupResult:
        """Delete everything that has expired and finish interrupted deletions; errors are part of the result."""
        began = time.monotonic()
        sessions, turns = self._finished.sessions, self._finished.turns
        self._finished = Removed()
        failed: dict[SessionId, str] = {}
        errors: list[str] = []
        remaining: tuple[str, ...] = ()
        try:
            await self._limit_retention()
            begun = await self._store.deletions.begun()
            try:
                await self._copies.clear(self._store.deletions, begun)
            except LedgerError as error:  # the intents are kept, and expiry continues
                failed |= dict.fromkeys(begun, error.message)
                errors.append(error.message)
            while due := await self._due(failed):
                for deletion in await asyncio.gather(*(self._expire_or_log(session_id, failed) for session_id in due)):
                    sessions, turns = sessions + deletion[0], turns + deletion[1]
            await self._prune_responses()
            await self.sweep()
            remaining = await self.remaining() if sessions or turns else ()
        except ContextInfinityError as error:
            errors.append(error.message)
        result = CleanupResult(
            sessions_deleted=sessions,
            turns_deleted=turns,
            execution_time=time.monotonic() - began,
            errors=tuple(dict.fromkeys((*failed.values(), *errors))),
            remaining=remaining,
        )
        _log_result(result)
        return result

    async def _limit_retention(self) -> None:
        """Shorten the time to live of conversations to what the store and their users allow."""
        if self._retention.hours is not None:
            await self._store.deletions.limit_retention(self._retention.hours)
        for user_id, hours in self._retention.users.items():
            await self._store.deletions.limit_retention(hours, user_id=user_id)

    async def _prune_responses(self) -> None:
        """Delete raw responses past their time; their turns stay."""
        hours, pruned = self._retention.raw_response_hours, 0
        if hours is None:
            return
        while removed := await self._store.deletions.prune_responses(hours):
            pruned += removed
        if pruned:
            log.info("clean-up: %d raw responses deleted", pruned)

    async def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """Finish the interrupted deletions of other processes within a time limit; ``clean_up`` does the rest."""
        with suppress(LedgerError, TimeoutError):
            async with asyncio.timeout(seconds):
                deletions = self._store.deletions
                await self._copies.clear(deletions, await deletions.begun())
                for session_id in await deletions.due():
                    sessions, turns = await self._expire_rows(session_id)
                    done = self._finished
                    self._finished = Removed(sessions=done.sessions + sessions, turns=done.turns + turns)
                for _ in range(WIPE_TRIES):
                    if await deletions.is_wiped():
                        break
                    await self.sweep(seconds)
                    await asyncio.sleep(WIPE_PAUSE)

    async def remaining(self) -> tuple[str, ...]:
        """List the places where deleted text still exists, with the reason."""
        elsewhere = await asyncio.to_thread(self._copies.external_backups)
        unchanged = [f"The backup {path} is outside of the data_dir and is not changed." for path in elsewhere]
        in_use = [
            f"{path} still holds deleted text: another process uses it. It is removed when that process is done with "
            "it, or by the next start after that."
            for path in await self._copies.in_use(self._store.deletions)
        ]
        still_there = () if await self._store.deletions.is_wiped() else (STILL_THERE,)
        return (*still_there, *in_use, *unchanged)

    async def _expire_or_log(self, session_id: SessionId, failed: dict[SessionId, str]) -> tuple[int, int]:
        try:
            return await self._expire_rows(session_id)
        except ContextInfinityError as error:
            failed[session_id] = f"session {session_id}: {error.message}"
            return 0, 0

    async def sweep(self, seconds: float = SWEEP_SECONDS) -> bool:
        """Overwrite deleted text for at most ``seconds``; return whether some is left."""
        end = time.monotonic() + seconds
        while left := await self._store.deletions.sweep():
            if time.monotonic() > end:
                break
        return left

    async def _due(self, failed: dict[SessionId, str]) -> list[SessionId]:
        found = await self._store.deletions.due(limit=CLEANED_AT_ONCE + len(failed))
        return [session_id for session_id in found if session_id not in failed]


def _counted(removed: Removed) -> int:
    count("sessions_deleted", removed.sessions)
    count("turns_deleted", removed.turns)
    return removed.turns


def _log_result(result: CleanupResult) -> None:
    count("cleanup_runs")
    for error in result.errors:
        log.error("clean-up: %s", error)
    if result.errors:
        count("cleanups_failed")
    if result.turns_deleted or result.sessions_deleted:
        done = result.sessions_deleted, result.turns_deleted, result.execution_time
        log.info("clean-up: %d sessions and %d turns deleted in %.1f s", *done)


async def expire_before_use(cleaner: Cleaner, session_id: SessionId) -> None:
    """Delete what has expired in a session before it is read; a failure is only logged."""
    try:
        await cleaner.expire(session_id)
    except LedgerError as error:
        log.warning("session %s: expired turns could not be deleted yet: %s", session_id, error)


PAGE = 200

DeletionScan: TypeAlias = Literal["rows", "files"]
"""What is searched for deleted text."""


class Deleting:
    """The deletions of an engine; ``forget`` clears what it holds in memory."""

    def __init__(self, store: Store, cleaner: Cleaner, forget: Callable[[], None]) -> None:
        self._store = store
        self._cleaner = cleaner
        self._forget = forget

    async def conversation(self, session: Session, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete a conversation with everything derived from it."""
        samples = await self._samples(session.id) if scan == "files" else None
        turns = await self._cleaner.delete(session.id)
        self._forget()
        places = await self._cleaner.scan(samples, (session.id,)) if scan else ()
        remaining = await self._cleaner.remaining()
        return Deleted(thread_id=session.id, conversations=1, turns=turns, remaining=remaining, places=places)

    async def turn(self, turn: Turn, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete one finished turn with everything derived from it; later turns stay."""
        texts = [turn.user_message.rendered_text, *([turn.answer.rendered_text] if turn.answer else [])]
        await self._cleaner.delete_turn(turn)
        self._forget()
        places = (
            await self._cleaner.scan(samples_of(texts) if scan == "files" else None, (), (turn.id,)) if scan else ()
        )
        remaining = await self._cleaner.remaining()
        return Deleted(thread_id=turn.session_id, turn_id=turn.id, turns=1, remaining=remaining, places=places)

    async def user(self, owner: Owner, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete all conversations and memories of a user; those with a running answer stay and are named."""
        deleted = await self._users((owner,), scan=scan)
        return msgspec.structs.replace(deleted, user_id=owner.user_id)

    async def everything(self, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete all conversations and memories of all users."""
        return await self._users(await self._store.transfers.owners(), scan=scan)

    async def _users(self, owners: Sequence[Owner], *, scan: DeletionScan | None) -> Deleted:
        samples: list[str] = []
        deleted: list[SessionId] = []
        busy: list[str] = []
        turns = memories = 0
        for owner in owners:
            async for session in self._sessions(owner):
                if scan == "files" and len(samples) < MOST_SAMPLES:
                    samples += await self._samples(session.id)
                try:
                    turns += await self._cleaner.delete_rows(session.id)
                    deleted.append(session.id)
                except BranchBusy as error:
                    busy.append(error.message)
                except NotFound:  # another process deleted it meanwhile
                    continue
            async for said in self._forgotten(owner):
                memories += 1
                samples += samples_of((said,)) if scan == "files" and len(samples) < MOST_SAMPLES else ()
        await self._cleaner.sweep()
        self._forget()
        places = await self._scanned(owners, samples if scan == "files" else None, deleted) if scan else ()
        return Deleted(
            conversations=len(deleted),
            turns=turns,
            memories=memories,
            remaining=(*busy, *await self._cleaner.remaining()),
            places=places,
        )

    async def _scanned(
        self, owners: Sequence[Owner], samples: Sequence[str] | None, gone: Sequence[SessionId]
    ) -> tuple[ScannedPlace, ...]:
        whose = {owner.user_id for owner in owners}
        tokens = [one for one in await self._store.tokens.list() if one.owner.user_id in whose]
        note = "Tokens hold no text; `cix token revoke ID` ends them." if tokens else ""
        listed = ScannedPlace(place="tokens", scanned=counted(len(tokens), "token"), note=note)
        return (*await self._cleaner.scan(samples, gone), listed)

    async def _sessions(self, owner: Owner) -> AsyncIterator[Session]:
        after: Position | None = None
        while page := await self._store.sessions.list(owner, limit=PAGE, after=after):
            after = page[-1].position
            for session in page:
                yield session

    async def _forgotten(self, owner: Owner) -> AsyncIterator[str]:
        """Forget all memories of a user, and yield what they said."""
        while page := await self._store.memories.list(owner, superseded=True, limit=PAGE):
            if not await self._store.memories.forget(owner, [memory.id for memory in page]):
                return
            for memory in page:
                yield memory.content

    async def _samples(self, session_id: SessionId) -> list[str]:
        page = await self._store.transfers.turns(session_id, limit=PAGE)
        said = (_text(message) for turn in page for message in (turn.question, turn.answer) if message is not None)
        return samples_of(said)


def _text(message: MessageTransfer) -> str:
    """Return a message's text, or the longest text of its blocks."""
    if message.text is not None:
        return message.text
    found = [""]
    waiting = [message.blocks]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return max(found, key=len)
