"""The verbs of the ledger that go on without it: those a turn is answered with.

Everything else is asked of the ledger itself, as ever, and fails as it fails there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId, new_id
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Branch, NewSession, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Exchange, NewStep, NewTurn, Step, Turn, TurnEnd
from contextinfinity.domain.wire import text_hash
from contextinfinity.domain.work import Job, JobType, TakenOver, Worker
from contextinfinity.errors import AlreadyExists, LedgerAway, LedgerError, NotFound
from contextinfinity.storage.standby.holding import Holding
from contextinfinity.storage.standby.landing import Lander, land_left_by
from contextinfinity.storage.standby.spool import is_left, waiting

if TYPE_CHECKING:
    from contextinfinity.storage.standby.branch import HeldBranch

log = logging.getLogger(__name__)
T = TypeVar("T")
Here: TypeAlias = "Callable[[HeldBranch], Awaitable[Turn]]"


class Noun:
    """A noun of the ledger, some of whose verbs go on without it; the others are the ledger's own.

    For ``hurried`` ones nobody waits while the ledger is away: ``LedgerAway`` comes at once.
    """

    hurried: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, holding: Holding, ledgers: Any) -> None:
        self._holding = holding
        self._ledgers = ledgers

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ledgers, name)
        if name not in self.hurried:
            return verb

        async def hurried(*given: Any, **named: Any) -> Any:
            return await self._holding.writes.through(lambda: verb(*given, **named))

        return hurried

    async def _read(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await self._holding.reads.through(ask)

    async def _after_replay(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Look again for something that is not in the ledger, after the spools of all processes are in it."""
        try:
            await self._holding.replay.run()
        except LedgerError as error:
            raise LedgerAway(f"{what} is not in the ledger; another process may be holding it.") from error
        return await self._read(ask)

    async def _know_head(self, branch_id: BranchId) -> None:
        """See the head of a branch once: without it the branch could not go on here when nothing can be read."""
        if not self._holding.memory.knows_head(branch_id):
            with suppress(LedgerError, NotFound):
                state = await self._read(lambda: self._holding.ledger.states.head(branch_id))
                self._holding.memory.see_state(state, branch_id)


class StandbySessions(Noun):
    """``Sessions``: known ones are found, new ones are made."""

    async def create(self, new: NewSession) -> Session:
        """Make a session; while the ledger is away it is held."""
        session_id = new_id() if new.id is None else new.id
        new = replace(new, id=session_id)
        async with self._holding.alone_on(session_id):
            if self._holding.holds(session_id):
                return await self._holding.make_session(new)
            try:
                session: Session = await self._holding.writes.through(lambda: self._ledgers.create(new))
            except LedgerAway as away:
                self._holding.report("create_session", away, session_id, new.owner.user_id)
                await self._check_free(session_id, new.owner)
                return await self._holding.make_session(new)
        self._holding.memory.see_session(session)
        await self._know_head(session.active_branch)
        return session

    async def _check_free(self, session_id: SessionId, owner: Owner) -> None:
        """Raise ``AlreadyExists`` for another owner's session, as far as sessions can be read or were seen."""
        with suppress(LedgerAway):
            there = await self.get(session_id)
            if there is not None and there.owner != owner:
                raise AlreadyExists(f"There is a session {session_id} already, and it is another one.")

    async def get(self, session_id: SessionId) -> Session | None:
        """Read one."""
        moved = self._holding.lander.moved

        def ask() -> Awaitable[Session | None]:
            found: Awaitable[Session | None] = self._ledgers.get(moved.get(session_id, session_id))
            return found

        if (held := self._holding.session(moved.get(session_id, session_id))) is not None:
            return held
        try:
            there = self._seen(await self._read(ask))
        except LedgerAway as away:
            self._holding.report("get_session", away, session_id)
            if (seen := self._holding.memory.session(moved.get(session_id, session_id))) is None:
                raise
            return seen
        if there is None:  # another process may have deleted it, or may hold it
            self._holding.memory.forget(session_id)
            there = self._seen(await self._after_replay(f"Thread {session_id}", ask))
        return there

    async def find(self, owner: Owner, external_id: str) -> Session | None:
        """Read the owner's session of that name; one that was never seen is taken for new while nothing can be read."""
        if (held := self._holding.session_named(owner, external_id)) is not None:
            return held

        def ask() -> Awaitable[Session | None]:
            found: Awaitable[Session | None] = self._ledgers.find(owner, external_id)
            return found

        try:
            return self._seen(await self._read(ask) or await self._after_replay(f"Thread {external_id}", ask))
        except LedgerAway as away:
            seen = self._holding.memory.named(owner, external_id)
            self._holding.report("find_session", away, external_id if seen is None else seen.id, owner.user_id)
            return seen

    def _seen(self, session: Session | None) -> Session | None:
        if session is not None:
            self._holding.memory.see_session(session)
        return session


