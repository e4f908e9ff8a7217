"""The branches that continue while the ledger is unavailable, and their spool.

A held branch uses the spool until all of it is in the ledger, so that the order of its turns is kept. Other branches
use the ledger as soon as it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, StateId, TurnId, WorkerId, new_id, now
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.store_health import StoreHealth
from contextinfinity.domain.turn import NewStep, Turn
from contextinfinity.errors import AlreadyExists, BranchBusy, LedgerAway, NotFound, OutOfOrder, SpoolFull
from contextinfinity.storage.contract import Store
from contextinfinity.storage.invariants import check_new_session
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.standby.breaker import CircuitBreaker, guarded
from contextinfinity.storage.standby.held_branch import HeldBranch
from contextinfinity.storage.standby.recent import MOST_TURNS, Recent, Seed, unexpired_state
from contextinfinity.storage.standby.spool import Record, Spool, Spooled, id_of, refused, written
from contextinfinity.storage.standby.spool_replay import Replay
from contextinfinity.telemetry.counters import count, level

log = logging.getLogger(__name__)
T = TypeVar("T")

TAKE_MESSAGES = frozenset({"accept", "record"})
"""Methods that append to a branch; turns that any process has spooled for the branch are replayed first."""

ROOM_TO_END = 1 << 16
"""Bytes of the spool that are kept free for the answer to each message in it."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of an outage: the size of the spool, and times in seconds."""

    most_bytes: int = 64 << 20
    patience: float = 0.25
    """How long another process may block a request before the ledger is regarded as unavailable."""
    first_pause: float = 0.25
    longest_pause: float = 5.0
    alert_seconds: float = 60.0


