"""One question and its answer at the command line, for ``ask`` and ``chat``, and the conversation it belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.cli.output import print_notice
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import Content, SendFields
    from contextinfinity.domain.events import Event, FinishedTurn, Retrying, ToolCalled
    from contextinfinity.domain.ids import BranchId, SessionId, TurnId


def place(
    work: EngineThread, options: CommonOptions, thread: str, branch: str | None = None
) -> tuple[SessionId, BranchId | None]:
    """Return the ids of a conversation and, if one is named, its branch."""
    threads = work.client.threads
    thread_id = work.do(threads.find(thread, options.owner)).thread_id
    if branch is None:
        return thread_id, None
    return thread_id, work.do(threads.find_branch(thread_id, branch)).branch_id


NEW = "new"
REASONS = {
    "length": 'it reached the maximum number of tokens the model may write; ask it to "go on"',
    "filter": "the provider's content filter stopped it",
}
"""Why an answer is incomplete, by the reason a step keeps."""

EventHandler: TypeAlias = Callable[["Event", bool], None]
"""Handles an event; the flag says whether more events are pending."""


class Answer:
    """A running question. The first Ctrl-C during ``wait`` cancels it; the second raises ``KeyboardInterrupt``."""

    def __init__(self, work: EngineThread, thread_id: str, question: Content, how: SendFields) -> None:
        self._work = work
        self._events = work.each(work.client.conversations.send(thread_id, question, **how))
        self._turn_id: TurnId | None = None
        self.thread_id: str | None = None
        self.stopped = False

    def wait(self, on_event: EventHandler | None) -> FinishedTurn:
        """Pass events to ``hear`` as they arrive, and return the finished turn."""
        while True:
            try:
                if (turn := self._listen(on_event)) is not None:
                    return turn
            except KeyboardInterrupt:
                if self.stopped:
                    raise
                self.stopped = True
                self._stop()

    def _listen(self, on_event: EventHandler | None) -> FinishedTurn | None:
        from contextinfinity.domain.events import TurnDone, TurnStarted

        for stamped in self._events:
            event = stamped.event
            if isinstance(event, TurnStarted):
                self._turn_id, self.thread_id = event.turn_id, event.thread_id
                if self.stopped:
                    self._stop()
            elif isinstance(event, TurnDone):
                return event.turn
            if on_event is not None:
                on_event(event, self._events.more)
        if self._turn_id is None:
            raise KeyboardInterrupt  # the interrupt swallowed the only event that names the turn
        return self._work.do(self._work.client.conversations.cancel(self._turn_id))

    def _stop(self) -> None:
        """Request cancellation if the turn's id is known; its events still arrive."""
        if self._turn_id is not None:
            self._work.begin(self._work.client.conversations.cancel(self._turn_id))


class PlainAnswer:
    """Prints an answer as it streams; tool calls and retries are printed on separate lines."""

    def __init__(self) -> None:
        self.in_line = False

    def on_event(self, event: Event, more: bool = False) -> None:
        """Print an event, if it is visible."""
        from contextinfinity.cli.output import say
        from contextinfinity.domain.events import Clarification, Delta, Retrying, ToolCalled

        if isinstance(event, Delta):
            say(event.text)
            self.in_line = not event.text.endswith("\n")
        elif isinstance(event, Clarification):
            say(event.question)
            self.in_line = True
        elif isinstance(event, ToolCalled | Retrying):
            print_notice(f"\n{describe_event(event)}" if self.in_line else describe_event(event))
            self.in_line = False


def describe_event(event: ToolCalled | Retrying) -> str:
    """Describe a tool call or retry in one line."""
    from contextinfinity.cli.output import one_line
    from contextinfinity.domain.events import Retrying

    if isinstance(event, Retrying):
        wait = f" Again in {event.wait_seconds:.0f} s." if event.wait_seconds >= 0.5 else ""
        return f"[{event.reason}{wait}]"
    if event.output is None:
        return one_line(f"[{event.name} {json.dumps(event.arguments, ensure_ascii=False)}]")
    return one_line(f"[{event.name} {'failed' if event.is_error else 'done'}]")


def conversation_and_options(
    work: EngineThread, options: CommonOptions, session: str, branch: str | None, model: str | None
) -> tuple[str, SendFields]:
    """Return (conversation, send options) for a question."""
    if model is not None:
        check_model(model, work.do(work.client.conversations.models()))
    fields: SendFields = {"user_id": options.named_user, "model": model}
    if session == NEW:
        if branch is not None:
            raise InvalidInput("A new conversation has no branches to choose from.", hint="Name one with --session.")
        return NEW, fields
    thread_id, fields["branch_id"] = place(work, options, session, branch)
    return thread_id, fields


def has_failed(turn: FinishedTurn) -> bool:
    """Return whether a turn ended without an answer, and not because the user cancelled it."""
    return turn.outcome == "failed" or turn.error is not None


def why_incomplete(work: EngineThread, turn_id: TurnId) -> str:
    """Return why an answer is incomplete, from the stop reason of the last request."""
    steps = work.do(work.client.conversations.turn(turn_id)).steps
    reason = getattr(steps[-1].outcome, "reason", "") if steps else ""
    return f"The answer is incomplete: {REASONS.get(reason, reason or 'the provider gave no reason')}."


def print_outcome(work: EngineThread, turn: FinishedTurn) -> None:
    """Print how a turn ended, if its text does not show it."""
    if turn.error is not None:
        print_notice(f"{turn.error.message} {turn.error.hint}".rstrip())
    elif turn.outcome == "cancelled":
        print_notice("[stopped]")
    elif turn.outcome == "incomplete":
        print_notice(f"[{why_incomplete(work, turn.turn_id)}]")
    elif turn.outcome == "paused":
        print_notice("[the model waits for its tools]")


def check_model(model: str, known: tuple[str, ...]) -> None:
    """Raise an error for an unknown model before the user types a question."""
    if model not in known:
        raise InvalidInput(
            f"There is no model {model!r}; there are: {', '.join(known)}.",
            hint="Name it under [models] in config.toml.",
        )
