"""What is held while the ledger is away, branch by branch.

A branch that goes on here does so until all of it has landed: what is said on it meanwhile is held behind what is held
already, so its order stays. Everything else uses the ledger as soon as that is there again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.health import Health
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId, new_id
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import BranchBusy, LedgerAway, NotFound, OutOfOrder, SpoolFull
from contextinfinity.storage.contract import Store
from contextinfinity.storage.replay import Landing
from contextinfinity.storage.standby.breaker import Breaker
from contextinfinity.storage.standby.landing import Lander, let_go, refuse_waiting, tell_landed
from contextinfinity.storage.standby.memory import MOST_TURNS, Memory, Seed
from contextinfinity.storage.standby.records import Item, Record, SessionHeld, TextHeld, in_order, written
from contextinfinity.storage.standby.replay import Replay
from contextinfinity.storage.standby.spool import Spool
from contextinfinity.telemetry.counters import count, level

if TYPE_CHECKING:
    from contextinfinity.storage.standby.branch import HeldBranch

log = logging.getLogger(__name__)
T = TypeVar("T")

TAKE_MESSAGES = frozenset({"accept", "record"})
"""Operations that append to a branch: whatever any process spooled for the branch comes first."""

AT_WORK = 1 << 16
"""Bytes of the spool that are kept free for the answer to each message it holds."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is held, how often the ledger is asked for, and when somebody has to be told."""

    most_bytes: int = 64 << 20
    patience: float = 0.25
    """Seconds after which whoever is kept waiting by another process goes on without the ledger."""
    first_pause: float = 0.25
    longest_pause: float = 5.0
    alert_seconds: float = 60.0


