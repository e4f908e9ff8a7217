"""A client that sends its whole conversation every time, and what a ledger keeps of it."""

from __future__ import annotations

from typing import Any

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import (
    ContentBlock,
    Message,
    TextBlock,
)
from contextinfinity.domain.prefix_hash import number_of
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.resent_history import ResentHistory
from contextinfinity.engine.running_turn import SendOptions, Terms
from contextinfinity.engine.sent_conversation import SentConversation
from tests.scenarios.desk import Desk

ANN = Owner(user_id="ann")
LONG = "What is the best way to water a garden in a dry summer when the well gives less each week? Case "
"""Three of these are more than the characters by which a trimmed conversation is recognised."""


class Chatter:
    """A stateless-API client: it keeps all messages and sends them with each request."""

    def __init__(
        self, desk: Desk, *, system: str = "Be brief.", end_user: str = "", thread_id: str | None = None
    ) -> None:
        self.desk, self.talks, self.system, self.thread_id = desk, ResentHistory(desk.engine), system, thread_id
        self.end_user = end_user
        self.messages: list[Message] = []

    async def send(self, *content: str | ContentBlock, keep: bool = True, **more: Any) -> Turn:
        blocks = tuple(TextBlock(text=one) if isinstance(one, str) else one for one in content)
        messages = [*self.messages, Message(role="user", blocks=blocks)]
        turn = await self.post(messages, **more)
        if keep and turn.answer is not None:
            self.messages = [*messages, turn.answer]
        return turn

    async def post(
        self, messages: list[Message], *, is_retry: bool = False, key: int | None = None, terms: Terms | None = None
    ) -> Turn:
        talk = SentConversation(
            messages=tuple(messages),
            end_user=self.end_user,
            thread_id=self.thread_id,
            body=number_of(repr((messages, terms)).encode()),
            is_retry=is_retry,
            key=key,
        )
        asked = SendOptions(may_ask_back=False, terms=terms or Terms(system=self.system))
        turn, _ = await self.talks.begin(talk, ANN, asked)
        return await ended(self.desk, turn.id)


async def ended(desk: Desk, turn_id: TurnId) -> Turn:
    async for _ in desk.engine.watch(turn_id):
        pass
    turn = await desk.engine.store.turns.get(turn_id)
    assert turn is not None
    return turn


async def kept(desk: Desk, thread_id: str) -> dict[str, list[str]]:
    """Return the turns that belong to each branch of a thread."""
    store = desk.engine.store
    branches = await store.branches.list(thread_id)
    return {
        branch.id: [turn.user_message.rendered_text for turn in await store.turns.history(branch.id, limit=100)]
        for branch in branches
    }


async def threads(desk: Desk, owner: Owner = ANN) -> int:
    return len(await desk.engine.store.sessions.list(owner))
