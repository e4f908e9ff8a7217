"""The operations that behave differently while the ledger is unavailable.

``SPECIAL`` and the classes of ``OPERATIONS`` name them by resource. All others of a guarded resource raise
``LedgerAway`` at once while its circuit breaker is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId, new_id
from contextinfinity.domain.job import Job, JobType
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Branch, IdempotencyKey, NewSession, Owner, Removed, Session
from contextinfinity.domain.state import BranchTail, KnownTurns, State
from contextinfinity.domain.turn import Exchange, NewStep, NewTurn, Phase, Step, Turn, TurnEnd
from contextinfinity.domain.wire import text_hash
from contextinfinity.domain.worker import TakenOver, Worker
from contextinfinity.errors import LedgerAway, LedgerError, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.contents import Contents
from contextinfinity.storage.ledger.deletions import BATCH, Deletions
from contextinfinity.storage.ledger.jobs import Jobs
from contextinfinity.storage.ledger.sessions import Branches, Sessions
from contextinfinity.storage.ledger.states import States
from contextinfinity.storage.ledger.turns import FEW, Turns
from contextinfinity.storage.ledger.workers import Workers
from contextinfinity.storage.standby.held_branch import ELSEWHERE, HeldBranch
from contextinfinity.storage.standby.held_branches import HeldBranches
from contextinfinity.storage.standby.recent import Seed
from contextinfinity.storage.standby.spool import SUFFIX, is_left, names

T = TypeVar("T")
Resource = TypeVar("Resource")


class Operations(Generic[Resource]):
    """The operations of one resource; ``_ledger`` is the resource behind the breakers, ``_waiting`` the one before."""

    def __init__(self, held: HeldBranches, ledger: Resource, waiting: Resource, standby: Store) -> None:
        self._held = held
        self._ledger = ledger
        self._waiting = waiting
        self._standby = standby

    def installed(self, special: Mapping[str, Sequence[str]]) -> Resource:
        """Return the resource with these operations; ``special`` names those that have a method for all of a kind."""
        resource = copy(self._ledger)
        for kind, verbs in special.items():
            for verb in verbs:
                setattr(resource, verb, partial(getattr(self, kind), verb))
        for verb in vars(type(self)):
            if not verb.startswith("_"):
                setattr(resource, verb, getattr(self, verb))
        return resource

    async def _landed(self, verb: str, named: Any, *given: Any, **more: Any) -> Any:
        """Wait for the ledger, which needs everything that any process has spooled: a fork would lack spooled turns."""
        await self._land(getattr(named, "branch_id", named))
        return await getattr(self._waiting, verb)(named, *given, **more)

    async def _land(self, name: BranchId | SessionId | TurnId) -> None:
        """Write all spools to the ledger; ``LedgerAway`` while it lacks something of a branch or session."""
        await self._held.replay_all()
        self._held.refuse_held(name)

    async def _waited_for(self, verb: str, *given: Any, **named: Any) -> Any:
        """Wait for the ledger: nothing replaces this."""
        return await getattr(self._waiting, verb)(*given, **named)

    async def _replayed(self, verb: str, *given: Any, **named: Any) -> Any:
        """Replay the spools first, if that is possible: what a request continues may be in one of them."""
        with suppress(LedgerError):
            await self._held.replay.run()
        return await getattr(self._ledger, verb)(*given, **named)

    async def _optional(self, verb: str, *given: Any) -> Any:
        """Return None for what cannot be read now."""
        with suppress(LedgerAway):
            return await getattr(self._ledger, verb)(*given)

    async def _replay_for(self, once: IdempotencyKey | None) -> None:
        """Write all spools to the ledger before a request with an idempotency key: one of them may hold the first."""
        if once is not None:
            await self._held.replay.run()

    async def _made_by(self, once: IdempotencyKey | None) -> TurnId | SessionId | None:
        """Return the id of what the request with this idempotency key made, here or in any process, as far as known."""
        if once is None:
            return None
        try:
            made = await self._held.ledger.sessions.requested(once)
        except LedgerAway:
            made = self._held.recent.requested(once)
        return made or self._held.replay.requested(once)

    async def _find(self, what: str, ask: Callable[[], Awaitable[T | None]]) -> T | None:
        """Read something; if the ledger does not have it, read again after the spools of all processes are in it."""
        found = await ask()
        return await self._find_replayed(what, ask) if found is None else found

    async def _find_replayed(self, what: str, ask: Callable[[], Awaitable[T | None]]) -> T | None:
        """Read something that the ledger does not have, after the spools of all processes are in it."""
        try:
            await self._held.replay.run()
        except LedgerError as error:
            raise LedgerAway(f"{what} is not in the ledger; another process may be holding it.") from error
        return await ask()

    async def _read_branch(self, branch_id: BranchId, ask: Callable[[], Awaitable[T]], known: Callable[[Seed], T]) -> T:
        """Read of a branch: what is shown here if it continues here, else the ledger, else what was seen of it last."""
        if (held := self._held.branch(branch_id)) is not None:
            return known(held.as_seed())
        try:
            return await ask()
        except LedgerAway:
            if (seed := self._held.recent.recall(branch_id)) is not None:
                with suppress(LedgerAway):
                    return known(seed)
            raise

    def _remember(self, branch_id: BranchId, turns: Sequence[Turn] = (), state: State | None = None) -> None:
        """Remember what was read of a branch, unless it continues here."""
        if self._held.branch(branch_id) is None:
            self._held.recent.remember_turns(branch_id, turns)
            if state is not None:
                self._held.recent.remember_state(branch_id, state)

    async def _know_head(self, branch_id: BranchId) -> None:
        """Read the head of a branch once: without it the branch could not continue when nothing can be read."""
        if self._held.branch(branch_id) is None and not self._held.recent.knows_head(branch_id):
            with suppress(LedgerError, NotFound):
                self._held.recent.remember_state(branch_id, await self._held.ledger.states.head(branch_id))


class SessionOperations(Operations[Sessions]):
    """Known sessions are found, new ones are spooled."""

    async def create(self, new: NewSession) -> Session:
        """Create a session, in the spool during an outage. Its id identifies a commit that was not acknowledged."""
        session_id = new_id() if new.id is None else new.id
        new = replace(new, id=session_id, branch_id=new.branch_id or new_id())
        async with self._held.alone_on(session_id):
            if self._held.holds(session_id):
                return await self._held.make_session(new)
            try:
                await self._replay_for(new.once)
                session = await self._ledger.create(new)
            except LedgerAway as away:
                self._held.report("create_session", away, session_id, new.owner.user_id)
                there = None
                if (made := await self._made_by(new.once)) is not None:
                    there = await self.get(made)
                    if there is not None:
                        return there
                with suppress(LedgerAway):  # as far as sessions can be read or were seen
                    there = await self.get(session_id)
                session = await self._held.make_session(new, there)
                self._held.recent.remember_request(new.once, session.id)
                return session
        self._held.recent.remember_session(session)
        self._held.recent.remember_request(new.once, session.id)
        await self._know_head(session.active_branch)
        return session

    async def get(self, session_id: SessionId) -> Session | None:
        """Read one; a session that got another id when it was written to the ledger is found by both."""
        if (held := self._held.session(session_id)) is not None:
            return held
        moved, recent = self._held.replay.moved.get(session_id, session_id), self._held.recent

        async def ask() -> Session | None:
            return await self._ledger.get(session_id) or (
                None if moved == session_id else await self._ledger.get(moved)
            )

        try:
            found = await ask()
        except LedgerAway as away:
            self._held.report("get_session", away, session_id)
            if (seen := recent.session(session_id) or recent.session(moved)) is None:
                raise
            return seen
        if found is None:  # another process may have deleted it, or may hold it
            recent.forget(session_id)
            found = await self._find_replayed(f"Thread {session_id}", ask)
        if found is not None:
            recent.remember_session(found)
        return found

    async def find(self, owner: Owner, external_id: str) -> Session | None:
        """Return the owner's session with that external id; during an outage an unseen one is regarded as new."""
        if (held := self._held.session_named(owner, external_id)) is not None:
            return held
        try:
            found = await self._find(f"Thread {external_id}", lambda: self._ledger.find(owner, external_id))
        except LedgerAway as away:
            found = self._held.recent.named(owner, external_id)
            self._held.report("find_session", away, external_id if found is None else found.id, owner.user_id)
        if found is not None:
            self._held.recent.remember_session(found)
        return found


