"""The options of a message, and the in-memory state of the turn that answers it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.ids import BranchId, ChunkId, StepId, TurnId
from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import UNFINISHED, NewStep, Turn, TurnEnd
from contextinfinity.domain.workspace_prompt import WorkspaceText
from contextinfinity.storage.journal import Journal
from contextinfinity.telemetry.turn_metrics import note_turn

MOST_UNHEARD = 100
"""The maximum number of buffered events for a slow follower."""


class SendFields(TypedDict, total=False):
    """The fields of ``SendOptions`` that ``send`` and ``ask`` take by name."""

    user_id: str | None
    org_id: str | None
    branch_id: BranchId | None
    model: str | None
    use_memory: bool
    use_query_rewriter: bool
    may_ask_back: bool
    attach: tuple[ChunkId, ...]
    retry_of: TurnId | None
    key: str | None
    metadata: Json
    workspace: WorkspaceText | None


class Terms(Struct, frozen=True, kw_only=True):
    """The terms of an API caller with its own instructions, tools and options; it runs the tool calls itself."""

    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    response_format: Json = None
    request_options: RequestOptions = RequestOptions()
    form: str = ""
    """The wire format of the caller (``domain.sent_form``)."""
    sent: Json = None
    """The system text and the tools as sent (``Prompt.sent``)."""
    params: Json = None
    """The other parameters and headers as sent, for a provider with the same wire format: {params, headers}."""
    only_last: int | None = None
    """Show this many earlier turns and nothing else: exactly what the caller sent."""


class SendOptions(Struct, frozen=True, kw_only=True):
    """The options of a message besides its content and thread."""

    user_id: str | None = None
    org_id: str | None = None
    branch_id: BranchId | None = None
    model: str | None = None
    """The requested model; None: the router chooses."""
    use_memory: bool = True
    use_query_rewriter: bool = True
    may_ask_back: bool = True
    attach: tuple[ChunkId, ...] = ()
    retry_of: TurnId | None = None
    key: str | None = None
    """The caller's idempotency key: a repeated request with the same key joins the first one's turn."""
    metadata: Json = None
    """Metadata to store with the turn, as a JSON object."""
    terms: Terms | None = None
    """The terms of a ``/v1`` client."""
    workspace: WorkspaceText | None = None
    """The files and symbols of the repository that the conversation is about."""

    @property
    def owner(self) -> Owner:
        """The owner of a thread that the message creates."""
        return self.acting or Owner()

    @property
    def acting(self) -> Owner | None:
        """The owner that look-ups are limited to; None if the caller named none."""
        return acting_owner(self.user_id, self.org_id)


def acting_owner(user_id: str | None, org_id: str | None) -> Owner | None:
    """Return the owner that a caller names; None if neither user nor organisation is given."""
    return None if user_id is None and org_id is None else Owner(user_id=user_id or "local", org_id=org_id or "")


class TurnNotification:
    """A repeatable notification.

    A task gets the current event first, checks its condition, and then waits for the event, so that it misses
    nothing.
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def listen(self) -> asyncio.Event:
        """Return the event that the next ``tell`` sets."""
        return self._next

    def notify(self) -> None:
        """Wake all waiters."""
        self._next.set()
        self._next = asyncio.Event()


class Broadcast:
    """Sends the events of folds to every follower; a slow follower loses the oldest ones."""

    def __init__(self) -> None:
        self._followers: list[deque[CompactionEvent]] = []
        self._news = TurnNotification()

    def notify(self, event: CompactionEvent) -> None:
        """Send an event to all followers."""
        for follower in self._followers:
            follower.append(event)
        self._news.notify()

    async def follow(self) -> AsyncIterator[CompactionEvent]:
        """Yield the events from now on."""
        unread = deque[CompactionEvent](maxlen=MOST_UNHEARD)
        self._followers.append(unread)
        try:
            while True:
                news = self._news.listen()
                while unread:
                    yield unread.popleft()
                await news.wait()
        finally:
            self._followers.remove(unread)


class Cancellation(asyncio.Event):
    """Set when a turn is to be cancelled; ``stops`` is the task that it cancels."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: asyncio.Task[Any] | None = None

    def set(self) -> None:
        """Request the cancellation of the turn."""
        if self.stops is not None and not self.is_set():
            self.stops.cancel()
        super().set()


class RunningTurn:
    """A turn that runs in this process, with the state that its watchers need."""

    def __init__(self, turn: Turn, asked: SendOptions | None = None) -> None:
        self.turn = turn
        self.asked = asked or SendOptions()
        self.steps: list[StepId] = []
        self.opened: list[NewStep] = []
        """The durable steps, including the current one."""
        self.rounds = 0
        """The number of rounds of the tool loop."""
        self.has_spoken = False
        """Whether an earlier step produced text."""
        self.tools_ran = False
        """Whether tools ran since the last text."""
        self.session: Session | None = None
        """Its conversation, as it was read last; None: not read yet."""
        self.before: Sequence[Turn] | None = None
        """The turns immediately before it that its index entry needs; None if they were not read."""
        self.notes: dict[str, Json] = {}
        """Metadata that is added to the turn when it ends."""
        self.latency_ms: dict[str, float] = {}
        self.journal: Journal | None = None
        self.cancelled = Cancellation()
        self.news = TurnNotification()
        self.answer_news = TurnNotification()
        """Notified only when the turn is answered, and when it ends."""
        self.ended = False
        self.readers = 0
        """The number of watchers in this process."""

    def move(self, turn: Turn) -> None:
        """Update the turn and notify its watchers."""
        if self.turn.outcome is None:
            note_turn(turn)
        self.turn = turn
        self.news.notify()
        if turn.phase not in UNFINISHED:
            self.answer_news.notify()

    def answered(self, turn: Turn, end: TurnEnd) -> AnsweredTurn | None:
        """Return the input of the finished turn's jobs; None if it has to be read from the ledger."""
        if self.session is None or self.before is None or turn.durability != "ledger":
            return None
        plan = self.opened[-1].plan if self.opened else end.plan
        return AnsweredTurn(turn=turn, session=self.session, earlier=tuple(self.before), plan=plan)

    def noted(self, end: TurnEnd) -> TurnEnd:
        """Add the collected metadata and latencies to the end of the turn."""
        return replace(end, metadata=self.notes, latency_ms=dict(self.latency_ms))

    def end(self) -> None:
        """Mark the turn as ended in this process and notify its watchers."""
        self.ended = True
        self.news.notify()
        self.answer_news.notify()