class HeldBranches:
    """All branches that continue without the ledger, in one process and on one event loop."""

    def __init__(self, ledger: Store, folder: Path, bounds: Bounds, on_away: Callable[[], None]) -> None:
        self.recent = Recent()
        self.reads = CircuitBreaker(partial(ledger.blocked_seconds, reading=True), on_away, bounds.patience)
        self.writes = CircuitBreaker(ledger.blocked_seconds, on_away, bounds.patience)
        self.ledger = guarded(ledger, self.reads, self.writes)
        """The ledger behind the circuit breakers."""
        self.workers: list[WorkerId] = []
        """The ids of this process, the present one last."""
        self.taken: set[TurnId] = set()
        """Turns that this process took over from a dead one, and that are open: they end in the ledger."""
        self._spooled = Spooled()
        self.replay = Replay(folder, self.ledger, self._spooled, self.recent)
        self._bounds = bounds
        self._on_away = on_away
        self._branches: dict[BranchId, HeldBranch] = {}
        self._spool: Spool | None = None
        self._ids: set[str] = set()
        """The sessions and turns in the spool."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._replay_lock = asyncio.Lock()

    # --- reading ---

    @property
    def depth(self) -> int:
        """How many turns and sessions the ledger does not have yet."""
        return len(self._spooled.turns) + len(self._spooled.sessions)

    @property
    def is_over(self) -> bool:
        """Whether the ledger is back and has everything."""
        is_away = self.reads.is_open or self.writes.is_open
        return not (is_away or self._branches or self._spooled or (self._spool is not None and self._spool.is_busy))

    def branch(self, branch_id: BranchId) -> HeldBranch | None:
        """Return a branch that continues here."""
        return self._branches.get(branch_id)

    def branch_of(self, turn_id: TurnId) -> HeldBranch | None:
        """Return the branch that continues here and shows a turn, unless the turn is ended in the ledger."""
        branches = () if turn_id in self.taken else self._branches.values()
        return next((branch for branch in branches if turn_id in branch.turns), None)

    def session(self, session_id: SessionId) -> Session | None:
        """Return a session with a branch that continues here."""
        return next((branch.session for branch in self._branches.values() if branch.session.id == session_id), None)

    def session_named(self, owner: Owner, external_id: str) -> Session | None:
        """Return the owner's session of that external id, if one of its branches continues here."""
        found = (branch.session for branch in self._branches.values() if branch.session.external_id == external_id)
        return next((session for session in found if session.owner == owner), None)

    def holds(self, session_id: SessionId) -> bool:
        """Return whether the ledger lacks something of a session."""
        return session_id in self._spooled.sessions or self.session(session_id) is not None

    def refuse_held(self, name: BranchId | SessionId) -> None:
        """Raise ``LedgerAway`` for a branch or session of which the ledger lacks something."""
        if name in self._branches or self.holds(name):
            raise LedgerAway(f"The ledger does not have all of conversation or branch {name} yet.")

    def health(self) -> StoreHealth:
        """Return whether the ledger is there and has everything; if not, since when and why."""
        away = [breaker for breaker in (self.writes, self.reads) if breaker.is_open]
        if away:
            since = min(breaker.since for breaker in away if breaker.since is not None)
            return StoreHealth(status="degraded", reason=away[0].reason, since=since, spool_depth=self.depth)
        if not self.is_over:
            reason = "The ledger is back; its spool is being replayed."
            return StoreHealth(status="degraded", reason=reason, spool_depth=self.depth)
        for path, reason in refused(self.replay.folder).items():
            described = f"The ledger did not accept all of {path}, which was acknowledged ({reason or 'see the log'})."
            return StoreHealth(
                status="degraded", reason=f"{described} Run `cix doctor`; remove the file when it is not needed."
            )
        return StoreHealth()

    def remember_turn(self, turn: Turn, step: NewStep | None = None) -> None:
        """Remember how a turn is in the ledger, and a step that was opened for it."""
        self.recent.remember_turns(turn.branch_id, (turn,))
        if turn.outcome is not None:
            self.recent.running.pop(turn.id, None)
            self.taken.discard(turn.id)
        elif step is not None or turn.owner in self.workers:
            self.recent.remember_step(turn, step)

    def remember_first_turn(self, new: NewSession, turn: Turn) -> None:
        """Remember a session that was created in the ledger together with its first turn."""
        count("turn_writes_ok")
        if turn.session_id == new.id:  # otherwise the request was a repeated one
            seed, state = _new_seed(new, turn.state_before)
            self.recent.remember_session(seed.session)
            self.recent.remember_state(seed.branch_id, state)
        self.remember_turn(turn)

    # --- continuing here ---

    def alone_on(self, name: str) -> asyncio.Lock:
        """Return the lock under which a branch is written or a session created, one operation at a time."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def on_branch(
        self,
        verb: str,
        branch_id: BranchId | None,
        direct: Callable[[], Awaitable[T]],
        here: Callable[[HeldBranch], Awaitable[T]],
        turn_id: TurnId = "",
    ) -> T:
        """Write to the ledger, or to the spool while the ledger is away or lacks something of the branch.

        The branch is named, or found by one of its turns.
        """
        branch_id = branch_id or await self._find_branch(turn_id)
        async with self.alone_on(branch_id or turn_id):
            held = None if branch_id is None else self._branches.get(branch_id)
            if turn_id in self.taken:
                return await direct()
            if held is None:
                try:
                    if verb in TAKE_MESSAGES:
                        await self.replay.run(before=branch_id)
                    done = await direct()
                except LedgerAway as away:
                    count("turn_writes_failed")
                    held = await self._hold(branch_id, verb, away)
                else:
                    count("turn_writes_ok")
                    return done
            if verb in TAKE_MESSAGES:
                held.show(self.replay.spooled(held.id))
            done = await here(held)
            level("spool_depth", self.depth)
            return done

    async def make_session(self, new: NewSession, known: Session | None = None) -> Session:
        """Spool a new session under ids of its own; one that is there already is returned as it is.

        ``known`` is the session of that id in the ledger, as far as that can be read or was seen.
        """
        check_new_session(new)
        if (there := self.session(new.id or "") or known) is not None:
            if (there.owner, there.kind) != (new.owner, new.kind) or new.external_id not in (None, there.external_id):
                raise AlreadyExists(f"There is a conversation {new.id} already, with different values.")
            return there
        new = replace(new, id=new.id or new_id(), branch_id=new.branch_id or new_id())
        await self.keep([new])
        seed, state = _new_seed(new)
        self.recent.remember_session(seed.session)
        self._begin(seed, state)
        level("spool_depth", self.depth)
        return seed.session

    async def keep(self, records: Sequence[Record]) -> None:
        """Append records to the spool durably. New messages are rejected if there is no room for their answers."""
        entries = [written(record) for record in records]
        if self._spool is None:
            self._spool = Spool(self.replay.folder, self.workers[-1] if self.workers else new_id())
            self.replay.own_name = self._spool.path.name
        size, most = self._spool.size, self._bounds.most_bytes
        running = sum(isinstance(item, ReplayedTurn) and item.end is None for item in self._spooled.turns.values())
        wanted = sum(len(body) for _, body in entries) + ROOM_TO_END * (1 + running)
        if size + wanted > most and not any(map(_goes_on, records)):
            used = f"{size:,} of {most:,} bytes are used"
            raise SpoolFull(f"The ledger is unavailable, and its spool {self._spool.path} is full: {used}.")
        await self._spool.append(entries)
        for record in records:
            self._spooled.add(record)
            if not isinstance(record, str):
                self._ids.add(record.id or "" if isinstance(record, NewSession) else id_of(record))

    def report(self, verb: str, away: LedgerAway, session_id: SessionId | None, user_id: str = "") -> None:
        """Log which write failed and for which user, without any message text."""
        session = self.recent.session(session_id)
        user_id = session.owner.user_id if session else user_id
        about = {"operation": verb, "session_id": session_id or "", "user_id": user_id, "error": away.message}
        described = " ".join(f"{name}={value}" for name, value in about.items())
        log.error("the ledger is unavailable: %s", described, extra=about)

    async def _hold(self, branch_id: BranchId | None, verb: str, away: LedgerAway) -> HeldBranch:
        """Continue with a branch here, from what can be read or was seen of it; ``LedgerAway`` if nothing is known."""
        seed = None
        if branch_id is not None:
            try:
                seed = await _read_seed(self.ledger, branch_id)
                self.recent.remember_session(seed.session)
            except LedgerAway:
                seed = self.recent.recall(branch_id)
        self.report(verb, away, seed.session.id if seed else None)
        if seed is None or seed.state is None:
            raise away
        return self._begin(seed, unexpired_state(seed.state, seed.session))

    def _begin(self, seed: Seed, state: State) -> HeldBranch:
        count("fallback_activations")
        held = HeldBranch(seed, state, self.recent, self.workers, self._spooled, self.keep)
        self._branches[held.id] = held
        self._on_away()
        return held

    async def _find_branch(self, turn_id: TurnId) -> BranchId | None:
        if (held := self.branch_of(turn_id)) is not None:
            return held.id
        if (running := self.recent.running.get(turn_id)) is not None:
            return running[0].branch_id
        turn = None
        with suppress(LedgerAway):
            turn = await self.ledger.turns.get(turn_id)
        return None if turn is None else turn.branch_id

    async def replay_all(self) -> None:
        """Write all that is spooled here to the ledger, and remove the spool."""
        async with self._replay_lock:
            await self.replay.run()
            for held in list(self._branches.values()):
                with suppress(BranchBusy, OutOfOrder):  # another process is answering on it: it lands later
                    async with self.alone_on(held.id):
                        await self._release(held)
            level("spool_depth", self.depth)
            if self.is_over and self._spool is not None:
                self.replay.finish(self._spool.path, self._ids)
                self._spool.close()
                self._spool, self._ids = None, set()

    async def _release(self, held: HeldBranch) -> None:
        """Use the ledger for a branch again, once it has all of it; ``BranchBusy`` or ``OutOfOrder`` if not yet."""
        items = Spooled(turns={turn_id: self._spooled.turns[turn_id] for turn_id in held.own}).in_order()
        turns = [await self.replay.write(item) for item in items]
        if not all(map(self.replay.is_replayed, items)):
            raise BranchBusy(f"Branch {held.id} has spooled turns that wait for a running one.")
        for turn, item in zip(turns, items, strict=True):
            if turn is not None:
                for step in item.steps if isinstance(item, ReplayedTurn) else ():
                    self.recent.remember_step(turn, step)
                self.remember_turn(turn)
            del self._spooled.turns[id_of(item)]
        count("turn_writes_ok", sum(turn is not None for turn in turns))
        del self._branches[held.id]

    def close(self) -> None:
        """Close the spool; the next process replays it."""
        if self._spool is not None:
            self._spool.close()


def _goes_on(record: Record) -> bool:
    """Return whether a record belongs to a turn that was acknowledged before."""
    return isinstance(record, str) or (isinstance(record, ReplayedTurn) and record.new is None)


async def _read_seed(ledger: Store, branch_id: BranchId) -> Seed:
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


def _new_seed(new: NewSession, root: StateId | None = None) -> tuple[Seed, State]:
    """Return the initial content of a new session."""
    moment, session_id, branch_id = now(), new.id or "", new.branch_id or ""
    names = ("owner", "kind", "external_id", "title", "system", "ttl_hours", "metadata")
    fields: dict[str, Any] = {name: getattr(new, name) for name in names}
    session = Session(id=session_id, active_branch=branch_id, created_at=moment, updated_at=moment, **fields)
    zeros: dict[str, Any] = dict.fromkeys(("state_seq", "turn_seq", "covers_turn_seq"), 0)
    root = root or new_id()
    state = State(id=root, session_id=session_id, branch_id=branch_id, reason="root", created_at=moment, **zeros)
    return Seed(branch_id=branch_id, session=session, state=state, last_seq=0), state
