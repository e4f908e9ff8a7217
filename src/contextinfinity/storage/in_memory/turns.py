"""Messages and their answers, in memory: one function a transition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, from_millis, new_id, now, to_millis
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Branch
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    UNFINISHED,
    Exchange,
    NewStep,
    NewTurn,
    Phase,
    Step,
    StepEnd,
    Turn,
    TurnEnd,
    Usage,
)
from contextinfinity.errors import AlreadyExists, BranchBusy, NotFound, QueueFull, WrongPhase
from contextinfinity.storage.idempotency import check_same_request
from contextinfinity.storage.in_memory.contents import check_blobs
from contextinfinity.storage.in_memory.jobs import enqueue, refuse_dead
from contextinfinity.storage.in_memory.states import append, next_state
from contextinfinity.storage.in_memory.tables import Tables, check_text, waiting
from contextinfinity.storage.in_memory.trails import check_place, note_answered, note_asked, note_recorded
from contextinfinity.storage.rules import (
    can_be_answered,
    check_exchanges,
    check_finalising,
    check_new_step,
    check_new_turn,
    check_owner,
    check_phase,
    check_turn_end,
    end_place,
    not_settled,
    rounds_of,
    row_limit,
)


class InMemoryTurns:
    """The ``Turns`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0: the turn, its message and its place in the branch become durable together."""
        check_new_turn(new)
        check_text(new)
        with self._tables.transaction() as tables:
            branch = tables.branch(new.branch_id)
            if new.once is not None and new.once.key in tables.requests:
                asked, made = tables.requests[new.once.key]
                check_same_request(new.once, asked)
                return tables.turns[made]
            if new.id in tables.turns:
                return _accepted_already(tables.turns[new.id], new)
            refuse_dead(tables, new.owner)
            check_queue(tables, new)
            shown = check_blobs(tables, new.message)
            check_place(tables, new)
            turn = accepted_turn(branch, new)
            append_turns(tables, branch, (turn,))
            note_asked(tables, turn, new.trail)
            tables.blobs_shown |= shown
            if new.once is not None:
                tables.requests[new.once.key] = (new.once.asked, turn.id)
            if new.begin and blocker(tables, turn) is None:
                turn = replace(turn, phase=Phase.CONTEXT_PREPARED)
                tables.put_turn(turn)
            return turn

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Accepted → ContextPrepared."""
        with self._tables.transaction() as tables:
            turn = _owned(tables, turn_id, owner)
            _expect(turn, Phase.ACCEPTED)
            if (other := blocker(tables, turn)) is not None:
                raise BranchBusy(f"Turn {turn.turn_seq} waits: turn {other.turn_seq} of its branch is {other.phase}.")
            turn = replace(turn, phase=Phase.CONTEXT_PREPARED, updated_at=now())
            tables.put_turn(turn)
            return turn

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """TX-P: step and plan are durable before the provider is heard; ContextPrepared → Responding."""
        check_new_step(step)
        check_text(step)
        with self._tables.transaction() as tables:
            turn = _owned(tables, turn_id, owner)
            _expect(turn, *OPEN_PHASES)
            taken = {known.step_index for known in steps_of(tables, turn_id)}
            if step.id in tables.steps or step.step_index in taken:
                raise AlreadyExists(f"Turn {turn_id} already has a step {step.step_index}, or {step.id} is taken.")
            if step.closes is not None:
                tables.steps[step.closes.step_id] = closed(tables, turn_id, step.closes)
            tables.steps[step.id] = opened(turn_id, step)
            tables.steps_of.setdefault(turn_id, []).append(step.id)
            turn = replace(turn, phase=Phase.RESPONDING, provider=step.provider, model=step.model_id, updated_at=now())
            tables.put_turn(turn)
            return turn

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """TX-A: answer, last step, phase ResponseFinalized, and the job that commits the turn."""
        check_turn_end(end)
        check_text(end)
        with self._tables.transaction() as tables:
            turn = _owned(tables, turn_id, owner)
            check_finalising(turn_id, turn.phase, end)
            turn = end_turn(tables, turn, Phase.RESPONSE_FINALIZED, end)
            if end.plan is not None:
                tables.questions[turn_id] = end.plan
            enqueue(tables, "summarize_turn", turn.branch_id, turn_id)
            return turn

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """End a turn before its answer was final: Failed, with what was shown of the answer."""
        check_turn_end(end)
        check_text(end)
        with self._tables.transaction() as tables:
            turn = _owned(tables, turn_id, owner)
            _expect(turn, *UNFINISHED)
            return end_turn(tables, turn, Phase.FAILED, end)

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Ask the turn's owner, wherever it is, to stop."""
        with self._tables.transaction() as tables:
            turn = tables.turn(turn_id)
            if turn.phase in UNFINISHED:
                turn = replace(turn, cancel_requested=True)
                tables.put_turn(turn)
            return turn

    async def record(self, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append turns that were finished elsewhere, with one state for all of them."""
        check_exchanges(exchanges)
        check_text(exchanges)
        with self._tables.transaction() as tables:
            there = {each.id: turn for each in exchanges if each.id and (turn := _known(tables, branch_id, each.id))}
            new = [exchange for exchange in exchanges if exchange.id not in there]
            if not new and there:
                return tuple(there.values())
            branch = settled(tables, branch_id)
            turns = iter(record(tables, branch, new) if new else ())
            return tuple(there[each.id] if each.id in there else next(turns) for each in exchanges)

    async def log(self, branch_id: BranchId, message: Message, *, metadata: Json = None) -> Turn:
        """Append one message: as the answer of the newest turn, or as a turn of its own."""
        said = Exchange(message=message, metadata=metadata)
        check_exchanges((said,))
        check_text(said)
        with self._tables.transaction() as tables:
            branch = settled(tables, branch_id)
            turn = last_turn(tables, branch) if message.role == "assistant" else None
            if turn is not None and can_be_answered(turn, tables.head(branch)):
                return answer(tables, branch, turn, message)
            return record(tables, branch, (said,))[0]

    async def get(self, turn_id: TurnId) -> Turn | None:
        """Read one."""
        with self._tables.transaction() as tables:
            turn = tables.turns.get(turn_id)
            return None if turn is None or not tables.is_living(turn) else turn

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Read the newest ``limit`` turns of the lineage, oldest first."""
        with self._tables.transaction() as tables:
            limit = row_limit(limit)
            if (branch := tables.branches.get(branch_id)) is None or limit == 0:
                return ()
            newest_first: list[TurnId] = []
            end = branch.last_turn_seq + 1 if before is None else end_place(before)
            for owner, first, last in tables.lineage(branch).backwards(end):
                start, end = tables.place_on(owner, first), tables.place_on(owner, last + 1)
                stretch = reversed(tables.turns_of[owner][start:end])
                newest_first += (turn_id for turn_id in stretch if tables.is_living(tables.turns[turn_id]))
                if len(newest_first) >= limit:
                    break
            return tuple(tables.turns[turn_id] for turn_id in reversed(newest_first[:limit]))

    async def steps(self, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
        """Read a turn's provider calls in order, from that step_index on."""
        with self._tables.transaction() as tables:
            return tuple(step for step in steps_of(tables, turn_id) if step.step_index >= first)

    async def plan(self, turn_id: TurnId) -> Plan | None:
        """Read the account of the turn's last request, or of the question it asked back."""
        with self._tables.transaction() as tables:
            steps = steps_of(tables, turn_id)
            return steps[-1].plan if steps else tables.questions.get(turn_id)


def _known(tables: Tables, branch_id: BranchId, turn_id: TurnId) -> Turn | None:
    tables.refuse_deleted(turn_id)
    turn = tables.turns.get(turn_id)
    if turn is not None and turn.branch_id != branch_id:
        raise AlreadyExists(f"There is a turn {turn_id} already, on another branch.")
    return turn


def blocker(tables: Tables, turn: Turn) -> Turn | None:
    """Find a turn of the branch that has to be final before this one is begun."""
    for other in tables.unsettled(turn.branch_id):
        earlier = other.phase is Phase.ACCEPTED and other.turn_seq < turn.turn_seq
        if other.phase in OPEN_PHASES or earlier:
            return other
    return None


def _accepted_already(turn: Turn, new: NewTurn) -> Turn:
    if turn.branch_id != new.branch_id or turn.user_message != new.message:
        raise AlreadyExists(f"Turn {turn.id} exists, and says something else.")
    return turn


def check_queue(tables: Tables, new: NewTurn) -> None:
    """Refuse a message when too many already wait on its branch."""
    queue = waiting(tables.unsettled(new.branch_id))
    if new.queue_limit is not None and len(queue) >= new.queue_limit:
        running = next((turn.id for turn in tables.unsettled(new.branch_id) if turn.phase in OPEN_PHASES), None)
        raise QueueFull(f"{len(queue)} messages already wait on branch {new.branch_id}.", running=running)


def accepted_turn(branch: Branch, new: NewTurn, moment: datetime | None = None) -> Turn:
    """Make the turn of a message, at the end of its branch."""
    moment = moment or now()
    return Turn(
        id=new.id or new_id(),
        session_id=branch.session_id,
        branch_id=branch.id,
        turn_seq=branch.last_turn_seq + 1,
        phase=Phase.ACCEPTED,
        state_before=branch.head_state,
        user_message=new.message,
        created_at=moment,
        updated_at=moment,
        owner=new.owner,
        retry_of=new.retry_of,
        metadata=new.metadata,
    )


def settled(tables: Tables, branch_id: BranchId) -> Branch:
    """Give a branch that something can be appended to from outside."""
    branch = tables.branch(branch_id)
    for turn in tables.unsettled(branch_id):
        raise not_settled(turn.turn_seq, turn.phase)
    return branch


def record(tables: Tables, branch: Branch, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
    """Add turns that were finished elsewhere after the last one, with one state for all of them."""
    shown = check_blobs(tables, *(said for each in exchanges for said in (each.message, each.answer)))
    last = branch.last_turn_seq + len(exchanges)
    state = next_state(tables.head(branch), branch, "record", turn_seq=last)
    turns = tuple(
        _recorded(branch, state, seq, exchange)
        for seq, exchange in enumerate(exchanges, start=branch.last_turn_seq + 1)
    )
    append(tables, branch, state)
    append_turns(tables, tables.branches[branch.id], turns)
    note_recorded(tables, turns, exchanges)
    tables.blobs_shown |= shown
    return turns


def last_turn(tables: Tables, branch: Branch) -> Turn | None:
    """Find the last turn of a branch's own, unless another branch goes on from it."""
    if not tables.turns_of[branch.id]:
        return None
    turn = tables.turns[tables.turns_of[branch.id][-1]]
    others = (tables.branches[other] for other in tables.branches_of[branch.session_id])
    forked = any(other.parent_id == branch.id and other.fork_seq >= turn.turn_seq for other in others)
    return None if forked else turn


def answer(tables: Tables, branch: Branch, turn: Turn, said: Message) -> Turn:
    """Set a turn's answer. The head moves, so that nobody commits what was made without it."""
    shown = check_blobs(tables, said)
    moment = now()
    turn = replace(turn, answer=said, outcome="completed", updated_at=moment)
    append(tables, branch, next_state(tables.head(branch), branch, "record"))
    tables.put_turn(turn)
    tables.sessions[branch.session_id] = replace(tables.sessions[branch.session_id], updated_at=moment)
    tables.blobs_shown |= shown
    return turn


def _recorded(branch: Branch, state: State, turn_seq: int, exchange: Exchange) -> Turn:
    moment = now()
    # What storage keeps is whole milliseconds; what a caller brings may be finer.
    said = moment if exchange.created_at is None else from_millis(to_millis(exchange.created_at))
    return Turn(
        id=exchange.id or new_id(),
        session_id=branch.session_id,
        branch_id=branch.id,
        turn_seq=turn_seq,
        phase=Phase.DONE,
        state_before=branch.head_state,
        user_message=exchange.message,
        created_at=said,
        updated_at=moment,
        state_after=state.id,
        answer=exchange.answer,
        outcome=None if exchange.answer is None else "completed",
        model=exchange.model,
        metadata=exchange.metadata,
    )


def append_turns(tables: Tables, branch: Branch, turns: Sequence[Turn]) -> None:
    """Put turns at the end of their branch; the session was spoken in."""
    for turn in turns:
        tables.put_turn(turn)
    tables.put_branch(replace(branch, last_turn_seq=turns[-1].turn_seq))
    tables.sessions[branch.session_id] = replace(tables.sessions[branch.session_id], updated_at=now())


def _owned(tables: Tables, turn_id: TurnId, owner: WorkerId) -> Turn:
    turn = tables.turn(turn_id)
    check_owner(turn_id, turn.owner, owner)
    return turn


def _expect(turn: Turn, *phases: Phase) -> None:
    check_phase(turn.id, turn.phase, frozenset(phases))


def steps_of(tables: Tables, turn_id: TurnId) -> list[Step]:
    """Give a turn's steps in order."""
    steps = (tables.steps[step_id] for step_id in tables.steps_of.get(turn_id, ()))
    return sorted(steps, key=lambda step: step.step_index)


def opened(turn_id: TurnId, step: NewStep) -> Step:
    """Make the step of a call that is about to be made."""
    return Step(
        id=step.id,
        turn_id=turn_id,
        step_index=step.step_index,
        provider=step.provider,
        model_id=step.model_id,
        plan=step.plan,
        started_at=now(),
        inputs=step.inputs,
    )


def closed(tables: Tables, turn_id: TurnId, end: StepEnd) -> Step:
    """Work out how a step looks once it ended; writes nothing."""
    step = tables.steps.get(end.step_id)
    if step is None or step.turn_id != turn_id:
        raise NotFound(f"Turn {turn_id} has no step {end.step_id}.")
    if step.outcome is not None:
        raise WrongPhase(f"Step {step.step_index} of turn {turn_id} has ended already.")
    return replace(
        step,
        items=end.items,
        outcome=end.outcome,
        response=end.response,
        usage=end.usage,
        displayed_bytes=end.displayed_bytes,
        durable_bytes=end.durable_bytes,
        ended_at=now(),
    )


def end_turn(tables: Tables, turn: Turn, phase: Phase, end: TurnEnd) -> Turn:
    """Close the last step and the turn together."""
    shown = check_blobs(tables, end.answer)
    if end.step is not None:
        last = closed(tables, turn.id, end.step)
        tables.steps[last.id] = last
    steps = steps_of(tables, turn.id)
    usage = sum((step.usage for step in steps), start=Usage())
    turn = replace(
        turn,
        phase=phase,
        answer=end.answer,
        outcome=end.outcome,
        error=end.error,
        rounds=rounds_of([(step.inputs, step.items) for step in steps]),
        usage=usage,
        **end.notes(turn),
        updated_at=now(),
    )
    tables.blobs_shown |= shown
    tables.put_turn(turn)
    note_answered(tables, turn)
    return turn
