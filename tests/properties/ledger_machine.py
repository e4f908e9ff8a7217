"""Random conversations, driven through several stores in lockstep.

Every rule asks all stores for the same thing and wants the same answer, error for error; ids and moments
differ from store to store, so ids are compared by the order they first appeared in and moments left out.
After every step the invariants of the ledger are checked on each store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from contextinfinity.domain.ids import is_id, new_id, now
from contextinfinity.domain.job import JobType
from contextinfinity.domain.message import Role, ToolOutputItem, say
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Embedding, NewChunk
from contextinfinity.domain.session import Branch, NewSession
from contextinfinity.domain.state import FoldCandidate, StateDraft, StateReason
from contextinfinity.domain.turn import (
    Completed,
    Exchange,
    NewStep,
    NewTurn,
    Paused,
    Phase,
    Problem,
    StepEnd,
    Turn,
    TurnEnd,
    Usage,
)
from contextinfinity.errors import ContextInfinityError
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import later_than
from tests.properties.ledger_invariants import Witness

Ask = Callable[["Line"], Awaitable[Any]]

which = st.integers(0, 30)
numbers = st.integers(-1, 8)
texts = st.sampled_from(["", "hello", "Where is the café? 🙂", "a\x00b", "word " * 20])
reasons = st.sampled_from([("fold", "unfold"), ("fold",), ("unfold",), ("pin", "unpin"), ("turn", "record", "root")])
kinds = st.sampled_from([None, ("fold_branch",), ("summarize_turn", "index_turn", "remember_turn"), ()])
owners = st.sampled_from(["worker", "worker", "worker", "stranger"])


class Line:
    """One store with what was made in it, in the order it was made."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.witness = Witness(store)
        self.branches: list[Branch] = []
        self.turns: list[Turn] = []
        self._names: dict[str, str] = {}

    def branch(self, number: int) -> str:
        return self.branches[number % len(self.branches)].id

    def turn(self, number: int) -> str:
        """One of the turns, the newest ones more often."""
        if not self.turns:
            return "00000000-0000-0000-0000-000000000000"
        return self.turns[-1 - number % len(self.turns)].id

    async def answer(self, ask: Ask) -> Any:
        try:
            value = await ask(self)
        except ContextInfinityError as error:
            return type(error).__name__
        await self._note(value)
        return self._plain(msgspec.to_builtins(value, builtin_types=(bytes,)))

    async def _note(self, value: Any) -> None:
        for made in value if isinstance(value, tuple) else (value,):
            if isinstance(made, Branch) and made.id not in {branch.id for branch in self.branches}:
                self.branches.append(made)
            if isinstance(made, Turn) and made.id not in {turn.id for turn in self.turns}:
                self.turns.append(made)

    def _plain(self, value: Any) -> Any:
        match value:
            case dict():
                return {key: self._plain(part) for key, part in value.items() if not str(key).endswith("_at")}
            case list() | tuple():
                return [self._plain(part) for part in value]
            case str() if is_id(value):
                return self._names.setdefault(value, f"id {len(self._names)}")
            case _:
                return value


