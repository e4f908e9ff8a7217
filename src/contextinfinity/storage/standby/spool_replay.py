"""Writes the spools of all processes on this data_dir into the ledger, in the order in which turns were accepted.

A branch takes its next message only after this has run, so nothing that any process acknowledged, dead or alive, can
end up behind a later message. Replaying is idempotent, so any process may replay any spool, as often as it likes; only
removing a spool needs its lock.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import merge
from pathlib import Path

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId
from contextinfinity.domain.session import IdempotencyKey, NewSession, Session
from contextinfinity.domain.turn import NewTurn, Phase, Turn
from contextinfinity.errors import (
    AccessDenied,
    AlreadyExists,
    BranchBusy,
    ContextInfinityError,
    Gone,
    KeyReused,
    LedgerError,
    LedgerFailed,
    NotFound,
    OutOfOrder,
)
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import for_all_owners
from contextinfinity.storage.invariants import check_same_request
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.standby.recent import Recent
from contextinfinity.storage.standby.spool import SUFFIX, Item, Spooled, branch_of, id_of, read, retire, taken
from contextinfinity.telemetry.counters import count

log = logging.getLogger(__name__)

NOT_NOW = (LedgerError, BranchBusy, OutOfOrder)
"""Why a replay has to be tried again later."""


class Replay:
    """Replays the spools in a folder. ``own`` is what this process has spooled, in the file called ``own_name``.

    Sessions and texts are dropped from ``own`` when the ledger has them; their process drops turns.
    A replay is maintenance, even in a request: spools have messages of all users.
    """

    def __init__(self, folder: Path, ledger: Store, own: Spooled, recent: Recent) -> None:
        self.folder = folder
        self.own_name = ""
        self.moved: dict[SessionId, SessionId] = {}
        """Sessions that got another id in the ledger than the one that was given out."""
        self._own = own
        self._recent = recent
        self._ledger = ledger
        self._read: dict[str, tuple[tuple[int, int], Spooled]] = {}
        """By file: its inode and size when it was read, and its content."""
        self._landed: dict[TurnId, tuple[Item, Turn | None]] = {}
        self._content: set[str | bytes] = set()
        """The sessions and texts that the ledger has, or will never accept."""
        self._branches: dict[BranchId, BranchId] = {}
        self._refused: dict[str, str] = {}
        """The ids of what the ledger will never accept, with the reasons."""
        self._running = asyncio.Lock()

    @for_all_owners
    async def run(self, *, before: BranchId | None = None) -> None:
        """Replay all spools, before a message is appended to that branch or something is looked up.

        ``LedgerError`` if the ledger cannot be written; ``BranchBusy`` if a spooled exchange of the branch has to wait
        for a running turn. Without spools this costs one look at the folder.
        """
        if not self._refresh():
            return
        async with self._running:
            spools = [spooled for _, spooled in self._read.values()]
            await self._write_content(spools)
            waiting: set[BranchId | None] = set()
            for item in merge(*(spooled.in_order() for spooled in spools), key=id_of):
                if branch_of(item) not in waiting:
                    try:
                        await self.write(item)
                    except OutOfOrder:  # a finished exchange needs a branch on which no turn is running
                        waiting.add(branch_of(item))
        if before in waiting:
            raise BranchBusy(f"Branch {before} has spooled turns that wait for a running one.")

    @for_all_owners
    async def write(self, item: Item) -> Turn | None:
        """Write what the ledger does not have of a turn; None if it will never accept it.

        ``OutOfOrder`` if its session was spooled while others were written, and is not in the ledger yet.
        """
        if self.is_replayed(item):
            return self._landed[id_of(item)][1]
        if any(new.branch_id == branch_of(item) for new in self._own.sessions.values()):
            raise OutOfOrder(f"The session of turn {id_of(item)} is not in the ledger yet.")
        turn = None
        try:
            turn = await self._write(item)
        except NOT_NOW:
            raise
        except Gone as gone:
            log.info("a spooled turn was deleted since: %s", gone)
        except ContextInfinityError as error:
            branch_id = branch_of(item)
            if not (isinstance(error, NotFound) and branch_id and branch_id in await self._known({branch_id})):
                self._refuse(id_of(item), f"turn {id_of(item)}: {error.message}")
        if turn is None or not (isinstance(item, ReplayedTurn) and item.has_to_begin and turn.phase is Phase.ACCEPTED):
            self._landed[id_of(item)] = item, turn  # otherwise it has only taken its place behind a running turn
        return turn

    def is_replayed(self, item: Item) -> bool:
        """Return whether the ledger has all of an item, or will never accept it."""
        there = self._landed.get(id_of(item))
        return there is not None and (there[0] is item or there[0] == item)

    async def retire(self, name: str) -> bool:
        """Replay and remove the spool of a process that has ended; False if that has to wait."""
        path = self.folder / f"{name}{SUFFIX}"
        with taken(path) as is_mine:
            if not is_mine:
                return not path.exists()
            try:
                await self.run()
            except NOT_NOW as error:
                log.info("replaying the spool %s failed; it is tried again later: %s", path, error)
                return False
            _, spooled = self._read.get(path.name, ((0, 0), Spooled()))
            if not all(map(self.is_replayed, spooled.turns.values())):
                return False
            count("turn_writes_ok", sum(self._landed[turn_id][1] is not None for turn_id in spooled.turns))
            self.finish(path, {*spooled.sessions, *spooled.turns}, spooled.damaged)
        return True

    @for_all_owners
    async def take_interrupted(self, dead: WorkerId, by: WorkerId) -> tuple[TurnId, ...]:
        """Take over the turns of an ended process whose ends are not in its spool, as turns in spools may wait for
        them; none without a spool, or while the ledger is away.

        What the spool has of them has to be in the ledger first: without its steps, what a turn had shown is not found.
        """
        path = self.folder / f"{dead}{SUFFIX}"
        with taken(path) as is_mine:
            if not is_mine:
                return ()
            items = [item for item in read(path).turns.values() if isinstance(item, ReplayedTurn)]
            kept = [item.turn_id for item in items if item.end is not None or not self.is_replayed(item)]
            try:
                return await self._ledger.replays.take_interrupted(dead, by, kept=kept)
            except NOT_NOW as error:
                log.info("the turns of %s cannot be taken over yet: %s", dead, error)
                return ()

    def finish(self, path: Path, ids: set[str], damaged: int = 0) -> None:
        """Remove a spool whose content has landed; one with something that was refused is kept as such."""
        reasons = [reason for key, reason in self._refused.items() if key in ids]
        retire(path, "; ".join([*reasons, f"{damaged} damaged lines"] if damaged else reasons))

    def spooled(self, branch_id: BranchId) -> Iterator[Item]:
        """Return what other processes have spooled for a branch, in the order of acceptance."""
        self._refresh()
        others = [spooled.in_order() for _, spooled in self._read.values() if spooled is not self._own]
        return (item for item in merge(*others, key=id_of) if branch_of(item) == branch_id)

    def requested(self, once: IdempotencyKey) -> TurnId | SessionId | None:
        """Return the id of the turn or session that a request with this idempotency key made in any spool."""
        self._refresh()
        for _, spooled in self._read.values():
            turns = [item.new for item in spooled.turns.values() if isinstance(item, ReplayedTurn)]
            requests: list[NewSession | NewTurn | None] = [*spooled.sessions.values(), *turns]
            for made in requests:
                if made is not None and made.once is not None and made.once.key == once.key:
                    check_same_request(once, made.once.asked)
                    return made.id
        return None

    def _refresh(self) -> bool:
        """Read the spools that changed, forget those that are gone, and tell whether there are any."""
        found = {self.own_name: ((0, 0), self._own)} if self._own else {}
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and entry.name != self.own_name:
                        with suppress(FileNotFoundError):  # its process removed it just now
                            found[entry.name] = self._file(entry)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise LedgerFailed(f"The spools in {self.folder} could not be read ({error.strerror}).") from error
        self._read = found
        if not found:
            self._landed.clear()
            self._content.clear()
        return bool(found)

    def _file(self, entry: os.DirEntry[str]) -> tuple[tuple[int, int], Spooled]:
        version = (entry.inode(), entry.stat().st_size)
        there = self._read.get(entry.name)
        return there if there is not None and there[0] == version else (version, read(Path(entry.path)))

    async def _write_content(self, spools: Sequence[Spooled]) -> None:
        """Write sessions in the order in which they were made, which is that of their branches' ids, and texts."""
        sessions = [new for spooled in spools for new in spooled.sessions.values() if _key(new) not in self._content]
        for new in sorted(sessions, key=lambda new: new.branch_id or ""):
            await self._write_session(new)
            self._content.add(_key(new))
        for body in [body for spooled in spools for body in spooled.texts if body not in self._content]:
            await self._ledger.contents.keep_text(body)
            self._content.add(body)
        for key, new in list(self._own.sessions.items()):
            if _key(new) in self._content:
                del self._own.sessions[key]
        for body in [body for body in self._own.texts if body in self._content]:
            del self._own.texts[body]

    async def _write_session(self, new: NewSession) -> None:
        """Create a session under the ids that were given out, unless it was deleted since."""
        try:
            known = (await self._known({new.branch_id} if new.branch_id else set())).get(new.branch_id or "")
            if known is not None and await self._ledger.sessions.get(known) is None:
                return
            made = await self._create(new)
        except NOT_NOW:
            raise
        except ContextInfinityError as error:
            self._refuse(new.id or "", f"session {new.id}: {error.message}")
            return
        if new.id is not None and made.id != new.id:
            self.moved[new.id] = made.id
            self._recent.forget(new.id)
        if new.branch_id is not None:
            self._branches[new.branch_id] = made.active_branch
        self._recent.remember_session(made)

    async def _create(self, new: NewSession) -> Session:
        """Create a session. Where its id or its name is taken, return the owner's session of that name.

        If another user took the id first, the owner gets a conversation of their own with the given id as its name, by
        which it is found.
        """
        sessions = self._ledger.sessions
        try:
            return await sessions.create(new)
        except KeyReused:
            return await self._create(replace(new, once=None))
        except (AlreadyExists, AccessDenied):
            there = None if new.id is None else await sessions.get(new.id)
            if there is not None and there.owner == new.owner:
                return there
            name = new.external_id or new.id or ""
            try:
                return await sessions.create(replace(new, id=None, external_id=name))
            except AlreadyExists:  # another process may create it at the same time, so it is looked up last
                if (there := await sessions.find(new.owner, name)) is None:
                    raise
                return there

    async def _write(self, item: Item) -> Turn:
        if isinstance(item, ReplayedTurn):
            new = item.new and replace(item.new, branch_id=self._place(item.new.branch_id))
            return await self._ledger.replays.replay(replace(item, new=new))
        (turn,) = await self._ledger.turns.record(self._place(item.branch_id), (item.exchange,))
        return turn

    async def _known(self, branches: set[BranchId]) -> dict[BranchId, SessionId]:
        """Return the sessions of those branches that the ledger has or has deleted."""
        return await self._ledger.deletions.sessions_of(branches)

    def _place(self, branch_id: BranchId) -> BranchId:
        return self._branches.get(branch_id, branch_id)

    def _refuse(self, key: str, reason: str) -> None:
        log.error("the ledger does not accept a spooled %s", reason)
        self._refused[key] = reason


def _key(new: NewSession) -> bytes:
    """Return what identifies a session that is to be made; it has metadata and cannot be hashed itself."""
    return msgspec.json.encode(new)
