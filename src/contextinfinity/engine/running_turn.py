"""A message on its way: the options it was sent with, and the turn that is being answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.ids import BranchId, ChunkId, StepId, TurnId
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import NewStep, Turn, TurnEnd
from contextinfinity.domain.workspace_prompt import WorkspaceText
from contextinfinity.storage.journal import Journal
from contextinfinity.telemetry.turn_metrics import note_turn

MOST_UNHEARD = 100
"""How many events are kept for one who follows and is slow."""


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
    """What a caller decides who brings their own instructions, tools and wishes; calls of tools are theirs to run."""

    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    response_format: Json = None
    wishes: RequestOptions = RequestOptions()
    form: str = ""
    """The wire form that the caller speaks (``domain.sent_form``)."""
    sent: Json = None
    """The system text and the tools as they were sent (``Prompt.sent``)."""
    params: Json = None
    """The other parameters as they were sent, and headers, for a provider of the same wire: {params, headers}."""
    only_last: int | None = None
    """Show so many earlier turns and nothing else: the caller wants just what they sent."""


class SendOptions(Struct, frozen=True, kw_only=True):
    """How a message is sent and answered, beyond what it says and in which thread."""

    user_id: str | None = None
    org_id: str | None = None
    branch_id: BranchId | None = None
    model: str | None = None
    """The model that the caller names; None: the router chooses."""
    use_memory: bool = True
    use_query_rewriter: bool = True
    may_ask_back: bool = True
    attach: tuple[ChunkId, ...] = ()
    retry_of: TurnId | None = None
    key: str | None = None
    """The caller's own name of the request: one that comes again under its key joins the turn it made."""
    metadata: Json = None
    """Kept with the turn, as a JSON object."""
    terms: Terms | None = None
    """What a client of ``/v1`` brings along."""
    workspace: WorkspaceText | None = None
    """The files and symbols of the repository that the conversation is about."""

    @property
    def owner(self) -> Owner:
        """The owner of a thread that the message creates."""
        return self.acting or Owner()

    @property
    def acting(self) -> Owner | None:
        """Return the owner that look-ups are limited to; None if the caller named none."""
        return acting_owner(self.user_id, self.org_id)


def acting_owner(user_id: str | None, org_id: str | None) -> Owner | None:
    """Return the owner that a caller names; None if they name neither user nor organisation."""
    return None if user_id is None and org_id is None else Owner(user_id=user_id or "local", org_id=org_id or "")


class TurnNotification:
    """An event that others wait for, again and again.

    A task takes the present event first, looks, and then waits for it, so that it misses nothing in between.
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def listen(self) -> asyncio.Event:
        """Take the event that the next ``tell`` will set."""
        return self._next

    def tell(self) -> None:
        """Wake everybody who listens."""
        self._next.set()
        self._next = asyncio.Event()


class Broadcast:
    """Sends the events of folds to every follower; a slow follower loses the oldest ones."""

    def __init__(self) -> None:
        self._followers: list[deque[CompactionEvent]] = []
        self._news = TurnNotification()

    def tell(self, event: CompactionEvent) -> None:
        """Tell all who follow."""
        for follower in self._followers:
            follower.append(event)
        self._news.tell()

    async def follow(self) -> AsyncIterator[CompactionEvent]:
        """Give what happens from now on."""
        heard = deque[CompactionEvent](maxlen=MOST_UNHEARD)
        self._followers.append(heard)
        try:
            while True:
                news = self._news.listen()
                while heard:
                    yield heard.popleft()
                await news.wait()
        finally:
            self._followers.remove(heard)


class Cancellation(asyncio.Event):
    """Set when somebody wants a turn stopped; ``stops`` is the work that is cancelled by it."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: asyncio.Task[Any] | None = None

    def set(self) -> None:
        """Ask for the turn to be stopped."""
        if self.stops is not None and not self.is_set():
            self.stops.cancel()
        super().set()


class RunningTurn:
    """A turn that is being answered in this process, as its watchers see it."""

    def __init__(self, turn: Turn, asked: SendOptions | None = None) -> None:
        self.turn = turn
        self.asked = asked or SendOptions()
        self.steps: list[StepId] = []
        self.opened: list[NewStep] = []
        """The calls that are durable, the one under way among them."""
        self.rounds = 0
        """How often its model was asked again after tools were run."""
        self.has_spoken = False
        """Whether an earlier step said something in words."""
        self.tools_ran = False
        """Whether tools ran since the last words."""
        self.notes: dict[str, Json] = {}
        """What is added to the turn's metadata when it ends."""
        self.latency_ms: dict[str, float] = {}
        self.journal: Journal | None = None
        self.cancelled = Cancellation()
        self.news = TurnNotification()
        self.ended = False
        self.readers = 0
        """How many watch it in this process."""

    def move(self, turn: Turn) -> None:
        """Note where the turn stands now."""
        if self.turn.outcome is None:
            note_turn(turn)
        self.turn = turn
        self.news.tell()

    def noted(self, end: TurnEnd) -> TurnEnd:
        """Add what was noted and measured here to the end of the turn."""
        return replace(end, metadata=self.notes, latency_ms=dict(self.latency_ms))

    def end(self) -> None:
        """Say that nothing more will come."""
        self.ended = True
        self.news.tell()
