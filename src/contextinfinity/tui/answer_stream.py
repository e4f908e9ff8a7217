"""One message on its way: what the engine reports about it becomes a ``LiveTurn``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from contextinfinity.domain.events import FinishedTurn, TurnDone, TurnFailed, TurnStarted
from contextinfinity.tui.live_turn import LiveTurn
from contextinfinity.tui.open_conversation import NEW, OpenConversation

if TYPE_CHECKING:
    from contextinfinity.client.contract import SendFields, StampedEvent


class AnswerStream:
    """Sends a message, or joins a turn that is being answered, and follows it to its end."""

    def __init__(self, conversation: OpenConversation, live: LiveTurn) -> None:
        self.live = live
        self.finished: FinishedTurn | None = None
        self.failure: TurnFailed | None = None
        self.heard = monotonic()
        """When something came last."""
        self._conversation = conversation
        self._wants_stop = False

    async def send(
        self, text: str, started: Callable[[TurnStarted], Awaitable[None]], **more: Unpack[SendFields]
    ) -> None:
        """Send a message and follow the answer; ``started`` is awaited when the message is durable."""
        conversation = self._conversation
        fields = conversation.send_fields()
        fields.update(more)
        send = conversation.client.conversations.send(conversation.thread_id or NEW, text, **fields)
        await self._follow(send, started)

    async def join(self, turn_id: str) -> None:
        """Follow a turn that was begun elsewhere."""
        self.live.turn_id = turn_id
        await self._follow(self._conversation.client.conversations.watch(turn_id), None)

    async def stop(self) -> None:
        """Stop the answer; what was shown is kept."""
        self._wants_stop = True
        if self.live.turn_id is not None:
            await self._conversation.call(self._conversation.client.conversations.cancel(self.live.turn_id))

    async def _follow(
        self, events: AsyncIterator[StampedEvent], started: Callable[[TurnStarted], Awaitable[None]] | None
    ) -> None:
        async for batch in self._conversation.thread.stream(events):
            self.heard = monotonic()
            for stamped in batch:
                event = stamped.event
                self.live.take(event)
                if isinstance(event, TurnStarted):
                    if self._wants_stop:
                        await self.stop()
                    if started is not None:
                        await started(event)
                elif isinstance(event, TurnDone):
                    self.finished = event.turn
                elif isinstance(event, TurnFailed):
                    self.failure = event