class SpeakingMachine(RuleBasedStateMachine):
    """Opens, forks, says and answers at random, in all stores alike."""

    async def make_stores(self) -> Sequence[Store]:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.lines = [Line(store) for store in self.loop.run(self.make_stores())]

    def teardown(self) -> None:
        for line in self.lines:
            self.loop.run(line.store.close())
        self.loop.close()

    def ask(self, ask: Ask) -> Any:
        """Ask every store; all have to say the same."""
        answers = [self.loop.run(line.answer(ask)) for line in self.lines]
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    # --- sessions and branches ---

    @initialize()
    def begin(self) -> None:
        self.open_session()

    @rule()
    def open_session(self) -> None:
        async def ask(line: Line) -> Any:
            session = await line.store.sessions.create(NewSession(title="talk"))
            return await line.store.branches.get(session.active_branch)

        self.ask(ask)

    @rule(branch=which, at=st.none() | numbers, state=st.none() | st.none() | numbers)
    def fork(self, branch: int, at: int | None, state: int | None) -> None:
        self.ask(lambda line: line.store.branches.fork(line.branch(branch), at=at, state=state, label="fork"))

    @rule(branch=which, to=st.none() | numbers, state=st.none() | st.none() | numbers)
    def rollback(self, branch: int, to: int | None, state: int | None) -> None:
        self.ask(lambda line: line.store.branches.rollback(line.branch(branch), to=to, state=state))

    @rule(branch=which)
    def switch(self, branch: int) -> None:
        async def ask(line: Line) -> Any:
            found = await line.store.branches.get(line.branch(branch))
            assert found is not None
            return await line.store.sessions.activate(found.session_id, found.id)

        self.ask(ask)

    # --- the way of a turn ---

    @rule(branch=which, text=texts, owner=owners, limit=st.none() | st.integers(0, 3))
    def accept(self, branch: int, text: str, owner: str, limit: int | None) -> None:
        self.ask(
            lambda line: line.store.turns.accept(
                NewTurn(
                    branch_id=line.branch(branch),
                    message=say("user", text),
                    owner=owner,
                    queue_limit=limit,
                    metadata={"n": limit},
                )
            )
        )

    @rule(turn=which, branch=st.none() | which, text=st.none() | texts)
    def accept_again(self, turn: int, branch: int | None, text: str | None) -> None:
        async def ask(line: Line) -> Any:
            known = await line.store.turns.get(line.turn(turn))
            if known is None:
                return None
            message = known.user_message if text is None else say("user", text)
            branch_id = known.branch_id if branch is None else line.branch(branch)
            return await line.store.turns.accept(NewTurn(branch_id=branch_id, message=message, id=known.id))

        self.ask(ask)

    @rule(branch=which)
    def advance(self, branch: int) -> None:
        """Take the oldest unsettled turn of a branch one phase further, so that walks get deep."""

        async def ask(line: Line) -> Any:
            for turn in await line.store.turns.history(line.branch(branch), limit=1000):
                if turn.branch_id == line.branch(branch) and turn.phase not in (
                    Phase.DONE,
                    Phase.FAILED,
                    Phase.INDEXED,
                ):
                    return await _next_verb(line.store, turn)
            return None

        self.ask(ask)

    @rule(turn=which, owner=owners)
    def prepare(self, turn: int, owner: str) -> None:
        self.ask(lambda line: line.store.turns.prepare(line.turn(turn), owner))

    @rule(turn=which, owner=owners, index=st.integers(0, 3))
    def open_step(self, turn: int, owner: str, index: int) -> None:
        self.ask(lambda line: line.store.turns.open_step(line.turn(turn), owner, _new_step(index)))

    @rule(turn=which, owner=owners, step=which, index=st.integers(0, 3))
    def go_on(self, turn: int, owner: str, step: int, index: int) -> None:
        async def ask(line: Line) -> Any:
            end = StepEnd(step_id=await _step(line, turn, step), outcome=Paused(reason="tools"), response=b"\x00raw")
            after = msgspec.structs.replace(
                _new_step(index), closes=end, inputs=(ToolOutputItem(call_id="c", output="done"),)
            )
            return await line.store.turns.open_step(line.turn(turn), owner, after)

        self.ask(ask)

    @rule(turn=which, owner=owners, step=st.none() | which, answer=st.none() | texts, asks=st.booleans())
    def finalise(self, turn: int, owner: str, step: int | None, answer: str | None, asks: bool) -> None:
        async def ask(line: Line) -> Any:
            end = await _turn_end(line, turn, step, answer)
            if asks:
                end = msgspec.structs.replace(end, outcome="clarification", plan=Plan(candidates=("a", "b")))
            return await line.store.turns.finalise(line.turn(turn), owner, end)

        self.ask(ask)

    @rule(turn=which, owner=owners, step=st.none() | which, answer=st.none() | texts)
    def fail(self, turn: int, owner: str, step: int | None, answer: str | None) -> None:
        async def ask(line: Line) -> Any:
            end = await _turn_end(line, turn, step, answer)
            problem = Problem(code="interrupted", message="lost")
            return await line.store.turns.fail(line.turn(turn), owner, msgspec.structs.replace(end, error=problem))

        self.ask(ask)

    @rule(branch=which, pairs=st.lists(st.tuples(texts, st.none() | texts), max_size=3))
    def record(self, branch: int, pairs: list[tuple[str, str | None]]) -> None:
        exchanges = [
            Exchange(message=say("user", text), answer=None if answer is None else say("assistant", answer))
            for text, answer in pairs
        ]
        self.ask(lambda line: line.store.turns.record(line.branch(branch), exchanges))

    @rule(branch=which, role=st.sampled_from(["user", "assistant", "assistant", "system", "tool"]), text=texts)
    def log(self, branch: int, role: Role, text: str) -> None:
        self.ask(lambda line: line.store.turns.log(line.branch(branch), say(role, text), metadata={"of": role}))


