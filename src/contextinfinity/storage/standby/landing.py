"""The way of held things into the ledger, in their order, each once.

Everything that lands may have landed before: a process can be killed between the ledger's commit and the removal of
its spool. Whatever lands a second time is found there and left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.session import NewSession, Session
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import (
    AlreadyExists,
    BranchBusy,
    ContextInfinityError,
    Gone,
    LedgerError,
    NotFound,
    OutOfOrder,
)
from contextinfinity.storage.contract import Store
from contextinfinity.storage.replay import Landing
from contextinfinity.storage.standby.breaker import Breaker
from contextinfinity.storage.standby.records import Item, cargo_of, id_of, in_order
from contextinfinity.storage.standby.spool import Spool
from contextinfinity.telemetry.counters import count

log = logging.getLogger(__name__)
T = TypeVar("T")

NOT_NOW = (LedgerError, BranchBusy, OutOfOrder)
"""Why a landing has to wait."""


class Lander:
    """Brings held things into one ledger."""

    def __init__(self, ledger: Store, writes: Breaker, moved: dict[SessionId, SessionId] | None = None) -> None:
        self.moved: dict[SessionId, SessionId] = {} if moved is None else moved
        """Sessions whose name was taken already: what was said in them goes on in the session of that name."""
        self.refused = 0
        """How many turns the ledger will never take."""
        self._ledger = ledger
        self._writes = writes
        self._branches: dict[BranchId, BranchId] = {}

    async def session(self, new: NewSession) -> Session | None:
        """Make a session under the ids that were given out; None when somebody else has them, or it was deleted."""
        try:
            if await self._was_deleted(new.branch_id) and not await self._exists(new.id):
                return None
            made = await self._through(lambda: _made(self._ledger, new))
        except NOT_NOW:
            raise
        except ContextInfinityError as error:
            self._refuse(f"session {new.id}", error)
            return None
        if new.id is not None and made.id != new.id:
            self.moved[new.id] = made.id
        if new.branch_id is not None:
            self._branches[new.branch_id] = made.active_branch
        return made

    async def text(self, body: str) -> None:
        """Keep a text."""
        await self._through(lambda: self._ledger.contents.keep_text(body))

    async def turn(self, item: Item) -> Turn | None:
        """Land one turn; None when the ledger will never take it."""
        try:
            turn = await self._through(lambda: self._land(item))
        except NOT_NOW:
            raise
        except Gone as gone:  # it had landed before, and was deleted since
            log.info("a held turn is left out: %s", gone)
            return None
        except NotFound as missing:
            if not await self._was_deleted(_branch_of(item)):
                self._refuse(f"turn {id_of(item)}", missing)
            return None
        except ContextInfinityError as error:
            self._refuse(f"turn {id_of(item)}", error)
            return None
        return turn

    async def _land(self, item: Item) -> Turn:
        if isinstance(item, Landing):
            new = item.new and replace(item.new, branch_id=self._place(item.new.branch_id))
            return await self._ledger.landings.land(replace(item, new=new))
        (turn,) = await self._ledger.turns.record(self._place(item.branch_id), (item.exchange,))
        return turn

    async def _exists(self, session_id: SessionId | None) -> bool:
        return await self._through(lambda: self._ledger.sessions.get(session_id or "")) is not None

    async def _was_deleted(self, branch_id: BranchId | None) -> bool:
        """Tell whether the ledger knows a branch: one that it knows and cannot write to was deleted."""
        if branch_id is None:
            return False
        return branch_id in await self._through(lambda: self._ledger.deletions.sessions_of({branch_id}))

    def _refuse(self, what: str, error: ContextInfinityError) -> None:
        log.error("held %s cannot be written: %s", what, error)
        self.refused += 1

    def _place(self, branch_id: BranchId) -> BranchId:
        return self._branches.get(branch_id, branch_id)

    async def _through(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await self._writes.through(ask)


def _branch_of(item: Item) -> BranchId | None:
    if isinstance(item, Landing):
        return None if item.new is None else item.new.branch_id
    return item.branch_id


async def land_left_by(lander: Lander, folder: Path, name: str) -> bool:
    """Replay the spool of a dead process and remove it; False when part of it has to wait, or it is locked."""
    if (spool := Spool.take(folder, name)) is None:
        return not (folder / f"{name}.spool").exists()
    try:
        cargo = cargo_of(spool.read())
        for session in cargo.sessions:
            await lander.session(session)
        for body in cargo.texts:
            await lander.text(body)
        items = in_order(cargo.turns)
        landed = [await lander.turn(item) for item in items]
        refuse_waiting(landed, items)
        lander.refused += cargo.damaged
    except NOT_NOW as error:
        log.info("the spool %s has to wait: %s", spool.path, error)
        spool.close()
        return False
    except BaseException:
        spool.close()
        raise
    tell_landed(landed)
    log.info("landed the spool %s: %d turns", spool.path, len(cargo.turns))
    let_go(spool, lander)
    return True


def waits_for_its_turn(turn: Turn, item: Item) -> bool:
    """Tell whether a turn has only taken its place: an earlier one of its branch has to be final before the rest."""
    return isinstance(item, Landing) and item.has_to_begin and turn.phase is Phase.ACCEPTED


def refuse_waiting(turns: Sequence[Turn | None], items: Sequence[Item]) -> None:
    """Raise ``BranchBusy`` when one of these turns has only taken its place."""
    for turn, item in zip(turns, items, strict=True):
        if turn is not None and waits_for_its_turn(turn, item):
            raise BranchBusy(f"Turn {turn.id} waits for an earlier turn of its branch.")


def tell_landed(turns: Sequence[Turn | None]) -> None:
    """Count turns that landed, once nothing of what they landed with has to be tried again."""
    count("turn_writes_ok", sum(turn is not None for turn in turns))


def let_go(spool: Spool, lander: Lander) -> None:
    """Remove a spool that has landed; one that holds what nobody takes is kept for people to look at."""
    if lander.refused:
        spool.set_aside()
        lander.refused = 0
    else:
        spool.remove()


async def _made(ledger: Store, new: NewSession) -> Session:
    try:
        return await ledger.sessions.create(new)
    except AlreadyExists:
        if new.external_id is None or (there := await ledger.sessions.find(new.owner, new.external_id)) is None:
            raise
        return there
