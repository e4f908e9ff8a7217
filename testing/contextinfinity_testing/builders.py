"""Functions that put conversations into a store, for tests.

Each takes a store and makes the calls that a worker would make; nothing bypasses the store's
contract.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from contextinfinity.domain.ids import BranchId, WorkerId, new_id, now
from contextinfinity.domain.message import AssistantItem, TextBlock, say
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import ChunkSide, ChunkType, Embedding, NewChunk, packed
from contextinfinity.domain.session import Branch, NewSession
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import (
    Completed,
    Exchange,
    NewStep,
    NewTurn,
    Phase,
    Problem,
    StepEnd,
    Turn,
    TurnEnd,
    Usage,
)
from contextinfinity.storage.contract import Store

WORKER: WorkerId = "worker"


def exchange(text: str, answer: str | None = None) -> Exchange:
    """Return a finished turn with text messages."""
    return Exchange(message=say("user", text), answer=None if answer is None else say("assistant", answer))


def new_turn(branch_id: BranchId, text: str, owner: WorkerId | None = WORKER) -> NewTurn:
    """Return a new turn with a text message for a branch."""
    return NewTurn(branch_id=branch_id, message=say("user", text), owner=owner)


def new_step(
    index: int = 0, *, provider: str = "scripted", model_id: str = "echo", closes: StepEnd | None = None
) -> NewStep:
    """Return a provider call whose plan contains its index."""
    plan = Plan(epoch_reason=f"step {index}")
    return NewStep(id=new_id(), step_index=index, provider=provider, model_id=model_id, plan=plan, closes=closes)


def step_end(step: NewStep, text: str = "answer") -> StepEnd:
    """Return the end of a provider call that answered with a text."""
    return StepEnd(
        step_id=step.id,
        outcome=Completed(),
        items=(AssistantItem(blocks=(TextBlock(text=text),)),),
        response=text.encode(),
        usage=Usage(input_tokens=10, output_tokens=len(text), cost=0.25),
    )


def turn_end(step: NewStep, text: str = "answer") -> TurnEnd:
    """Return the end of a turn that was answered with a text."""
    return TurnEnd(outcome="completed", answer=say("assistant", text), step=step_end(step, text))


def asked_back(question: str = "Which one?") -> TurnEnd:
    """Return the end of a turn that asked a clarifying question."""
    plan = Plan(candidates=("the first", "the second"))
    return TurnEnd(outcome="clarification", answer=say("assistant", question), plan=plan)


def broken_off(code: str = "interrupted") -> TurnEnd:
    """Return the end of a turn without an answer."""
    return TurnEnd(outcome="failed", error=Problem(code=code, message="The connection was lost.", hint="Try again."))


def slice_of(
    text: str,
    words: str,
    *,
    side: ChunkSide = "user",
    chunk_type: ChunkType = "Other",
    embedding: Embedding | None = None,
) -> NewChunk:
    """Return a chunk at the position of these words in a text."""
    start = text.index(words)
    return NewChunk(
        side=side,
        start=start,
        end=start + len(words),
        summary=f"about {words}",
        chunk_type=chunk_type,
        token_est=len(words) // 4,
        embedding=embedding,
    )


def embedding(namespace: str, *numbers: float) -> Embedding:
    """Return an embedding with these numbers."""
    import numpy as np

    row = np.array(numbers, np.float32)
    return Embedding(model=namespace, dim=len(numbers), values=packed(row))


async def new_branch(store: Store, new: NewSession | None = None) -> Branch:
    """Create a session and return the id of its first branch."""
    session = await store.sessions.create(new or NewSession())
    branch = await store.branches.get(session.active_branch)
    assert branch is not None, "a session has its active branch from the start"
    return branch


async def respond(store: Store, turn: Turn, answer: str = "answer", owner: WorkerId = WORKER) -> Turn:
    """Advance an accepted turn to ResponseFinalized."""
    await store.turns.prepare(turn.id, owner)
    step = new_step()
    await store.turns.open_step(turn.id, owner, step)
    return await store.turns.finalise(turn.id, owner, turn_end(step, answer))


async def commit_turn(store: Store, turn: Turn) -> State:
    """Commit a final turn on top of the head as it is."""
    head = await store.states.head(turn.branch_id)
    draft = StateDraft(branch_id=turn.branch_id, reason="turn", turn_id=turn.id)
    return await store.states.commit(draft, expected_head=head.id)


async def final_turn(
    store: Store, branch_id: BranchId, question: str, answer: str = "answer", owner: WorkerId = WORKER
) -> Turn:
    """Accept and answer a message; the turn is not committed yet."""
    turn = await store.turns.accept(new_turn(branch_id, question, owner))
    return await respond(store, turn, answer, owner)


async def answer_turn(
    store: Store, branch_id: BranchId, question: str, answer: str = "answer", owner: WorkerId = WORKER
) -> Turn:
    """Advance a turn through all phases: accepted, answered, committed, indexed."""
    turn = await final_turn(store, branch_id, question, answer, owner)
    await commit_turn(store, turn)
    await store.chunks.index(turn.id, ())
    return await current(store, turn)


async def failed_turn(store: Store, branch_id: BranchId, question: str, owner: WorkerId = WORKER) -> Turn:
    """Accept a message whose turn fails."""
    turn = await store.turns.accept(new_turn(branch_id, question, owner))
    return await store.turns.fail(turn.id, owner, broken_off())


async def turn_in(store: Store, branch_id: BranchId, phase: Phase) -> Turn:
    """Create a turn and advance it to a phase, by the calls that lead there."""
    if phase is Phase.DONE:
        return (await store.turns.record(branch_id, [exchange("question", "answer")]))[0]
    turn = await store.turns.accept(new_turn(branch_id, "question"))
    if phase is Phase.FAILED:
        return await store.turns.fail(turn.id, WORKER, broken_off())
    if phase in (Phase.CONTEXT_PREPARED, Phase.RESPONDING):
        await store.turns.prepare(turn.id, WORKER)
    if phase is Phase.RESPONDING:
        await store.turns.open_step(turn.id, WORKER, new_step())
    if phase in (Phase.RESPONSE_FINALIZED, Phase.STATE_COMMITTED, Phase.INDEXED):
        await respond(store, turn)
    if phase in (Phase.STATE_COMMITTED, Phase.INDEXED):
        await commit_turn(store, turn)
    if phase is Phase.INDEXED:
        await store.chunks.index(turn.id, ())
    return await current(store, turn)


async def current(store: Store, turn: Turn) -> Turn:
    """Return the current turn."""
    found = await store.turns.get(turn.id)
    assert found is not None, f"turn {turn.id} is gone"
    return found


async def said(store: Store, branch_id: BranchId) -> list[str]:
    """Return all user messages of a branch, oldest first."""
    turns = await store.turns.history(branch_id, limit=1_000_000)
    return [turn.user_message.rendered_text for turn in turns]


async def later_than(moment: datetime) -> None:
    """Wait until the clock is at least a millisecond past this time."""
    while now() <= moment:  # noqa: ASYNC110  nothing tells when a clock ticks
        await asyncio.sleep(0)