class Holding:
    """Everything that goes on without the ledger, in one process and on one event loop."""

    def __init__(self, ledger: Store, folder: Path, bounds: Bounds, on_away: Callable[[], None]) -> None:
        self.ledger = ledger
        self.folder = folder
        self.memory = Memory()
        self.reads = Breaker(partial(ledger.held_up, reading=True), on_away, bounds.patience)
        self.writes = Breaker(ledger.held_up, on_away, bounds.patience)
        self.lander = Lander(ledger, self.writes)
        self.replay = Replay(folder, Lander(ledger, self.writes, self.lander.moved))
        self.workers: list[WorkerId] = []
        """Who this process is, and was."""
        self._bounds = bounds
        self._on_away = on_away
        self._branches: dict[BranchId, HeldBranch] = {}
        self._turns: dict[TurnId, HeldBranch] = {}
        self._sessions: dict[SessionId, NewSession] = {}
        self._texts: dict[str, None] = {}
        self._spool: Spool | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._landing = asyncio.Lock()

    # --- looking ---

    @property
    def depth(self) -> int:
        """How many turns and sessions the ledger does not have yet."""
        return sum(len(branch.cargo) for branch in self._branches.values()) + len(self._sessions)

    @property
    def is_over(self) -> bool:
        """Whether the ledger is there and has everything."""
        away = self.reads.is_open or self.writes.is_open
        held = self._branches or self._sessions or self._texts
        return not (away or held or (self._spool is not None and self._spool.is_busy))

    def branch(self, branch_id: BranchId) -> HeldBranch | None:
        """Give a branch that goes on here."""
        return self._branches.get(branch_id)

    def branch_of(self, turn_id: TurnId) -> HeldBranch | None:
        """Give the branch on which a turn is answered or shown here."""
        return self._turns.get(turn_id)

    def session(self, session_id: SessionId) -> Session | None:
        """Give a session that has a branch here."""
        found = (branch.session for branch in self._branches.values() if branch.session.id == session_id)
        return next(found, None)

    def holds(self, session_id: SessionId) -> bool:
        """Tell whether something of a session has to land."""
        return session_id in self._sessions or self.session(session_id) is not None

    def session_named(self, owner: Owner, external_id: str) -> Session | None:
        """Give the owner's session of that foreign id, if it has a branch here."""
        found = (branch.session for branch in self._branches.values() if branch.session.external_id == external_id)
        return next((session for session in found if session.owner == owner), None)

    def health(self) -> Health:
        """Say whether all is well, and if not, since when and why."""
        away = [breaker for breaker in (self.writes, self.reads) if breaker.is_open]
        if away:
            since = min(breaker.since for breaker in away if breaker.since is not None)
            return Health(status="degraded", reason=away[0].reason, since=since, spool_depth=self.depth)
        if not self.is_over:
            reason = "The ledger is back, and what was held is being written."
            return Health(status="degraded", reason=reason, spool_depth=self.depth)
        return Health()

    def see(self, turn: Turn) -> None:
        """Note how a turn stands in the ledger."""
        self.memory.see_turns(turn.branch_id, (turn,))
        if turn.outcome is not None:
            self.memory.running.pop(turn.id, None)
        elif turn.owner in self.workers:
            self.memory.see_step(turn, None)

    # --- going on here ---

    async def on_branch(
        self,
        operation: str,
        branch_id: BranchId | None,
        direct: Callable[[], Awaitable[T]],
        here: Callable[[HeldBranch], Awaitable[T]],
        turn_id: TurnId = "",
    ) -> T:
        """Write to the ledger, or hold it here while the ledger is away or the branch has not landed.

        The branch is named, or found by one of its turns.
        """
        branch_id = branch_id or await self._branch_of(turn_id)
        async with self.alone_on(branch_id or turn_id):
            held = None if branch_id is None else self._branches.get(branch_id)
            if held is None:
                try:
                    if operation in TAKE_MESSAGES:
                        await self.replay.run(before=branch_id)
                    done = await self.writes.through(direct)
                except LedgerAway as away:
                    held = await self._go_away(operation, branch_id, away)
                else:
                    count("turn_writes_ok")
                    return done
            if operation in TAKE_MESSAGES:
                held.show_spooled(self.replay.spooled(held.id, self._spool))
            done = await here(held)
            self._turns.update(dict.fromkeys(held.turn_ids, held))
            level("spool_depth", self.depth)
            return done

    async def keep(self, *records: Record, taking_on: bool = False) -> None:
        """Make records durable. Those that are ``taking_on`` more are refused unless their answers have room too."""
        frames = [written(record) for record in records]
        if self._spool is None:
            self._spool = Spool.begin(self.folder, self.workers[-1] if self.workers else new_id())
        wanted = sum(map(len, frames)) + AT_WORK * (1 + self._at_work())
        if taking_on and self._spool.size + wanted > self._bounds.most_bytes:
            held = f"the spool {self._spool.path} has {self._spool.size:,} of {self._bounds.most_bytes:,} bytes"
            raise SpoolFull(f"The ledger is away, and no more can be held for it: {held}.")
        await self._spool.append(*frames)

    async def make_session(self, new: NewSession) -> Session:
        """Hold a new session, under ids of its own; one that is held already is given as it is."""
        for branch in self._branches.values():
            if branch.session.id == new.id:
                return await branch.store.sessions.create(new)
        new = replace(new, id=new.id or new_id(), branch_id=new.branch_id or new_id())
        seed = await _new_seed(new)
        self._sessions[seed.session.id] = new  # first: what is here keeps the spool
        try:
            await self.keep(SessionHeld(new=new), taking_on=True)
        except BaseException:
            self._sessions.pop(seed.session.id, None)
            raise
        self.memory.see_session(seed.session)
        self._hold(seed)
        level("spool_depth", self.depth)
        return seed.session

    async def keep_text(self, body: str) -> None:
        """Hold a text that a plan refers to."""
        self._texts[body] = None
        await self.keep(TextHeld(body=body))

    def report(self, operation: str, away: LedgerAway, session_id: SessionId | None, user_id: str = "") -> None:
        """Log what failed and for whom, without anything that people said."""
        session = self.memory.session(session_id)
        user_id = session.owner.user_id if session else user_id
        about = {"operation": operation, "session_id": session_id or "", "user_id": user_id, "error": away.message}
        told = " ".join(f"{name}={value}" for name, value in about.items())
        log.error("the ledger did not take it: %s", told, extra=about)

    def alone_on(self, name: str) -> asyncio.Lock:
        """Return the lock under which a branch is written or a session created, one operation at a time."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def _go_away(self, operation: str, branch_id: BranchId | None, away: LedgerAway) -> HeldBranch:
        """Begin to go on here with a branch, from what can be read or was seen of it."""
        count("turn_writes_failed")
        seed = None if branch_id is None else await self._seen(branch_id)
        self.report(operation, away, seed.session.id if seed else None)
        if seed is None:
            raise away
        return self._hold(seed)

    async def _branch_of(self, turn_id: TurnId) -> BranchId | None:
        """Find the branch of a turn, by what is answered here or by what can be read."""
        if (held := self._turns.get(turn_id)) is not None:
            return held.id
        if (running := self.memory.running.get(turn_id)) is not None:
            return running[0].branch_id
        with suppress(LedgerAway):
            turn = await self.reads.through(lambda: self.ledger.turns.get(turn_id))
            return None if turn is None else turn.branch_id
        return None

    async def _seen(self, branch_id: BranchId) -> Seed | None:
        """Read what a branch goes on from: in the ledger where that can be read, else what was seen of it."""
        try:
            seed = await self.reads.through(lambda: _read_seed(self.ledger, branch_id))
        except LedgerAway:
            return self.memory.seed(branch_id)
        self.memory.see_session(seed.session)
        return seed

    def _hold(self, seed: Seed) -> HeldBranch:
        from contextinfinity.storage.standby.branch import HeldBranch  # a whole ledger, which a good day never needs

        count("fallback_activations")
        held = HeldBranch(seed, self.memory, self.workers, self.keep)
        self._branches[held.id] = held
        self._turns.update(dict.fromkeys(held.turn_ids, held))
        self._on_away()
        return held

    def _at_work(self) -> int:
        """How many of the turns held here have not ended."""
        items = (item for branch in self._branches.values() for item in branch.cargo.values())
        return sum(isinstance(item, Landing) and item.end is None for item in items)

    # --- landing ---

    async def land(self) -> None:
        """Bring all that is held into the ledger, and let go of the spool."""
        async with self._landing:
            await self.replay.run()
            for session_id, new in list(self._sessions.items()):
                if (made := await self.lander.session(new)) is not None:
                    self.memory.see_session(made)
                del self._sessions[session_id]
            for body in list(self._texts):
                await self.lander.text(body)
                del self._texts[body]
            # Together: they share their commits.
            landing = [self._land_branch(held) for held in self._branches.values()]
            for failure in await asyncio.gather(*landing, return_exceptions=True):
                # A branch that another process is at lands a little later.
                if failure is not None and not isinstance(failure, (BranchBusy, OutOfOrder)):
                    raise failure
            level("spool_depth", self.depth)
            if self.is_over and self._spool is not None:
                let_go(self._spool, self.lander)
                self._spool = None

    async def _land_branch(self, held: HeldBranch) -> None:
        async with self.alone_on(held.id):
            items = in_order(held.cargo)
            turns = [await self.lander.turn(item) for item in items]
            for turn, item in zip(turns, items, strict=True):
                if turn is not None:
                    self._landed(turn, item)
            refuse_waiting(turns, items)
            tell_landed(turns)
            del self._branches[held.id]
            for turn_id in held.turn_ids:
                self._turns.pop(turn_id, None)

    def _landed(self, turn: Turn, item: Item) -> None:
        """Note how a turn stands in the ledger by now, and what was asked for it here."""
        if isinstance(item, Landing):
            for step in item.steps:
                self.memory.see_step(turn, step)
        self.see(turn)

    def close(self) -> None:
        """Let go of the spool as it is; whoever comes next takes it over."""
        if self._spool is not None:
            self._spool.close()


async def _read_seed(ledger: Store, branch_id: BranchId) -> Seed:
    """Read what a branch goes on from."""
    branch = await ledger.branches.get(branch_id)
    session = None if branch is None else await ledger.sessions.get(branch.session_id)
    if branch is None or session is None:
        raise NotFound(f"There is no branch {branch_id}.")
    turns = await ledger.turns.history(branch_id, limit=MOST_TURNS)
    return Seed(
        branch_id=branch_id,
        session=session,
        state=await ledger.states.head(branch_id),
        turns=turns,
        plan=await ledger.turns.plan(turns[-1].id) if turns else None,
        last_seq=branch.last_turn_seq,
    )


async def _new_seed(new: NewSession) -> Seed:
    """Make what a new session begins with, by the rules every session is made by."""
    from contextinfinity.storage.in_memory import InMemoryStore

    store = InMemoryStore()
    session = await store.sessions.create(new)
    state = await store.states.head(session.active_branch)
    return Seed(branch_id=session.active_branch, session=session, state=state)