class StandbyBranches(Noun):
    """``Branches``: those that go on here are known."""

    async def get(self, branch_id: BranchId) -> Branch | None:
        """Read one."""
        if (held := self._holding.branch(branch_id)) is not None:
            return await held.store.branches.get(branch_id)
        found: Branch | None = await self._read(lambda: self._ledgers.get(branch_id))
        return found


class StandbyStates(Noun):
    """``States``: a branch goes on from the head that was seen last."""

    async def head(self, branch_id: BranchId) -> State:
        """Read the branch's head."""
        if (held := self._holding.branch(branch_id)) is not None:
            return await held.store.states.head(branch_id)
        try:
            state: State = await self._read(lambda: self._ledgers.head(branch_id))
        except LedgerAway:
            if (seen := self._holding.memory.state(branch_id)) is None:
                raise
            return seen
        self._holding.memory.see_state(state, branch_id)
        return state


class StandbyTurns(Noun):
    """``Turns``: what is said and answered is held until the ledger has it."""

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0, here or there."""
        # With an id, a commit that came through unheard is found again.
        named = new if new.id is not None else replace(new, id=new_id())

        async def direct() -> Turn:
            return self._seen(await self._ledgers.accept(named))

        return await self._holding.on_branch("accept", new.branch_id, direct, lambda held: held.accept(named))

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Accepted → ContextPrepared."""

        async def direct() -> Turn:
            return self._seen(await self._ledgers.prepare(turn_id, owner))

        return await self._on_turn("prepare", turn_id, direct, lambda held: held.prepare(turn_id, owner))

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """TX-P, here or there."""

        async def direct() -> Turn:
            turn: Turn = await self._ledgers.open_step(turn_id, owner, step)
            self._holding.memory.see_step(turn, step)
            return turn

        return await self._on_turn("open_step", turn_id, direct, lambda held: held.open_step(turn_id, owner, step))

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """TX-A, here or there."""

        async def direct() -> Turn:
            return self._seen(await self._ledgers.finalise(turn_id, owner, end))

        return await self._on_turn("finalise", turn_id, direct, lambda held: held.finalise(turn_id, owner, end))

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """End a turn before its answer was final."""

        async def direct() -> Turn:
            return self._seen(await self._ledgers.fail(turn_id, owner, end))

        return await self._on_turn("fail", turn_id, direct, lambda held: held.fail(turn_id, owner, end))

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Ask the turn's owner to stop."""
        return await self._on_turn(
            "cancel", turn_id, lambda: self._ledgers.cancel(turn_id), lambda held: held.cancel(turn_id)
        )

    async def record(self, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append turns that were finished elsewhere."""
        named = [each if each.id is not None else replace(each, id=new_id()) for each in exchanges]

        async def direct() -> tuple[Turn, ...]:
            turns: tuple[Turn, ...] = await self._ledgers.record(branch_id, named)
            await self._see(branch_id, turns)
            return turns

        return await self._holding.on_branch("record", branch_id, direct, lambda held: held.record(named))

    async def get(self, turn_id: TurnId) -> Turn | None:
        """Read one."""
        if (held := self._holding.branch_of(turn_id)) is not None:
            turn = await held.store.turns.get(turn_id)
            return None if turn is None else held.shown(turn)
        try:
            found: Turn | None = await self._read(lambda: self._ledgers.get(turn_id))
        except LedgerAway:
            if (running := self._holding.memory.running.get(turn_id)) is None:
                raise
            return running[0]
        if found is None:
            found = await self._after_replay(f"Turn {turn_id}", lambda: self._ledgers.get(turn_id))
        return found

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Read the newest turns of the lineage, as far as they are known here while the ledger cannot be read."""
        if (held := self._holding.branch(branch_id)) is not None:
            turns = await held.store.turns.history(branch_id, limit=limit, before=before)
            return tuple(map(held.shown, turns))
        try:
            read: tuple[Turn, ...] = await self._read(
                lambda: self._ledgers.history(branch_id, limit=limit, before=before)
            )
        except LedgerAway:
            if (seen := self._holding.memory.history(branch_id, limit, before)) is None:
                raise
            return seen
        await self._see(branch_id, read)
        return read

    async def steps(self, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
        """Read a turn's provider calls."""
        if (held := self._holding.branch_of(turn_id)) is not None:
            return await held.store.turns.steps(turn_id, first=first)
        steps: tuple[Step, ...] = await self._read(lambda: self._ledgers.steps(turn_id, first=first))
        return steps

    async def plan(self, turn_id: TurnId) -> Plan | None:
        """Read the account of a turn's last request."""
        if (held := self._holding.branch_of(turn_id)) is not None:
            return await held.store.turns.plan(turn_id)
        plan: Plan | None = await self._read(lambda: self._ledgers.plan(turn_id))
        return plan

    async def _see(self, branch_id: BranchId, turns: Sequence[Turn]) -> None:
        self._holding.memory.see_turns(branch_id, turns)
        await self._know_head(branch_id)

    def _seen(self, turn: Turn) -> Turn:
        self._holding.see(turn)
        return turn

    async def _on_turn(
        self, operation: str, turn_id: TurnId, direct: Callable[[], Awaitable[Turn]], here: Here
    ) -> Turn:
        return await self._holding.on_branch(operation, None, direct, here, turn_id)


class StandbyContents(Noun):
    """``Contents``: texts are held, pictures are not."""

    async def keep_text(self, body: str) -> str:
        """Keep a text and give its hash."""
        try:
            kept: str = await self._holding.writes.through(lambda: self._ledgers.keep_text(body))
        except LedgerAway:
            await self._holding.keep_text(body)
            return text_hash(body).hex()
        return kept

    async def text(self, sha256: str) -> str | None:
        """Read a text; None for one that cannot be read now."""
        try:
            found: str | None = await self._read(lambda: self._ledgers.text(sha256))
        except LedgerAway:
            return None
        return found

    async def blob(self, sha256: str) -> tuple[bytes, str] | None:
        """Read a picture; None for one that cannot be read now."""
        try:
            found: tuple[bytes, str] | None = await self._read(lambda: self._ledgers.blob(sha256))
        except LedgerAway:
            return None
        return found


class StandbyJobs(Noun):
    """``Jobs``: neither who answers nor who works behind the answers waits for a ledger that is away."""

    hurried = frozenset({"claim", "complete", "release", "retry", "give_up"})

    async def enqueue(
        self, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None = None, *, after: timedelta = timedelta()
    ) -> Job:
        """Ask for a job; ``LedgerAway`` for a branch that goes on here: it is asked for again after the next turn."""
        if self._holding.branch(branch_id) is not None:
            raise LedgerAway(f"Branch {branch_id} is not in the ledger as it is.")
        job: Job = await self._holding.writes.through(
            lambda: self._ledgers.enqueue(job_type, branch_id, turn_id, after=after)
        )
        return job

    async def list(self, *, limit: int = 50, branch_id: BranchId | None = None) -> tuple[Job, ...]:
        """Read the jobs there are."""
        jobs: tuple[Job, ...] = await self._read(lambda: self._ledgers.list(limit=limit, branch_id=branch_id))
        return jobs


class StandbyWorkers(Noun):
    """``Workers``: whoever takes over from a dead worker lands its spool first.

    A worker that is not dead but was not heard of, since the ledger was away, keeps what its spool holds.
    """

    hurried = frozenset({"beat"})

    async def enter(self) -> Worker:
        """Register this process as a worker."""
        worker: Worker = await self._ledgers.enter()
        self._holding.workers.append(worker.id)
        return worker

    async def leave(self, worker: WorkerId) -> None:
        """Say goodbye; with something left to land, stay registered, so that it is found."""
        if self._holding.is_over:
            await self._holding.writes.through(lambda: self._ledgers.leave(worker))

    async def dead(self) -> tuple[WorkerId, ...]:
        """Name the workers known to be dead, and those of whom only a spool is left; none while nothing can be read."""
        try:
            dead = await self._read(self._ledgers.dead)
        except LedgerAway:
            return ()
        return tuple(sorted({*dead, *filter(self._is_left, waiting(self._holding.folder))}))

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead, once what it held is in the ledger; until then it is taken nothing."""
        if dead not in self._holding.workers and not await self._landed(dead):
            return TakenOver(turns=(), jobs=0)
        taken: TakenOver = await self._ledgers.take_over(dead, by=by)
        return taken

    async def land_left(self) -> None:
        """Land the spools of which nobody is left; their workers are left to those who can finish their turns."""
        for name in filter(self._is_left, waiting(self._holding.folder)):
            await self._landed(name)

    async def _landed(self, name: WorkerId) -> bool:
        try:
            await self._holding.replay.run()  # turns of several spools are written in the order of their acceptance
        except LedgerError as error:
            log.info("the spool %s has to wait: %s", name, error)
            return False
        lander = Lander(self._holding.ledger, self._holding.writes, self._holding.lander.moved)
        return await land_left_by(lander, self._holding.folder, name)

    def _is_left(self, name: WorkerId) -> bool:
        """Tell whether nobody holds a spool."""
        return name not in self._holding.workers and is_left(self._holding.folder, name)
