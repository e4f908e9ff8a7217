"""The answers of the open conversation: sending, following, stopping, asking again, and the header above them.

What the engine reports about a message on its way becomes a ``LiveTurn``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from textual.worker import Worker

from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.events import FinishedTurn, TurnDone, TurnFailed, TurnStarted
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import ContextInfinityError
from contextinfinity.tui.live_turn import LiveTurn
from contextinfinity.tui.open_conversation import NEW, OpenConversation

if TYPE_CHECKING:
    from contextinfinity.client.contract import SendFields, StampedEvent
    from contextinfinity.tui.workbench_app import WorkbenchApp


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


logger = logging.getLogger(__name__)

IDLE_SECONDS = 3.0
"""How often the branch is read again when nothing is known to happen: another process may write to it."""
QUIET_SECONDS = 1.0
"""After how long without an event of the answer to check that the engine is there."""
BUSY = "An answer is still being generated; Ctrl+C stops it."
LEAVING_SECONDS = 2.0
"""Within how long a second Ctrl+C leaves."""


class Answers:
    """At most one answer comes at a time in the open conversation; leaving it lets the answer go on in the engine."""

    def __init__(self, app: WorkbenchApp) -> None:
        self._app = app
        self.note = ""
        """What is wrong with the whole picture, for the header."""
        self._stream: AnswerStream | None = None
        self._lost: LiveTurn | None = None
        self._worker: Worker[None] | None = None
        self._drawn: object = None
        self._pressed = 0.0
        self._refreshing = False
        self._refreshed = 0.0

    @property
    def live(self) -> LiveTurn | None:
        """The turn that is being answered, or was answered and could not be read from the ledger since."""
        return self._lost if self._stream is None else self._stream.live

    # --- sending ---

    def send(self, text: str, **more: Unpack[SendFields]) -> bool:
        """Send a message; return whether it was taken: not while another answer comes."""
        if not self._app.is_ready:
            self._app.notify("The engine is still starting.", severity="warning")
            return False
        if self._stream is not None:
            self._app.notify(BUSY, severity="warning")
            return False
        stream = self._begin(text)
        self._run(stream, stream.send(text, self._started, **more), text)
        return True

    def join(self, turn: ShownTurn) -> None:
        """Follow a turn of this conversation that is being answered already."""
        stream = self._begin(turn.user)
        stream.live.seq = turn.turn_seq
        self._run(stream, stream.join(turn.turn_id), "")

    def leave(self) -> None:
        """Stop following; the answer goes on in the engine."""
        if self._worker is not None:
            self._worker.cancel()
        self._stream = self._worker = self._lost = None
        self._app.transcript.show_live(None)

    def _begin(self, question: str) -> AnswerStream:
        live, self._lost = LiveTurn(question, self._app.console, self._app.look), None
        self._stream = AnswerStream(self._app.conversation, live)
        self._app.transcript.show_live(live)
        self._app.show_conversation()
        return self._stream

    def _run(self, stream: AnswerStream, following: Awaitable[None], text: str) -> None:
        self._worker = self._app.run_worker(
            self._follow(stream, following, text),
            group="answer",
            exit_on_error=False,
        )

    async def _follow(self, stream: AnswerStream, following: Awaitable[None], text: str) -> None:
        try:
            await following
        except Exception as error:
            self._app.notify(str(error), severity="error", timeout=12)
            if stream.live.turn_id is None and text:  # nothing was stored, so that the words are not lost
                self._app.composer.give_back(text)
            if not isinstance(error, ContextInfinityError):
                logger.exception("following an answer failed")
        if self._stream is stream:
            await self._end(stream)

    async def _started(self, event: TurnStarted) -> None:
        """The message is durable: show the conversation that it began."""
        conversation = self._app.conversation
        conversation.attached.clear()
        if conversation.thread_id is None:
            await conversation.open(event.thread_id, event.branch_id)
            self._app.sidebar.reload()
        await conversation.refresh(below=event.turn_seq)
        self._app.transcript.show_turns(conversation.pages)
        self._app.sidebar.mark(conversation.thread_id)

    async def _end(self, stream: AnswerStream) -> None:
        """Put the stored turn in the place of the one that was drawn as it came, unless it cannot be read."""
        conversation, live = self._app.conversation, stream.live
        self._stream = self._worker = None
        try:
            await conversation.refresh()
        except ContextInfinityError as error:
            self._lost = live
            live.lose("Disconnected", f"DISCONNECTED: {error}")
            return
        if self._is_stored(live):
            self._app.transcript.show_live(None)
        else:
            self._lost = live
            live.lose("Spooled", "SPOOLED: the ledger cannot be written; the turn is kept beside it.")
        self._app.transcript.show_turns(conversation.pages)
        self._app.sidebar.reload()
        self._app.show_conversation()

    def _is_stored(self, live: LiveTurn) -> bool:
        """Return whether the ledger has a turn, or never got its message."""
        return live.turn_id is None or live.turn_id in [turn.turn_id for turn in self._app.conversation.newest]

    # --- what keys ask for ---

    def stop_or_leave(self) -> None:
        """Stop the answer; with none, leave when asked twice."""
        if self._stream is not None:
            self._app.run_worker(self._stream.stop(), group="stop", exit_on_error=False)
            self._app.notify("Stopping; what was shown is kept.")
            return
        now = monotonic()
        if now - self._pressed < LEAVING_SECONDS:
            self._app.exit()
        self._pressed = now
        self._app.notify("Press Ctrl+C again or Ctrl+Q to leave.")

    def ask_again(self, turn: ShownTurn | None = None) -> None:
        """Ask a question again: a failed one in its place, an answered one on a new branch."""
        self._app.run_worker(self._ask_again(turn), exit_on_error=False)

    async def _ask_again(self, turn: ShownTurn | None) -> None:
        try:
            turn = turn or await self._app.conversation.turn()
        except ContextInfinityError as error:
            self._app.notify(str(error), severity="error")
            return
        if self._stream is not None:
            self._app.notify(BUSY, severity="warning")
        elif turn is None:
            self._app.notify("There is no question to ask again.", severity="warning")
        elif turn.outcome in ("failed", "incomplete") and turn == self._app.conversation.newest[-1]:
            self.send(turn.user, retry_of=turn.turn_id)
        else:
            await self.ask_instead(turn, turn.user)

    async def ask_instead(self, turn: ShownTurn, question: str) -> None:
        """Go back to before a turn on a new branch and ask something in its place; the old branch stays."""
        conversation = self._app.conversation
        back = conversation.client.threads.rollback(
            turn.thread_id, to=turn.turn_seq - 1, branch_id=conversation.branch_id
        )
        try:
            made = await conversation.call(back)
        except ContextInfinityError as error:
            self._app.notify(str(error), severity="error")
            return
        if await self._app.go_to(turn.thread_id, made.branch_id):
            self.send(question)

    def commit_pending(self) -> None:
        """Commit answered turns now."""
        if self._app.conversation.thread_id is not None:
            self._app.run_worker(self._commit(self._app.conversation.thread_id), exit_on_error=False)

    async def _commit(self, thread_id: str) -> None:
        conversation = self._app.conversation
        try:
            committed = await conversation.call(
                conversation.client.threads.commit(thread_id, branch_id=conversation.branch_id)
            )
        except ContextInfinityError as error:
            self._app.notify(str(error), severity="error")
            return
        self._app.notify(f"The head is state {committed.state}; {committed.pending} pending.")
        await self.refresh()

    # --- what is shown of it ---

    async def follow_jobs(self) -> None:
        """Read the branch again: soon while jobs of the newest turn run, now and then otherwise.

        While an answer comes, check that the engine can be reached if nothing has come of it for a moment.
        """
        if self._stream is not None:
            await self._check(self._stream)
            return
        newest = self._app.conversation.newest
        settled = not newest or newest[-1].phase in (Phase.DONE, Phase.FAILED)
        if not settled or monotonic() - self._refreshed >= IDLE_SECONDS:
            await self.refresh()

    async def _check(self, stream: AnswerStream) -> None:
        if self._refreshing or monotonic() - stream.heard < QUIET_SECONDS:
            return
        self._refreshing = True
        try:
            health = await self._app.conversation.call(self._app.conversation.client.health())
        finally:
            self._refreshing = False
        if self._stream is stream:
            self.note = "NOT CONNECTED" if health.status == "unready" else ""

    async def refresh(self) -> None:
        """Read the branch again, unless an answer comes or a read is under way."""
        conversation = self._app.conversation
        if self._refreshing or self._stream is not None or conversation.thread_id is None:
            return
        self._refreshing, self._refreshed, was = True, monotonic(), self.note
        try:
            changed = await conversation.refresh()
        except ContextInfinityError:
            self.note = "NOT UP TO DATE"  # the next read shows whether it is better; the health panel says why
            return
        finally:
            self._refreshing = False
        self.note = ""
        if self._stream is None:
            if self._lost is not None and self._is_stored(self._lost):
                self.leave()
            self._app.transcript.show_turns(conversation.pages)
            self.draw_header(always=True)
            if was:
                self._app.sidebar.reload()
            if (changed or was) and self._app.panel is not None:
                self._app.panel.follow()
            if (running := conversation.running) is not None:
                self.join(running)

    def draw_header(self, *, always: bool = False) -> None:
        """Draw the header again if what it shows has changed."""
        live = self.live
        now = (self.note, live and (live.phase, live.displayed, live.durable))
        if always or now != self._drawn:
            self._drawn = now
            self._app.header.show(self._app.conversation, live, self._app.look, self.note)