class BranchOperations(Operations[Branches]):
    """Branches that continue here are known."""

    async def get(self, branch_id: BranchId) -> Branch | None:
        """Read one."""
        held = self._held.branch(branch_id)
        return await self._ledger.get(branch_id) if held is None else held.branch()


class StateOperations(Operations[States]):
    """A branch continues from the head that was seen last."""

    async def head(self, branch_id: BranchId) -> State:
        """Read the branch's head."""
        state = await self._read_branch(branch_id, lambda: self._ledger.head(branch_id), Seed.head)
        self._remember(branch_id, state=state)
        return state


class TurnOperations(Operations[Turns]):
    """What is said and answered is spooled while the ledger is away."""

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0. The turn's id identifies a commit that was not acknowledged."""
        named = new if new.id is not None else replace(new, id=new_id())
        if (creates := named.creates) is not None:
            try:
                await self._replay_for(named.once)
                turn = await self._ledger.accept(named)
            except LedgerAway:
                if (made := await self._requested(named.once)) is not None:
                    return made
                session = await self._standby.sessions.create(creates)
                named = replace(named, branch_id=session.active_branch, creates=None)
            else:
                self._held.recent.remember_request(named.once, turn.id)
                self._held.remember_first_turn(creates, turn)
                return turn

        async def direct() -> Turn:
            turn = await self._seen(self._ledger.accept(named))
            self._held.recent.remember_request(named.once, turn.id)
            return turn

        async def here(held: HeldBranch) -> Turn:
            turn = await self._requested(named.once) or await held.accept(named)
            self._held.recent.remember_request(named.once, turn.id)
            return turn

        return await self._held.on_branch("accept", named.branch_id, direct, here)

    async def _requested(self, once: IdempotencyKey | None) -> Turn | None:
        """Return the turn of a request that is repeated; ``LedgerAway`` if only another process knows how it is."""
        turn_id = await self._made_by(once)
        return None if turn_id is None else await self.get(turn_id)

    async def record(self, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append turns that were finished elsewhere."""
        named = [each if each.id is not None else replace(each, id=new_id()) for each in exchanges]

        async def direct() -> tuple[Turn, ...]:
            turns = await self._ledger.record(branch_id, named)
            self._held.recent.remember_turns(branch_id, turns)
            await self._know_head(branch_id)
            return turns

        return await self._held.on_branch("record", branch_id, direct, lambda held: held.record(named))

    async def _of_turn(self, verb: str, turn_id: TurnId, *given: Any) -> Turn:
        step = given[1] if verb == "open_step" else None

        def direct() -> Awaitable[Turn]:
            return self._seen(getattr(self._ledger, verb)(turn_id, *given), step)

        def here(held: HeldBranch) -> Awaitable[Turn]:
            done: Awaitable[Turn] = getattr(held, verb)(turn_id, *given)
            return done

        return await self._held.on_branch(verb, None, direct, here, turn_id)

    async def finalise_and_claim(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> tuple[Turn, Job | None]:
        """TX-A, and claim the job that commits the turn; what is spooled has no job before it is in the ledger."""

        async def direct() -> tuple[Turn, Job | None]:
            turn, job = await self._ledger.finalise_and_claim(turn_id, owner, end)
            self._held.remember_turn(turn)
            return turn, job

        async def here(held: HeldBranch) -> tuple[Turn, Job | None]:
            return await held.finalise(turn_id, owner, end), None

        return await self._held.on_branch("finalise", None, direct, here, turn_id)

    async def _seen(self, asked: Awaitable[Turn], step: NewStep | None = None) -> Turn:
        turn = await asked
        self._held.remember_turn(turn, step)
        return turn

    async def get(self, turn_id: TurnId) -> Turn | None:
        """Read one. A turn that another process answers is not shown as it was when this one lost the ledger."""
        held = self._held.branch_of(turn_id)
        if held is not None and held.turns[turn_id].error != ELSEWHERE:
            return held.turns[turn_id]
        try:
            return await self._find(f"Turn {turn_id}", lambda: self._ledger.get(turn_id))
        except LedgerAway:
            if (running := self._held.recent.running.get(turn_id)) is None or not self._held.reads.is_open:
                raise
            return running[0]

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Read the newest turns of the lineage, as far as they are known here while the ledger cannot be read.

        What other processes have spooled is written to the ledger first, if that is possible.
        """
        with suppress(LedgerError):
            await self._held.replay.run()
        turns = await self._read_branch(
            branch_id,
            lambda: self._ledger.history(branch_id, limit=limit, before=before),
            lambda seed: seed.history(limit, before),
        )
        self._remember(branch_id, turns=turns)
        await self._know_head(branch_id)
        return turns

    async def tail(
        self, branch_id: BranchId, *, before: int, after: int | None = None, known: KnownTurns | None = None
    ) -> BranchTail:
        """Read the head and the newest turns, as far as they are known here while the ledger cannot be read."""

        def seen(seed: Seed) -> BranchTail:
            state = seed.head()
            begin = state.covers_turn_seq if after is None else after
            turns = seed.history(FEW, before) if before > 1 else ()
            return BranchTail(state=state, turns=tuple(turn for turn in turns if turn.turn_seq > begin))

        tail = await self._read_branch(
            branch_id, lambda: self._ledger.tail(branch_id, before=before, after=after, known=known), seen
        )
        self._remember(branch_id, tail.turns, tail.state)
        return tail

    async def steps(self, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
        """Read a turn's provider calls."""

        def from_held(held: HeldBranch) -> tuple[Step, ...]:
            found = held.steps(turn_id, first)
            if not found and not first and held.turns[turn_id].phase is Phase.RESPONDING:  # recovery needs its step
                raise LedgerAway(f"The steps of turn {turn_id} are unknown while the ledger cannot be read.")
            return found

        return await self._read_of(turn_id, from_held, lambda: self._ledger.steps(turn_id, first=first))

    async def plan(self, turn_id: TurnId) -> Plan | None:
        """Return the plan of a turn's last request."""
        return await self._read_of(turn_id, lambda held: held.plan(turn_id), lambda: self._ledger.plan(turn_id))

    async def _read_of(
        self, turn_id: TurnId, from_held: Callable[[HeldBranch], T], ask: Callable[[], Awaitable[T]]
    ) -> T:
        """Read of a turn from the ledger; from its held branch where the ledger does not have it or cannot be read."""
        held = self._held.branch_of(turn_id)
        if held is None:
            return await ask()
        if turn_id not in held.own:
            with suppress(LedgerAway):
                return await ask() or from_held(held)
        return from_held(held)


class ContentOperations(Operations[Contents]):
    """Texts are spooled, images are not."""

    async def keep_text(self, body: str) -> str:
        """Keep a text and return its hash."""
        try:
            return await self._ledger.keep_text(body)
        except LedgerAway:
            await self._held.keep([body])
            return text_hash(body).hex()


class JobOperations(Operations[Jobs]):
    """A job of a branch that continues here is enqueued again after the branch's next turn."""

    async def enqueue(
        self, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None = None, *, after: timedelta = timedelta()
    ) -> Job:
        """Enqueue a job."""
        self._held.refuse_held(branch_id)
        return await self._ledger.enqueue(job_type, branch_id, turn_id, after=after)


class WorkerOperations(Operations[Workers]):
    """A dead worker is taken over after its spool was replayed.

    A live worker without heartbeats, because the ledger was unavailable, keeps its turns while its spool is locked.
    """

    async def enter(self) -> Worker:
        """Register this process as a worker; waits for the ledger."""
        worker = await self._waiting.enter()
        self._held.workers.append(worker.id)
        return worker

    async def leave(self, worker: WorkerId) -> None:
        """Unregister a worker, unless its spool is not empty: then the next process takes it over."""
        if self._held.is_over:
            await self._ledger.leave(worker)

    async def dead(self) -> tuple[WorkerId, ...]:
        """Return dead workers and those with a left-over spool; none while the ledger cannot be read."""
        try:
            return tuple(sorted({*await self._ledger.dead(), *left_spools(self._held)}))
        except LedgerAway:
            return ()

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead once its spool is in the ledger; until then take over what it was interrupted in."""
        if dead not in self._held.workers and not await self._held.replay.retire(dead):
            taken = TakenOver(turns=await self._held.replay.take_interrupted(dead, by), jobs=0)
        else:
            taken = await self._waiting.take_over(dead, by=by)
        for turn_id in taken.turns:
            if (held := self._held.branch_of(turn_id)) is None or turn_id not in held.own:
                self._held.taken.add(turn_id)
        return taken


def left_spools(held: HeldBranches) -> list[str]:
    """Name the spools of processes that have ended."""
    folder = held.replay.folder
    others = (name for name in names(folder) if name not in held.workers)
    return [name for name in others if is_left(folder / f"{name}{SUFFIX}")]


class DeletionOperations(Operations[Deletions]):
    """Deletions are never spooled; turns that were replayed after them would be lost."""

    async def is_due(self, session_id: SessionId) -> bool:
        """Return whether something has to be deleted; where nothing ever expires, without the ledger."""
        return await self._unless_kept(session_id, lambda: self._ledger.is_due(session_id), nothing=False)

    async def begin(self, session_id: SessionId) -> None:
        """Write the intent to delete a session, once all that any process has spooled of it is in the ledger."""
        await self._land(session_id)
        await self._ledger.begin(session_id)
        self._held.recent.forget(session_id)

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past their time to live; where nothing ever is, without the ledger."""

        async def expire() -> Removed:
            await self._land(session_id)
            return await self._ledger.expire(session_id, limit=limit)

        removed = await self._unless_kept(session_id, expire, nothing=Removed())
        if removed.sessions:
            self._held.recent.forget(session_id)
        elif removed.turns:
            self._held.recent.forget_turns(session_id)
        return removed

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it."""
        await self._land(session_id)
        removed = await self._ledger.delete(session_id, limit=limit)
        self._held.recent.forget(session_id)
        return removed

    async def delete_turn(self, turn_id: TurnId) -> Removed:
        """Delete one turn, once all that any process has spooled is in the ledger."""
        await self._land(turn_id)
        turn = await self._held.ledger.turns.get(turn_id)
        removed = await self._ledger.delete_turn(turn_id)
        if turn is not None:
            self._held.recent.forget_turns(turn.session_id)
        return removed

    async def _unless_kept(self, session_id: SessionId, ask: Callable[[], Awaitable[T]], *, nothing: T) -> T:
        """Ask the ledger, unless the session has no time to live and is held or the ledger cannot be asked."""
        held, seen = self._held.session(session_id), self._held.recent.session(session_id)
        if held is not None and held.ttl_hours is None:
            return nothing
        try:
            return await ask()
        except LedgerAway:
            if seen is None or seen.ttl_hours is not None:
                raise
            return nothing


SPECIAL: dict[str, dict[str, tuple[str, ...]]] = {
    "sessions": {"_landed": ("rename", "retain", "note", "activate")},
    "branches": {"_landed": ("fork", "rollback")},
    "turns": {"_of_turn": ("prepare", "open_step", "finalise", "fail", "cancel"), "_waited_for": ("log",)},
    "states": {"_landed": ("pin", "unpin", "fold", "unfold", "propose"), "_waited_for": ("commit",)},
    "contents": {"_optional": ("text", "blob"), "_waited_for": ("keep_blob",)},
    "imports": {"_landed": ("add", "add_turns")},
    "prefix_hashes": {"_replayed": ("end", "walked")},  # the first look-up for a request with a history, or a key
}
"""The operations that share a method, by resource and method."""

OPERATIONS: dict[str, type[Operations[Any]]] = {
    "sessions": SessionOperations,
    "branches": BranchOperations,
    "turns": TurnOperations,
    "states": StateOperations,
    "contents": ContentOperations,
    "jobs": JobOperations,
    "workers": WorkerOperations,
    "imports": Operations,
    "prefix_hashes": Operations,
    "deletions": DeletionOperations,
}


def away_operations(held: HeldBranches, name: str, ledger: Store, standby: Store) -> Any:
    """Return a resource of the ledger as it is used, and reacts during an outage."""
    guarded = getattr(held.ledger, name)
    if name not in OPERATIONS:
        return guarded
    return OPERATIONS[name](held, guarded, getattr(ledger, name), standby).installed(SPECIAL.get(name, {}))