class LedgerMachine(SpeakingMachine):
    """Commits, pins, works, indexes and reads too, and checks what always holds."""

    checked_every = 1
    steps_taken = 0

    def teardown(self) -> None:
        try:
            self.check()
        finally:
            super().teardown()

    # --- states ---

    @rule(
        turn=which, branch=st.none() | which, stale=st.booleans(), summary=st.none() | texts, covers=st.none() | numbers
    )
    def commit(self, turn: int, branch: int | None, stale: bool, summary: str | None, covers: int | None) -> None:
        async def ask(line: Line) -> Any:
            known = await line.store.turns.get(line.turn(turn))
            branch_id = line.branch(branch or 0) if known is None or branch is not None else known.branch_id
            draft = StateDraft(
                branch_id=branch_id, reason="turn", turn_id=line.turn(turn), summary=summary, covers_turn_seq=covers
            )
            return await line.store.states.commit(draft, expected_head=await _head(line, branch_id, stale))

        self.ask(ask)

    @rule(
        branch=which,
        reason=st.sampled_from(["fold", "fold", "unfold"]),
        stale=st.booleans(),
        summary=st.none() | texts,
        covers=st.none() | numbers,
    )
    def fold(self, branch: int, reason: StateReason, stale: bool, summary: str | None, covers: int | None) -> None:
        async def ask(line: Line) -> Any:
            draft = StateDraft(branch_id=line.branch(branch), reason=reason, summary=summary, covers_turn_seq=covers)
            return await line.store.states.commit(draft, expected_head=await _head(line, draft.branch_id, stale))

        self.ask(ask)

    @rule(branch=which, asked=reasons, covers=st.none() | numbers)
    def find_newest(self, branch: int, asked: tuple[StateReason, ...], covers: int | None) -> None:
        async def ask(line: Line) -> Any:
            found = await line.store.states.newest(line.branch(branch), asked, covers=covers)
            chain = await line.store.states.list(line.branch(branch), limit=1000)
            assert found == next(
                (state for state in chain if state.reason in asked and covers in (None, state.covers_turn_seq)), None
            )
            return found

        self.ask(ask)

    @rule(branch=which, base=numbers, covers=numbers, summary=texts)
    def propose(self, branch: int, base: int, covers: int, summary: str) -> None:
        def candidate(line: Line) -> FoldCandidate:
            return FoldCandidate(
                branch_id=line.branch(branch),
                base_covers=base,
                base_summary="0f" * 32,
                covers_turn_seq=covers,
                summary=summary,
                case="truncate",
                tokens_before=9,
                tokens_after=3,
                created_at=now(),
            )

        self.ask(lambda line: line.store.states.propose(candidate(line)))

    @rule(branch=which)
    def read_proposal(self, branch: int) -> None:
        self.ask(lambda line: line.store.states.proposal(line.branch(branch)))

    @rule(branch=which, fact=st.sampled_from(["", " ", "one", "two", "three "]))
    def pin(self, branch: int, fact: str) -> None:
        self.ask(lambda line: line.store.states.pin(line.branch(branch), fact))

    @rule(branch=which, number=st.integers(-1, 3))
    def unpin(self, branch: int, number: int) -> None:
        self.ask(lambda line: line.store.states.unpin(line.branch(branch), number))

    # --- jobs ---

    @rule(end=st.sampled_from(["complete", "complete", "release", "retry", "give up", "run on"]), asked=kinds)
    def work(self, end: str, asked: tuple[JobType, ...] | None) -> None:
        async def ask(line: Line) -> Any:
            jobs = line.store.jobs
            await later_than(now())  # jobs queued again come after the others, in every store
            job = await jobs.claim("worker", asked)
            if job is not None and end == "complete":
                await jobs.complete(job.id, "worker")
            elif job is not None and end == "release":
                await jobs.release(job.id, "worker")
            elif job is not None and end == "retry":
                await jobs.retry(job.id, "worker", error="busy", after=timedelta(hours=1))
            elif job is not None and end == "give up":
                await jobs.give_up(job.id, "worker", error="no model")
            return tuple(msgspec.structs.replace(job, id=0) for job in await jobs.list(limit=1000))

        self.ask(ask)

    @rule(branch=which, seconds=st.sampled_from([0, 0, 60, 61]))
    def ask_for_a_fold(self, branch: int, seconds: int) -> None:
        async def ask(line: Line) -> Any:
            await later_than(now())
            after = timedelta(seconds=seconds)
            job = await line.store.jobs.enqueue("fold_branch", line.branch(branch), after=after)
            return msgspec.structs.replace(job, id=0)

        self.ask(ask)

    @rule(turn=which)
    def cancel(self, turn: int) -> None:
        self.ask(lambda line: line.store.turns.cancel(line.turn(turn)))

    # --- chunks and reading ---

    @rule(
        turn=which,
        spans=st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 9)), max_size=3),
        side=st.sampled_from(["user", "assistant"]),
        kind=st.sampled_from(["Code", "Other"]),
        model=st.none() | st.sampled_from(["small", "large"]),
    )
    def index(self, turn: int, spans: list[tuple[int, int]], side: Any, kind: Any, model: str | None) -> None:
        chunks = [
            NewChunk(
                side=side,
                start=start,
                end=end,
                summary=f"{start}-{end}",
                chunk_type=kind,
                token_est=end,
                embedding=None
                if model is None
                else Embedding(model=model, dim=1, values=bytes([0, 0, 128, 63, start % 256])),
            )
            for start, end in spans
        ]
        self.ask(lambda line: line.store.chunks.index(line.turn(turn), chunks))

    @rule(branch=which, limit=numbers, before=st.none() | numbers)
    def history(self, branch: int, limit: int, before: int | None) -> None:
        self.ask(lambda line: line.store.turns.history(line.branch(branch), limit=limit, before=before))

    @rule(turn=which)
    def read(self, turn: int) -> None:
        async def ask(line: Line) -> Any:
            turns, chunks, name = line.store.turns, line.store.chunks, line.turn(turn)
            return await turns.get(name), await turns.steps(name), await turns.plan(name), await chunks.of_turn(name)

        self.ask(ask)

    # --- what always holds ---

    @invariant()
    def all_is_well(self) -> None:
        self.steps_taken += 1
        if self.steps_taken % self.checked_every == 0:
            self.check()

    def check(self) -> None:
        for line in self.lines:
            for branch in line.branches:
                self.loop.run(line.witness.check_branch(branch.id))
            for one, other in combinations(line.branches, 2):
                line.witness.check_siblings(one.id, other.id)
        if len(self.lines) > 1:
            for number in range(len(self.lines[0].branches)):
                self.compare_branch(number)

    def compare_branch(self, number: int) -> None:
        async def ask(line: Line) -> Any:
            store, name = line.store, line.branch(number)
            return (
                await store.branches.get(name),
                await store.branches.lineage(name),
                await store.states.list(name, limit=1000),
                await store.turns.history(name, limit=1000),
            )

        self.ask(ask)


