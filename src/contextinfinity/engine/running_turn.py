"""The options of a message, the in-memory state of the turn that answers it, and the watching of any turn.

``watch`` yields the events of a turn from any position, while it runs and afterwards. The journals are the event
stream. A watcher reads them step by step from its own position; the turn does not wait for it. In the process that runs
the turn a watcher is notified at once; other processes poll the ledger. After a journal was removed (an hour after its
end) the last event still contains the complete text.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from contextinfinity.domain.events import (
    CallStreamed,
    Clarification,
    CompactionEvent,
    Delta,
    Durability,
    Event,
    FinishedTurn,
    Reasoned,
    Retrying,
    StepStarted,
    ToolCalled,
    TurnDone,
    TurnFailed,
)
from contextinfinity.domain.ids import BranchId, ChunkId, StepId, TurnId, now
from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.message import Json, ReasoningItem, UnknownItem
from contextinfinity.domain.prompt import CallPiece, RequestOptions, ToolSpec, WorkspaceText
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import OPEN_PHASES, PARAGRAPH, UNFINISHED, NewStep, Phase, Step, Turn, TurnEnd
from contextinfinity.errors import NotFound, TurnLost
from contextinfinity.storage.journal import CALL_PIECE, END, REASONING, Journal, JournalEntry, JournalFolder, event_id
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.telemetry.figures import note_turn

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


LOOK_SECONDS = 0.05
"""The interval for retrying what another task of this process is about to change."""
POLL_SECONDS = 5 * LOOK_SECONDS
"""The polling interval for changes by other processes."""


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
        """Notified whenever the turn changes, and when it ends."""
        self.ended = False
        self.readers = 0
        """The number of watchers in this process."""

    def move(self, turn: Turn) -> None:
        """Update the turn and notify its watchers."""
        if self.turn.outcome is None:
            note_turn(turn)
        self.turn = turn
        if self.journal is not None and turn.phase not in UNFINISHED:
            self.journal.show()  # the ledger has the answer
        self.news.notify()

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


LOOK_SECONDS = 0.05
"""The polling interval for a turn that runs in another process."""
COPY_TIME = timedelta(seconds=2)
"""How long the last entries of a journal may take to come from another host after its step has ended."""


class StampedEvent(Struct, frozen=True, kw_only=True):
    """An event and its id; events that cannot be resumed from have none."""

    event: Event
    id: str | None = None


def finished(turn: Turn) -> FinishedTurn:
    """Convert a turn that has ended into its public form."""
    return FinishedTurn(
        thread_id=turn.session_id,
        branch_id=turn.branch_id,
        turn_id=turn.id,
        turn_seq=turn.turn_seq if turn.has_place else None,
        phase=turn.phase,
        outcome=turn.outcome or "completed",
        text=turn.text,
        usage=turn.usage,
        model=turn.model,
        created_at=turn.created_at,
        error=turn.error,
        durability=UNSET if turn.durability == "ledger" else turn.durability,
    )


@dataclass
class _Place:
    """The position of a watcher: the step, its last journal entry, and whether the journal has ended there."""

    index: int
    seq: int
    at_end: bool = False

    def next_step(self) -> None:
        self.index, self.seq, self.at_end = self.index + 1, 0, False


@dataclass(frozen=True, kw_only=True)
class _ProviderCall:
    """The data of a provider call that a watcher needs."""

    id: StepId
    step_index: int
    provider: str
    model_id: str
    is_over: bool
    ended_at: datetime | None = None

    @classmethod
    def of(cls, step: Step | NewStep, *, is_over: bool) -> _ProviderCall:
        return cls(
            ended_at=step.ended_at if isinstance(step, Step) else None,
            id=step.id,
            step_index=step.step_index,
            provider=step.provider,
            model_id=step.model_id,
            is_over=is_over,
        )


async def watch(
    turns: Turns,
    journals: JournalFolder,
    turn_id: TurnId,
    running: RunningTurn | None,
    after: tuple[int, int] = (0, 0),
    *,
    deltas: bool = True,
    reasoning: bool = False,
) -> AsyncIterator[StampedEvent]:
    """Yield the events of a turn after a position; without ``deltas`` only its end, which reads no journal.

    With ``reasoning`` also the model's reasoning and its tool calls while they are streamed.
    """
    place, announced = _Place(*after), after[0] if after[1] else -1
    counts: Durability | None = None
    if running is not None:
        running.readers += 1
    try:
        while True:
            news = None if running is None else running.news.listen()
            turn, step = _seen_here(running, place.index) or await _look(turns, turn_id, place.index)
            if deltas and step is not None:
                if announced < place.index:
                    announced = place.index
                    yield StampedEvent(event=_started(step))
                is_here = running is not None and not running.ended
                async for stamped in _follow(turns, journals, turn_id, step, place, is_here=is_here):
                    counts = stamped.event if isinstance(stamped.event, Durability) else counts
                    if reasoning or not isinstance(stamped.event, Reasoned | CallStreamed):
                        yield stamped
                if place.at_end or step.is_over or turn.phase not in OPEN_PHASES:
                    place.next_step()
                    continue  # otherwise its journal has not started yet
            elif turn.phase is not Phase.ACCEPTED and turn.phase not in OPEN_PHASES:
                break
            if running is not None and running.journal is not None:
                with suppress(TurnLost):  # the worker that has the turn ends it
                    running.journal.check()  # raises if the disk is full: the end could not be written either
            await _wait(news)
    finally:
        if running is not None:
            running.readers -= 1
    if counts is not None and counts.durable < counts.displayed:  # the ledger has the text
        yield StampedEvent(event=Durability(displayed=counts.displayed, durable=counts.displayed))
    if turn.outcome == "clarification":
        plan = await turns.plan(turn.id)
        yield StampedEvent(event=Clarification.of(turn.text, plan.candidates if plan else ()))
    if turn.error is not None:
        yield StampedEvent(event=TurnFailed(code=turn.error.code, message=turn.error.message, hint=turn.error.hint))
    yield StampedEvent(event=TurnDone(turn=finished(turn)))


async def end_of(events: AsyncIterator[StampedEvent]) -> FinishedTurn:
    """Wait for the last event of a turn and return the finished turn."""
    async for stamped in events:
        if isinstance(stamped.event, TurnDone):
            return stamped.event.turn
    raise NotFound("The event stream of the turn ended without a final event.")  # unreachable: a turn always ends


def _seen_here(running: RunningTurn | None, index: int) -> tuple[Turn, _ProviderCall | None] | None:
    """Return the turn and the call at ``index`` from this process's memory; None: read the ledger.

    The ledger is read after the turn ended here unfinished: another worker may have taken it over.
    """
    if running is None or (running.ended and running.turn.phase in UNFINISHED):
        return None
    opened = running.opened[index : index + 1]
    call = next((_ProviderCall.of(step, is_over=len(running.opened) > index + 1) for step in opened), None)
    return running.turn, call


async def _look(turns: Turns, turn_id: TurnId, index: int) -> tuple[Turn, _ProviderCall | None]:
    """Read the turn and its step at ``index`` from the ledger; raise ``NotFound`` for an unknown turn."""
    turn = await turns.get(turn_id)
    if turn is None:
        raise NotFound(f"There is no turn {turn_id}.")
    steps = await turns.steps(turn_id, first=index)
    return turn, next((_ProviderCall.of(step, is_over=step.outcome is not None) for step in steps), None)


async def _follow(
    turns: Turns,
    journals: JournalFolder,
    turn_id: TurnId,
    step: _ProviderCall,
    place: _Place,
    *,
    is_here: bool,
) -> AsyncIterator[StampedEvent]:
    """Yield the events of one step after a position, with durability events if this process writes its journal."""

    async def is_over() -> bool:
        turn, call = await _look(turns, turn_id, step.step_index)
        if call is not None and call.ended_at is not None:
            return now() - call.ended_at > COPY_TIME
        return call is None or turn.phase not in OPEN_PHASES

    async for entry in journals.follow(step.id, place.seq, is_over, is_written_here=is_here):
        if isinstance(entry, Durability):
            yield StampedEvent(event=entry)
            continue
        place.seq, place.at_end = entry.seq, entry.event_type == END
        if (event := _event(entry)) is not None:
            yield StampedEvent(event=event, id=event_id(step.step_index, entry.seq))


def _event(entry: JournalEntry) -> Event | None:
    """Convert a journal entry into an event; None for entries that watchers do not see."""
    payload = entry.payload
    match entry.event_type:
        case "text":
            text = PARAGRAPH + payload["text"] if payload.get("new_paragraph") else payload["text"]
            return Delta(text=text, logprobs=payload.get("logprobs"))
        case str() if entry.event_type == CALL_PIECE:
            return CallStreamed(piece=msgspec.convert(payload, CallPiece))
        case str() if entry.event_type == REASONING:
            return Reasoned(item=msgspec.convert(payload, ReasoningItem | UnknownItem))
        case "call":
            return ToolCalled(call_id=payload["call_id"], name=payload["name"], arguments=payload["arguments"])
        case "output":
            failed = payload.get("is_error", False)
            return ToolCalled(
                call_id=payload["call_id"], name=payload["name"], output=payload["output"], is_error=failed
            )
        case "retry":
            return Retrying(attempt=payload["attempt"], reason=payload["reason"], wait_seconds=payload["wait_seconds"])
    return None


def _started(step: _ProviderCall) -> StepStarted:
    return StepStarted(step_id=step.id, step_index=step.step_index, provider=step.provider, model=step.model_id)


async def _wait(news: asyncio.Event | None) -> None:
    """Wait for a notification (at most one second), or for the next poll if there is none."""
    if news is None:
        await asyncio.sleep(LOOK_SECONDS)
    else:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # unlike wait_for, it needs no task
                await news.wait()
