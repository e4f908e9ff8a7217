"""Route a message without sending it: nothing is written, and no model is called."""

from __future__ import annotations

from dataclasses import replace

from contextinfinity.domain.ids import BranchId, new_id, now
from contextinfinity.domain.message import Message
from contextinfinity.domain.route import Route
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.clarify import ClarificationRequest
from contextinfinity.engine.engine_setup import rewrite_offline
from contextinfinity.engine.model_choice import choose, home_of
from contextinfinity.engine.parts import Parts
from contextinfinity.engine.recall import PriorContext, recall
from contextinfinity.engine.running_turn import RunningTurn, SendOptions
from contextinfinity.engine.turn import gather_from


async def route_of(parts: Parts, session: Session, branch_id: BranchId, message: Message, asked: SendOptions) -> Route:
    """Return the route that a message in a conversation would take, with the reason."""
    parts = _without_model(parts)
    branch = await parts.store.branches.get(branch_id)
    running = RunningTurn(_turn(session, branch_id, 1 if branch is None else branch.last_turn_seq + 1, message), asked)
    running.cancelled.set()  # do not wait for turns that are still running
    return await _route(parts, running, await recall(parts, running))


async def route_of_first(parts: Parts, owner: Owner, message: Message, asked: SendOptions) -> Route:
    """Return the route that the first message of a new conversation would take, with the reason."""
    parts, thread_id, branch = _without_model(parts), new_id(), new_id()
    session = Session(
        id=thread_id, owner=owner, kind="thread", active_branch=branch, created_at=now(), updated_at=now()
    )
    state = State(
        id=new_id(),
        session_id=thread_id,
        branch_id=branch,
        state_seq=0,
        turn_seq=0,
        covers_turn_seq=0,
        reason="root",
        created_at=now(),
    )
    home = home_of(parts, asked, owner, None)
    recalled = PriorContext(session=session, state=state, earlier=[], last=None, home=home)
    return await _route(parts, RunningTurn(_turn(session, branch, 1, message), asked), recalled)


async def _route(parts: Parts, running: RunningTurn, recalled: PriorContext) -> Route:
    gathered = await gather_from(parts, running, recalled)
    if isinstance(gathered, ClarificationRequest):
        return Route(
            model=None,
            reason=f"It would be answered with a clarifying question: {gathered.doubt.question}",
            home=recalled.home.name,
        )
    return choose(parts, running.turn, running.asked, gathered)


def _without_model(parts: Parts) -> Parts:
    """Replace the configured rewriter by the offline one, so that no model is called."""
    rewriting = parts.setup.rewriting
    if rewriting is None:
        return parts
    setup = replace(parts.setup, rewriting=replace(rewriting, rewrite=rewrite_offline))
    return replace(parts, setup=setup)


def _turn(session: Session, branch_id: BranchId, turn_seq: int, message: Message) -> Turn:
    return Turn(
        id=new_id(),
        session_id=session.id,
        branch_id=branch_id,
        turn_seq=turn_seq,
        phase=Phase.ACCEPTED,
        state_before=new_id(),
        user_message=message,
        created_at=now(),
        updated_at=now(),
    )
