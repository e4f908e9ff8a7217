"""Show which model would answer a message, and why: nothing is written, and no model is called."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from contextinfinity.domain.ids import BranchId, new_id, now
from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import Route
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.clarify import ClarificationRequest
from contextinfinity.engine.engine_setup import rewrite_offline
from contextinfinity.engine.gathering import Gathering
from contextinfinity.engine.model_choice import ModelChoice
from contextinfinity.engine.recall import PriorContext
from contextinfinity.engine.running_turn import RunningTurn, SendOptions
from contextinfinity.storage.contract import Store


@dataclass(frozen=True, kw_only=True)
class RoutePreview:
    """Shows the routes of messages that are not sent."""

    store: Store
    gathering: Gathering
    choice: ModelChoice

    async def next_message(self, session: Session, branch_id: BranchId, message: Message, asked: SendOptions) -> Route:
        """Return the route that a message in a conversation would take, with the reason."""
        branch = await self.store.branches.get(branch_id)
        running = RunningTurn(
            _unsent_turn(session, branch_id, 1 if branch is None else branch.last_turn_seq + 1, message), asked
        )
        running.cancelled.set()  # do not wait for turns that are still running
        return await self._route(running, await self.gathering.reader.read(running))

    async def first_message(self, owner: Owner, message: Message, asked: SendOptions) -> Route:
        """Return the route that the first message of a new conversation would take, with the reason."""
        thread_id, branch = new_id(), new_id()
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
        home = self.choice.home_of(asked, owner, None)
        recalled = PriorContext(session=session, state=state, earlier=[], last=None, home=home)
        return await self._route(RunningTurn(_unsent_turn(session, branch, 1, message), asked), recalled)

    async def _route(self, running: RunningTurn, recalled: PriorContext) -> Route:
        gathered = await _without_model(self.gathering).gather_from(running, recalled)
        if isinstance(gathered, ClarificationRequest):
            return Route(
                model=None,
                reason=f"It would be answered with a clarifying question: {gathered.doubt.question}",
                home=recalled.home.name,
            )
        return self.choice.choose(running.turn, running.asked, gathered)


def _without_model(gathering: Gathering) -> Gathering:
    """Replace the configured rewriter by the offline one, so that no model is called."""
    rewriting = gathering.setup.rewriting
    if rewriting is None:
        return gathering
    offline = dataclasses.replace(rewriting, rewrite=rewrite_offline)
    setup = dataclasses.replace(gathering.setup, rewriting=offline, follow_model=None)
    return dataclasses.replace(gathering, setup=setup)


def _unsent_turn(session: Session, branch_id: BranchId, turn_seq: int, message: Message) -> Turn:
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
