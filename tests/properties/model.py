"""A ledger as plain dicts: the model that real stores are compared with on random walks.

It holds only the verbs that ``ledger_machine`` calls, and of those only what the walks can see: no idempotency keys,
no deletions, no images, no search. Nothing is durable, and one caller uses it at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.job import FOLDING, Job, JobType
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Chunk, NewChunk, chunk_id
from contextinfinity.domain.session import Branch, Lineage, NewSession, Session
from contextinfinity.domain.state import FOLDS, FoldCandidate, State, StateDraft, StateReason
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    UNFINISHED,
    UNSETTLED_PHASES,
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
from contextinfinity.errors import AlreadyExists, BranchBusy, JobLost, NotFound, QueueFull, WrongPhase
from contextinfinity.storage import invariants

AFTER_COMMIT: tuple[JobType, ...] = ("index_turn", "remember_turn")


class ModelLedger:
    """Everything there is, by id; the nouns are views of it."""

    def __init__(self) -> None:
        self.session: dict[str, Session] = {}
        self.branch: dict[str, Branch] = {}
        self.state: dict[str, State] = {}
        self.turn: dict[str, Turn] = {}
        self.step: dict[str, Step] = {}
        self.plan: dict[str, Plan] = {}
        self.chunk: dict[str, Chunk] = {}
        self.candidate: dict[str, FoldCandidate] = {}
        self.job: dict[int, Job] = {}
        self.asked_again: set[int] = set()
        self.numbers = count(1)
        self.sessions, self.branches, self.turns = Sessions(self), Branches(self), Turns(self)
        self.states, self.jobs, self.chunks = States(self), Jobs(self), Chunks(self)

    async def close(self) -> None:
        """Do nothing: it goes with its object."""

    def must(self, kind: str, name: str) -> Any:
        if (found := getattr(self, kind).get(name)) is None:
            raise NotFound(f"There is no {kind} {name}.")
        return found

    def put(self, *values: Session | Branch | State | Turn | Step | Chunk) -> None:
        for value in values:
            getattr(self, type(value).__name__.lower())[value.id] = value

    def chain(self, branch: Branch) -> Iterator[State]:
        name: str | None = branch.head_state
        while name is not None:
            yield self.state[name]
            name = self.state[name].parent_id

    def lineage(self, branch: Branch) -> Lineage:
        line = [(branch.id, branch.fork_seq)]
        while branch.parent_id is not None:
            branch = self.branch[branch.parent_id]
            line.append((branch.id, branch.fork_seq))
        return Lineage.of(line)

    def own_turns(self, branch_id: str) -> list[Turn]:
        return sorted((t for t in self.turn.values() if t.branch_id == branch_id), key=lambda turn: turn.turn_seq)

    def unsettled(self, branch_id: str) -> list[Turn]:
        return [turn for turn in self.own_turns(branch_id) if turn.phase in UNSETTLED_PHASES]

    def settled(self, branch_id: str) -> Branch:
        branch: Branch = self.must("branch", branch_id)
        for turn in self.unsettled(branch_id):
            raise invariants.not_settled(turn.turn_seq, turn.phase)
        return branch

    def steps_of(self, turn_id: str) -> list[Step]:
        return sorted((s for s in self.step.values() if s.turn_id == turn_id), key=lambda step: step.step_index)

    def append_state(self, branch: Branch, state: State) -> State:
        self.put(state, replace(self.branch[branch.id], head_state=state.id, head_seq=state.state_seq))
        return state

    def next_state(self, branch: Branch, reason: StateReason, **changes: Any) -> State:
        head = self.state[branch.head_state]
        seq = head.state_seq + 1
        made = replace(head, id=new_id(), branch_id=branch.id, state_seq=seq, parent_id=head.id, reason=reason)
        return self.append_state(branch, replace(made, created_at=now(), **changes))

    def enqueue(self, kind: JobType, branch_id: str, turn_id: str | None, after: timedelta = timedelta()) -> Job:
        moment, branch = now(), self.branch[branch_id]
        same = (
            job for job in self.job.values() if (job.job_type, job.branch_id, job.turn_id) == (kind, branch_id, turn_id)
        )
        if (known := next(same, None)) is not None:
            self.job[known.id] = self._asked_again(known, moment + after)
            return self.job[known.id]
        seq = branch.last_turn_seq if turn_id is None else self.turn[turn_id].turn_seq
        job = Job(
            id=next(self.numbers),
            job_type=kind,
            session_id=branch.session_id,
            branch_id=branch_id,
            turn_seq=seq,
            state="queued",
            run_at=moment + after,
            created_at=moment,
            updated_at=moment,
            turn_id=turn_id,
        )
        self.job[job.id] = job
        return job

    def _asked_again(self, job: Job, due: datetime) -> Job:
        if job.state == "failed":
            return replace(job, state="queued", attempts=0, run_at=due)
        if job.state == "queued":
            return replace(job, run_at=due) if job.attempts == 0 and due < job.run_at else job
        if job.turn_id is not None:
            return job
        before = job.id in self.asked_again
        self.asked_again.add(job.id)
        return replace(job, run_at=min(job.run_at, due) if before else due)


class Noun:
    """A view of the ledger."""

    def __init__(self, ledger: ModelLedger) -> None:
        self.ledger = ledger


class Sessions(Noun):
    async def create(self, new: NewSession) -> Session:
        moment = now()
        session_id, branch_id, state_id = new_id(), new_id(), new_id()
        session = Session(
            id=session_id,
            owner=new.owner,
            kind=new.kind,
            active_branch=branch_id,
            created_at=moment,
            updated_at=moment,
            title=new.title,
        )
        place: dict[str, Any] = {"session_id": session_id, "created_at": moment}
        root = State(
            id=state_id, branch_id=branch_id, state_seq=0, turn_seq=0, covers_turn_seq=0, reason="root", **place
        )
        states: dict[str, Any] = {"base_state": state_id, "head_state": state_id, "head_seq": 0, "last_turn_seq": 0}
        self.ledger.put(session, root, Branch(id=branch_id, label="main", **place, **states))
        return session

    async def activate(self, session_id: str, branch_id: str) -> Session:
        session: Session = replace(self.ledger.must("session", session_id), active_branch=branch_id)
        self.ledger.put(session)
        return session


class Branches(Noun):
    async def get(self, branch_id: str) -> Branch | None:
        return self.ledger.branch.get(branch_id)

    async def lineage(self, branch_id: str) -> Lineage:
        return self.ledger.lineage(self.ledger.must("branch", branch_id))

    async def fork(
        self, branch_id: str, *, at: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        ledger = self.ledger
        origin: Branch = ledger.must("branch", branch_id)
        invariants.check_place(origin, at, state)
        chain = ledger.chain(origin)
        if state is not None:
            base = next((each for each in chain if each.state_seq == state), None)
            if base is None:
                raise invariants.no_state(origin, state)
            seq = base.turn_seq
        elif at is None:
            base, seq = next(chain), origin.last_turn_seq
        else:
            base, seq = next(each for each in chain if each.turn_seq <= at), at
        branch = Branch(
            id=new_id(),
            session_id=origin.session_id,
            base_state=base.id,
            head_state=base.id,
            head_seq=base.state_seq,
            last_turn_seq=seq,
            created_at=now(),
            parent_id=ledger.lineage(origin).owner_of(seq),
            fork_seq=seq,
            label=label,
        )
        ledger.put(branch)
        pins = ledger.state[origin.head_state].pinned_facts
        if state is None and base.pinned_facts != pins:
            ledger.next_state(branch, "pin", pinned_facts=pins)
        return ledger.branch[branch.id]

    async def rollback(
        self, branch_id: str, *, to: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        self.ledger.must("branch", branch_id)
        invariants.check_rollback(to, state)
        branch = await self.fork(branch_id, at=to, state=state, label=label)
        await self.ledger.sessions.activate(branch.session_id, branch.id)
        return branch


class Turns(Noun):
    async def accept(self, new: NewTurn) -> Turn:
        ledger = self.ledger
        invariants.check_new_turn(new)
        branch: Branch = ledger.must("branch", new.branch_id)
        if (there := ledger.turn.get(new.id or "")) is not None:
            if (there.branch_id, there.user_message) != (new.branch_id, new.message):
                raise AlreadyExists(f"Turn {new.id} exists, and says something else.")
            return there
        waiting = [turn for turn in ledger.unsettled(branch.id) if turn.phase is Phase.ACCEPTED]
        if new.queue_limit is not None and len(waiting) >= new.queue_limit:
            raise QueueFull(f"{len(waiting)} messages wait already.")
        moment = now()
        turn = Turn(
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
            metadata=new.metadata,
        )
        ledger.put(turn, replace(branch, last_turn_seq=turn.turn_seq))
        return turn

    async def prepare(self, turn_id: str, owner: str) -> Turn:
        turn = self._owned(turn_id, owner)
        invariants.check_phase(turn_id, turn.phase, frozenset({Phase.ACCEPTED}))
        for other in self.ledger.unsettled(turn.branch_id):
            earlier = other.phase is Phase.ACCEPTED and other.turn_seq < turn.turn_seq
            if earlier or other.phase in OPEN_PHASES:
                raise BranchBusy(f"Turn {other.turn_seq} comes first.")
        return self._changed(turn, phase=Phase.CONTEXT_PREPARED)

    async def open_step(self, turn_id: str, owner: str, step: NewStep) -> Turn:
        ledger = self.ledger
        invariants.check_new_step(step)
        turn = self._owned(turn_id, owner)
        invariants.check_phase(turn_id, turn.phase, OPEN_PHASES)
        if step.step_index in {known.step_index for known in ledger.steps_of(turn_id)}:
            raise AlreadyExists(f"Turn {turn_id} has a step {step.step_index}.")
        if step.closes is not None:
            ledger.put(self._closed(turn_id, step.closes))
        ledger.put(
            Step(
                id=step.id,
                turn_id=turn_id,
                step_index=step.step_index,
                provider=step.provider,
                model_id=step.model_id,
                plan=step.plan,
                started_at=now(),
                inputs=step.inputs,
            )
        )
        return self._changed(turn, phase=Phase.RESPONDING, provider=step.provider, model=step.model_id)

    async def finalise(self, turn_id: str, owner: str, end: TurnEnd) -> Turn:
        invariants.check_turn_end(end)
        turn = self._owned(turn_id, owner)
        invariants.check_finalising(turn_id, turn.phase, end)
        turn = self._ended(turn, Phase.RESPONSE_FINALIZED, end)
        if end.plan is not None:
            self.ledger.plan[turn_id] = end.plan
        self.ledger.enqueue("summarize_turn", turn.branch_id, turn_id)
        return turn

    async def fail(self, turn_id: str, owner: str, end: TurnEnd) -> Turn:
        invariants.check_turn_end(end)
        turn = self._owned(turn_id, owner)
        invariants.check_phase(turn_id, turn.phase, UNFINISHED)
        return self._ended(turn, Phase.FAILED, end)

    async def cancel(self, turn_id: str) -> Turn:
        turn: Turn = self.ledger.must("turn", turn_id)
        return self._changed(turn, cancel_requested=True) if turn.phase in UNFINISHED else turn

    async def record(self, branch_id: str, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        invariants.check_exchanges(exchanges)
        branch = self.ledger.settled(branch_id)
        if not exchanges:
            return ()
        last = branch.last_turn_seq + len(exchanges)
        state = self.ledger.next_state(branch, "record", turn_seq=last)
        moment = now()
        turns = tuple(
            Turn(
                id=new_id(),
                session_id=branch.session_id,
                branch_id=branch.id,
                turn_seq=seq,
                phase=Phase.DONE,
                state_before=branch.head_state,
                user_message=each.message,
                created_at=moment,
                updated_at=moment,
                state_after=state.id,
                answer=each.answer,
                outcome=None if each.answer is None else "completed",
                metadata=each.metadata,
            )
            for seq, each in enumerate(exchanges, branch.last_turn_seq + 1)
        )
        self.ledger.put(*turns, replace(self.ledger.branch[branch.id], last_turn_seq=last))
        return turns

    async def log(self, branch_id: str, message: Message, *, metadata: Json = None) -> Turn:
        ledger = self.ledger
        invariants.check_exchanges((Exchange(message=message),))
        branch = ledger.settled(branch_id)
        last = next(reversed(ledger.own_turns(branch_id)), None) if message.role == "assistant" else None
        if last is not None and invariants.can_be_answered(last, ledger.state[branch.head_state]):
            children = (each for each in ledger.branch.values() if each.parent_id == branch_id)
            if not any(child.fork_seq >= last.turn_seq for child in children):
                ledger.next_state(branch, "record")
                return self._changed(last, answer=message, outcome="completed")
        return (await self.record(branch_id, (Exchange(message=message, metadata=metadata),)))[0]

    async def get(self, turn_id: str) -> Turn | None:
        return self.ledger.turn.get(turn_id)

    async def history(self, branch_id: str, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        branch = self.ledger.branch.get(branch_id)
        if branch is None or invariants.row_limit(limit) == 0:
            return ()
        end = branch.last_turn_seq + 1 if before is None else invariants.end_place(before)
        line = self.ledger.lineage(branch).backwards(end)
        seen = [
            turn
            for owner, first, last in line
            for turn in reversed(self.ledger.own_turns(owner))
            if first <= turn.turn_seq <= last
        ]
        return tuple(reversed(seen[: invariants.row_limit(limit)]))

    async def steps(self, turn_id: str, *, first: int = 0) -> tuple[Step, ...]:
        return tuple(step for step in self.ledger.steps_of(turn_id) if step.step_index >= first)

    async def plan(self, turn_id: str) -> Plan | None:
        steps = self.ledger.steps_of(turn_id)
        return steps[-1].plan if steps else self.ledger.plan.get(turn_id)

    def _owned(self, turn_id: str, owner: str) -> Turn:
        turn: Turn = self.ledger.must("turn", turn_id)
        invariants.check_owner(turn_id, turn.owner, owner)
        return turn

    def _changed(self, turn: Turn, **changes: Any) -> Turn:
        turn = replace(turn, updated_at=now(), **changes)
        self.ledger.put(turn)
        return turn

    def _closed(self, turn_id: str, end: StepEnd) -> Step:
        step = self.ledger.step.get(end.step_id)
        if step is None or step.turn_id != turn_id:
            raise NotFound(f"Turn {turn_id} has no step {end.step_id}.")
        if step.outcome is not None:
            raise WrongPhase(f"Step {step.step_index} has ended.")
        ended: dict[str, Any] = {"outcome": end.outcome, "response": end.response, "usage": end.usage}
        return replace(step, items=end.items, ended_at=now(), **ended)

    def _ended(self, turn: Turn, phase: Phase, end: TurnEnd) -> Turn:
        if end.step is not None:
            self.ledger.put(self._closed(turn.id, end.step))
        steps = self.ledger.steps_of(turn.id)
        return self._changed(
            turn,
            phase=phase,
            answer=end.answer,
            outcome=end.outcome,
            error=end.error,
            rounds=invariants.rounds_of([(step.inputs, step.items) for step in steps]),
            usage=sum((step.usage for step in steps), start=Usage()),
            **end.notes(turn),
        )


class States(Noun):
    async def head(self, branch_id: str) -> State:
        return self.ledger.state[self.ledger.must("branch", branch_id).head_state]

    async def list(self, branch_id: str, *, limit: int = 50) -> tuple[State, ...]:
        branch = self.ledger.branch.get(branch_id)
        return () if branch is None else tuple(self.ledger.chain(branch))[: invariants.row_limit(limit)]

    async def newest(
        self, branch_id: str, reasons: Collection[StateReason], *, covers: int | None = None
    ) -> State | None:
        chain = self.ledger.chain(self.ledger.must("branch", branch_id))
        return next((s for s in chain if s.reason in reasons and covers in (None, s.covers_turn_seq)), None)

    async def commit(self, draft: StateDraft, *, expected_head: str | None) -> State:
        ledger = self.ledger
        invariants.check_draft(draft)
        branch: Branch = ledger.must("branch", draft.branch_id)
        turn: Turn | None = None if draft.turn_id is None else ledger.must("turn", draft.turn_id)
        if turn is not None:
            invariants.check_branch_of(turn.id, turn.branch_id, branch.id)
            if turn.state_after is not None:
                return ledger.state[turn.state_after]
            invariants.check_phase(turn.id, turn.phase, frozenset({Phase.RESPONSE_FINALIZED}))
        invariants.check_head(branch.id, branch.head_state, expected_head)
        for earlier in () if turn is None else ledger.unsettled(branch.id):
            if turn is not None and earlier.turn_seq < turn.turn_seq:
                raise invariants.not_settled(earlier.turn_seq, earlier.phase)
        head = ledger.state[branch.head_state]
        seq = head.turn_seq if turn is None else turn.turn_seq
        state = ledger.append_state(branch, invariants.drafted_state(draft, head, seq))
        if draft.reason in FOLDS:
            ledger.candidate.pop(branch.id, None)
        if turn is not None:
            ledger.put(replace(turn, phase=Phase.STATE_COMMITTED, state_after=state.id))
            for kind in AFTER_COMMIT:
                ledger.enqueue(kind, branch.id, turn.id)
        return state

    async def propose(self, candidate: FoldCandidate) -> FoldCandidate:
        invariants.check_candidate(candidate)
        head = await self.head(candidate.branch_id)
        invariants.check_covers(candidate.covers_turn_seq, head.turn_seq)
        self.ledger.candidate[candidate.branch_id] = candidate
        return candidate

    async def proposal(self, branch_id: str) -> FoldCandidate | None:
        return self.ledger.candidate.get(branch_id)

    async def pin(self, branch_id: str, fact: str) -> State:
        invariants.check_fact(fact)
        head = await self.head(branch_id)
        if fact in head.pinned_facts:
            return head
        return self.ledger.next_state(self.ledger.branch[branch_id], "pin", pinned_facts=(*head.pinned_facts, fact))

    async def unpin(self, branch_id: str, number: int) -> State:
        rest = invariants.remove_pin((await self.head(branch_id)).pinned_facts, number)
        return self.ledger.next_state(self.ledger.branch[branch_id], "unpin", pinned_facts=rest)


class Jobs(Noun):
    async def enqueue(self, kind: JobType, branch_id: str, *, after: timedelta = timedelta()) -> Job:
        invariants.check_wait(after)
        self.ledger.must("branch", branch_id)
        return self.ledger.enqueue(kind, branch_id, None, after)

    async def claim(self, worker: str, kinds: Collection[JobType] | None = None) -> Job | None:
        jobs = self.ledger.job.values()
        busy = {_lane(job) for job in jobs if job.state == "running"}
        queued = [job for job in jobs if job.state == "queued" and (kinds is None or job.job_type in kinds)]
        first = {(j.branch_id, j.job_type): j.turn_seq for j in sorted(queued, key=lambda job: -job.turn_seq)}
        due = [
            job
            for job in queued
            if _lane(job) not in busy
            and job.turn_seq == first[job.branch_id, job.job_type]
            and not now() < job.run_at <= now() + timedelta(minutes=2)
        ]
        if not due:
            return None
        job = min(due, key=lambda job: (job.run_at, job.id))
        self.ledger.asked_again.discard(job.id)
        return self._changed(job, state="running", owner=worker, attempts=job.attempts + 1)

    async def complete(self, job_id: int, worker: str) -> None:
        job = self._run_by(job_id, worker)
        if job_id in self.ledger.asked_again:
            self.ledger.asked_again.discard(job_id)
            self._changed(job, state="queued", owner=None, attempts=0, run_at=max(job.run_at, now()))
            return
        del self.ledger.job[job_id]
        self._mark_done(job.turn_id)

    async def release(self, job_id: int, worker: str) -> None:
        job = self._run_by(job_id, worker)
        self._changed(job, state="queued", owner=None, attempts=job.attempts - 1, run_at=min(job.run_at, now()))

    async def retry(self, job_id: int, worker: str, *, error: str, after: timedelta) -> None:
        job = self._run_by(job_id, worker)
        self._changed(job, state="queued", owner=None, last_error=error, run_at=now() + after)
        if job.job_type == "index_turn" and job.turn_id is not None:
            self.ledger.put(replace(self.ledger.turn[job.turn_id], degraded=True))

    async def give_up(self, job_id: int, worker: str, *, error: str) -> None:
        job = self._run_by(job_id, worker)
        self._changed(job, state="failed", owner=None, last_error=error)
        if job.job_type == "index_turn" and job.turn_id is not None:
            turn = self.ledger.turn[job.turn_id]
            if turn.phase is Phase.STATE_COMMITTED:
                self.ledger.put(replace(turn, phase=Phase.INDEXED, degraded=True))
        self._mark_done(job.turn_id)

    async def list(self, *, limit: int = 50) -> tuple[Job, ...]:
        return tuple(self.ledger.job.values())[: invariants.row_limit(limit)]

    def _run_by(self, job_id: int, worker: str) -> Job:
        job = self.ledger.job.get(job_id)
        if job is None or (job.state, job.owner) != ("running", worker):
            raise JobLost(f"Job {job_id} is not run by {worker}.")
        return job

    def _changed(self, job: Job, **changes: Any) -> Job:
        self.ledger.job[job.id] = replace(job, updated_at=now(), **changes)
        return self.ledger.job[job.id]

    def _mark_done(self, turn_id: str | None) -> None:
        if turn_id is None or self.ledger.turn[turn_id].phase is not Phase.INDEXED:
            return
        left = (job for job in self.ledger.job.values() if job.turn_id == turn_id and job.job_type in AFTER_COMMIT)
        if all(job.state == "failed" for job in left):
            self.ledger.put(replace(self.ledger.turn[turn_id], phase=Phase.DONE))


def _lane(job: Job) -> tuple[str, bool]:
    """Of the jobs of a lane one runs at a time."""
    return job.branch_id, job.job_type in FOLDING


class Chunks(Noun):
    async def index(self, turn_id: str, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        turn: Turn = self.ledger.must("turn", turn_id)
        invariants.check_phase(turn_id, turn.phase, invariants.INDEXABLE)
        texts = invariants.texts_of(turn)
        for new in chunks:
            invariants.check_span(new.start, new.end, texts[new.side])
        for new in chunks:
            words = (texts[new.side] or "")[new.start : new.end]
            digest = wire.text_hash(words).hex()
            name = chunk_id(turn_id, new.chunk_type, digest)
            if name not in self.ledger.chunk:
                self.ledger.put(
                    Chunk(
                        id=name,
                        session_id=turn.session_id,
                        branch_id=turn.branch_id,
                        source_turn=turn_id,
                        side=new.side,
                        start=new.start,
                        end=new.end,
                        rendered_text=words,
                        summary=new.summary,
                        chunk_type=new.chunk_type,
                        token_est=new.token_est,
                        content_hash=digest,
                        created_at=now(),
                    )
                )
        if turn.phase is Phase.STATE_COMMITTED:
            self.ledger.put(replace(turn, phase=Phase.INDEXED, degraded=False))
        return await self.of_turn(turn_id)

    async def of_turn(self, turn_id: str) -> tuple[Chunk, ...]:
        chunks = [chunk for chunk in self.ledger.chunk.values() if chunk.source_turn == turn_id]
        sides = ("user", "tool", "assistant")
        chunks.sort(key=lambda chunk: (sides.index(chunk.side), chunk.start, chunk.end, chunk.chunk_type, chunk.id))
        return tuple(chunks)
