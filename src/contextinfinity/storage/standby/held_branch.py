"""One branch that continues while the ledger is away.

Its turns are those of the ledger, as they were read or seen last, and the spooled ones after them. A verb checks the
rules that the ledger checks, appends to the spool, and only then changes what is shown. The spooled form of a turn
(``ReplayedTurn``) is complete: the turn and its steps are derived from it, and the ledger gets it later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, from_millis, new_id, now, to_millis
from contextinfinity.domain.message import Message, blobs_of
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Branch, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    UNFINISHED,
    UNSETTLED_PHASES,
    Exchange,
    NewStep,
    NewTurn,
    Phase,
    Problem,
    Step,
    StepEnd,
    Turn,
    TurnEnd,
    Usage,
)
from contextinfinity.errors import AlreadyExists, BranchBusy, LedgerAway, NotFound, QueueFull
from contextinfinity.storage.invariants import (
    check_exchanges,
    check_finalising,
    check_new_step,
    check_new_turn,
    check_owner,
    check_phase,
    check_turn_end,
    not_settled,
    rounds_of,
)
from contextinfinity.storage.ledger.prefix_hashes import branch_continued, not_on_branch
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.standby.recent import Recent, Seed
from contextinfinity.storage.standby.spool import Item, Record, Recorded, Spooled, id_of

ELSEWHERE = Problem(code="elsewhere", message="Another process was answering it when the ledger became unavailable.")

Keep = Callable[[Sequence[Record]], Awaitable[None]]


class HeldBranch:
    """A branch that continues here. ``keep`` makes new records durable; verbs are called one at a time."""

    def __init__(
        self, seed: Seed, state: State, recent: Recent, workers: Collection[WorkerId], spooled: Spooled, keep: Keep
    ) -> None:
        self.id: BranchId = seed.branch_id
        self.session: Session = seed.session
        self.state = state
        self.own: dict[TurnId, None] = {}
        """The turns of which this process spools something, in order."""
        self._spooled, self._keep = spooled, keep
        self._last_seq = max(seed.last_seq or 0, state.turn_seq, *(turn.turn_seq for turn in seed.turns))
        self._plans = {seed.turns[-1].id: seed.plan} if seed.turns else {}
        self.turns: dict[TurnId, Turn] = {}
        """All turns that are shown here, in order."""
        self._opened: dict[TurnId, tuple[NewStep, ...]] = {}
        """The steps that were opened in the ledger, of turns that this process answers."""
        self._others: dict[TurnId, Item] = {}
        """What other processes have spooled of the turns that are shown here."""
        for turn in seed.turns:
            if turn.id in recent.running:
                turn, self._opened[turn.id] = recent.running[turn.id]
            elif turn.phase in UNFINISHED and turn.owner not in workers:  # no events arrive for it meanwhile
                turn = replace(turn, phase=Phase.FAILED, outcome="failed", error=ELSEWHERE)
            self.turns[turn.id] = turn

    # --- reading ---

    def as_seed(self) -> Seed:
        """Return what is shown of the branch."""
        turns = tuple(self.turns.values())
        return Seed(branch_id=self.id, session=self.session, state=self.state, turns=turns, last_seq=self._last_seq)

    def branch(self) -> Branch:
        """Return the branch as far as it is known."""
        return Branch(
            id=self.id,
            session_id=self.session.id,
            base_state=self.state.id,
            head_state=self.state.id,
            head_seq=self.state.turn_seq,
            last_turn_seq=self._last_seq,
            created_at=self.session.created_at,
        )

    def steps(self, turn_id: TurnId, first: int = 0) -> tuple[Step, ...]:
        """Return the provider calls of a turn from that step_index on."""
        spooled, turn = self._spooled_turn(turn_id), self.turns[turn_id]
        asked = (*self._opened.get(turn_id, ()), *spooled.steps)
        ends = [step.closes for step in asked] + [None if spooled.end is None else spooled.end.step]
        ended = {end.step_id: end for end in ends if end is not None}
        return tuple(_step(turn, step, ended.get(step.id)) for step in asked if step.step_index >= first)

    def plan(self, turn_id: TurnId) -> Plan | None:
        """Return the plan of a turn's last request, or of its clarifying question."""
        if steps := self.steps(turn_id):
            return steps[-1].plan
        spooled = self._spooled_turn(turn_id)
        return self._plans.get(turn_id) if spooled.end is None else spooled.end.plan

    # --- writing ---

    def show(self, items: Iterable[Item]) -> None:
        """Append turns that other processes have spooled for this branch, so that the next prompt contains them.

        A turn that is not finished there is shown without an answer.
        """
        for item in items:
            if id_of(item) not in self.turns:
                self._others[id_of(item)] = item
                if isinstance(item, ReplayedTurn) and item.end is None:
                    item = replace(item, end=TurnEnd(outcome="failed", error=ELSEWHERE), failed=True)
                self._append(item)

    async def accept(self, new: NewTurn) -> Turn:
        """Spool a message; its idempotency key was looked up before."""
        check_new_turn(new)
        _refuse_blobs(new.message)
        if (there := self.turns.get(new.id or "")) is not None:
            if there.user_message != new.message:
                raise AlreadyExists(f"There is a turn {new.id} already, with another message.")
            return there
        follows = None if new.trail is None else new.trail.follows
        later = [turn for turn in self.turns.values() if follows is not None and turn.turn_seq > follows]
        newest = max(later, key=lambda turn: turn.turn_seq, default=None)
        if newest is not None and (newest.id != new.retry_of or newest.phase is not Phase.FAILED):
            raise branch_continued(self.id, follows or 0)
        if new.retry_of is not None and new.retry_of not in self.turns:
            raise not_on_branch(self.id, new.retry_of)
        waiting = [turn for turn in self.turns.values() if turn.phase is Phase.ACCEPTED]
        running = next((turn.id for turn in self.turns.values() if turn.phase in OPEN_PHASES), None)
        if new.queue_limit is not None and len(waiting) >= new.queue_limit:
            raise QueueFull(f"{len(waiting)} messages already wait on branch {self.id}.", running=running)
        turn_id = new.id or new_id()
        landed = replace(new, id=turn_id, queue_limit=None, begin=False)
        spooled = ReplayedTurn(turn_id=turn_id, new=landed, said_at=now())
        await self._keep([spooled])
        self.own[turn_id] = None
        turn = self._append(spooled)
        return self._begin(turn) if new.begin and running is None and not waiting else turn

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Accepted → ContextPrepared."""
        turn = self._owned(turn_id, owner, frozenset({Phase.ACCEPTED}))
        for other in self.turns.values():
            if other.phase in OPEN_PHASES or (other.phase is Phase.ACCEPTED and other.turn_seq < turn.turn_seq):
                raise BranchBusy(f"Turn {turn.turn_seq} waits: turn {other.turn_seq} of its branch is {other.phase}.")
        return self._begin(turn)

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """Spool a provider call that is about to be made."""
        check_new_step(step)
        self._owned(turn_id, owner, OPEN_PHASES)
        if any(step.step_index == other.step_index for other in self.steps(turn_id)):
            raise AlreadyExists(f"Turn {turn_id} has a step {step.step_index} already.")
        return await self._go_on(ReplayedTurn(turn_id=turn_id, steps=(step,)))

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """Spool a final answer."""
        check_turn_end(end)
        check_finalising(turn_id, self._owned(turn_id, owner, OPEN_PHASES).phase, end)
        return await self._go_on(ReplayedTurn(turn_id=turn_id, end=end))

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """Spool the end of a turn without a final answer."""
        check_turn_end(end)
        self._owned(turn_id, owner, UNFINISHED)
        return await self._go_on(ReplayedTurn(turn_id=turn_id, end=end, failed=True))

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Request cancellation of a turn; its owner is in this process."""
        if turn_id not in self.turns:
            raise NotFound(f"There is no turn {turn_id}.")
        if self.turns[turn_id].phase in UNFINISHED:
            self.turns[turn_id] = replace(self.turns[turn_id], cancel_requested=True)
        return self.turns[turn_id]

    async def record(self, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Spool turns that were finished elsewhere."""
        check_exchanges(exchanges)
        new = [Recorded(branch_id=self.id, exchange=each) for each in exchanges if each.id not in self.turns]
        for turn in self.turns.values() if new else ():
            if turn.phase in UNSETTLED_PHASES:
                raise not_settled(turn.turn_seq, turn.phase)
        for item in new:
            _refuse_blobs(item.exchange.message, item.exchange.answer)
        await self._keep(new)
        for item in new:
            self.own[id_of(item)] = None
            self._append(item)
        return tuple(self.turns[each.id or ""] for each in exchanges)

    def _spooled_turn(self, turn_id: TurnId) -> ReplayedTurn:
        item = self._spooled.turns.get(turn_id) or self._others.get(turn_id)
        return item if isinstance(item, ReplayedTurn) else ReplayedTurn(turn_id=turn_id)

    def _owned(self, turn_id: TurnId, owner: WorkerId, phases: frozenset[Phase]) -> Turn:
        if (turn := self.turns.get(turn_id)) is None:
            raise NotFound(f"There is no turn {turn_id}.")
        check_owner(turn_id, turn.owner, owner)
        check_phase(turn_id, turn.phase, phases)
        return turn

    def _begin(self, turn: Turn) -> Turn:
        """Mark a turn as begun. That is not spooled: after a crash it would not be answered either way."""
        self._spooled.add(ReplayedTurn(turn_id=turn.id, begun=True))
        self.own[turn.id] = None
        self.turns[turn.id] = turn = replace(turn, phase=Phase.CONTEXT_PREPARED, durability="local", updated_at=now())
        return turn

    async def _go_on(self, more: ReplayedTurn) -> Turn:
        await self._keep([more])
        self.own[more.turn_id] = None
        turn = replace(self.turns[more.turn_id], durability="local")
        for step in more.steps:
            turn = replace(turn, phase=Phase.RESPONDING, provider=step.provider, model=step.model_id, updated_at=now())
        self.turns[turn.id] = turn
        if more.end is not None:
            self.turns[turn.id] = turn = _ended(turn, more.end, self.steps(turn.id), failed=more.failed)
        return turn

    def _append(self, item: Item) -> Turn:
        """Show a spooled turn after all others."""
        self._last_seq += 1
        said = item.exchange if isinstance(item, Recorded) else item.new
        moment = item.exchange.created_at if isinstance(item, Recorded) else item.said_at
        if said is None:
            raise NotFound(f"There is no turn {id_of(item)}.")
        turn = Turn(
            id=id_of(item),
            session_id=self.session.id,
            branch_id=self.id,
            turn_seq=self._last_seq,
            phase=Phase.ACCEPTED,
            state_before=self.state.id,
            user_message=said.message,
            created_at=_milliseconds(moment),
            updated_at=now(),
            metadata=said.metadata,
            durability="local",
            has_place=False,
        )
        if isinstance(said, NewTurn):
            turn = replace(turn, owner=said.owner, retry_of=said.retry_of)
        else:
            outcome = None if said.answer is None else "completed"
            turn = replace(turn, phase=Phase.DONE, answer=said.answer, outcome=outcome, model=said.model)
        if isinstance(item, ReplayedTurn) and item.end is not None:
            turn = _ended(turn, item.end, (), failed=item.failed)
        self.turns[turn.id] = turn
        return turn


def _step(turn: Turn, step: NewStep, end: StepEnd | None) -> Step:
    fields = {name: getattr(step, name) for name in ("id", "step_index", "provider", "model_id", "plan", "inputs")}
    opened = Step(turn_id=turn.id, started_at=turn.updated_at, **fields)
    if end is None:
        return opened
    ended = {name: getattr(end, name) for name in end.__struct_fields__ if name != "step_id"}
    return replace(opened, ended_at=turn.updated_at, **ended)


def _ended(turn: Turn, end: TurnEnd, steps: Sequence[Step], *, failed: bool) -> Turn:
    return replace(
        turn,
        phase=Phase.FAILED if failed else Phase.RESPONSE_FINALIZED,
        answer=end.answer,
        outcome=end.outcome,
        error=end.error,
        rounds=rounds_of([(step.inputs, step.items) for step in steps]),
        usage=sum((step.usage for step in steps), start=Usage()),
        **end.notes(turn),
        updated_at=now(),
    )


def _milliseconds(moment: datetime | None) -> datetime:
    """Truncate a time to milliseconds, as the ledger stores it."""
    return now() if moment is None else from_millis(to_millis(moment))


def _refuse_blobs(*messages: Message | None) -> None:
    """Reject images, whose bytes only the ledger can store."""
    if any(blobs_of(message.blocks) for message in messages if message is not None):
        raise LedgerAway("The ledger is unavailable, and images cannot be stored without it.")