def _new_step(index: int) -> NewStep:
    return NewStep(
        id=new_id(), step_index=index, provider="p", model_id=f"m{index}", plan=Plan(epoch_reason=str(index))
    )


async def _head(line: Line, branch_id: str, stale: bool) -> str:
    head = await line.store.states.head(branch_id)
    return head.parent_id or "nowhere" if stale else head.id


async def _step(line: Line, turn: int, number: int) -> str:
    steps = await line.store.turns.steps(line.turn(turn))
    return steps[-1 - number % len(steps)].id if steps else "nowhere"


async def _turn_end(line: Line, turn: int, step: int | None, answer: str | None) -> TurnEnd:
    usage = Usage(input_tokens=turn, cost=0.5)
    end = None if step is None else StepEnd(step_id=await _step(line, turn, step), outcome=Completed(), usage=usage)
    return TurnEnd(outcome="completed", answer=None if answer is None else say("assistant", answer), step=end)


async def _next_verb(store: Store, turn: Turn) -> Any:
    owner = turn.owner or ""
    match turn.phase:
        case Phase.ACCEPTED:
            return await store.turns.prepare(turn.id, owner)
        case Phase.CONTEXT_PREPARED:
            return await store.turns.open_step(turn.id, owner, _new_step(0))
        case Phase.RESPONDING:
            step = (await store.turns.steps(turn.id))[-1]
            end = StepEnd(step_id=step.id, outcome=Completed())
            return await store.turns.finalise(
                turn.id, owner, TurnEnd(outcome="completed", answer=say("assistant", "ok"), step=end)
            )
        case Phase.RESPONSE_FINALIZED:
            head = await store.states.head(turn.branch_id)
            draft = StateDraft(branch_id=turn.branch_id, reason="turn", turn_id=turn.id)
            return await store.states.commit(draft, expected_head=head.id)
        case _:
            return await store.chunks.index(turn.id, ())
