"""One question and its answer at the command line, shared by ``ask`` and ``chat``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.cli.output import remark
from contextinfinity.cli.thread_choice import place
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields
    from contextinfinity.domain.events import Event, FinishedTurn, Retrying, ToolCalled
    from contextinfinity.domain.ids import TurnId

NEW = "new"
REASONS = {
    "length": 'it reached the most tokens the model may write; ask it to "go on"',
    "filter": "the provider's content filter stopped it",
}
"""Why an answer is incomplete, by the reason a step keeps."""

Hear: TypeAlias = Callable[["Event", bool], None]
"""Takes what happens, and whether more has come already."""


class Answer:
    """A question under way: ``wait`` hears it to its end, and the first Ctrl-C stops it. The second goes through."""

    def __init__(self, work: EngineThread, thread_id: str, question: str, how: SendFields) -> None:
        self._work = work
        self._events = work.each(work.client.conversations.send(thread_id, question, **how))
        self._turn_id: TurnId | None = None
        self.thread_id: str | None = None
        self.stopped = False

    def wait(self, hear: Hear | None) -> FinishedTurn:
        """Tell what happens as it comes, and give the finished turn."""
        while True:
            try:
                if (turn := self._listen(hear)) is not None:
                    return turn
            except KeyboardInterrupt:
                if self.stopped:
                    raise
                self.stopped = True
                self._stop()

    def _listen(self, hear: Hear | None) -> FinishedTurn | None:
        from contextinfinity.domain.events import TurnDone, TurnStarted

        for stamped in self._events:
            event = stamped.event
            if isinstance(event, TurnStarted):
                self._turn_id, self.thread_id = event.turn_id, event.thread_id
                if self.stopped:
                    self._stop()
            elif isinstance(event, TurnDone):
                return event.turn
            if hear is not None:
                hear(event, self._events.more)
        if self._turn_id is None:
            raise KeyboardInterrupt  # the interrupt swallowed the only event that names the turn
        return self._work.do(self._work.client.conversations.cancel(self._turn_id))

    def _stop(self) -> None:
        """Ask for the end, if it is known by now of what; its events still come."""
        if self._turn_id is not None:
            self._work.begin(self._work.client.conversations.cancel(self._turn_id))


class PlainAnswer:
    """Shows an answer as it comes, word for word; what goes on beside it gets a line of its own."""

    def __init__(self) -> None:
        self.in_line = False

    def hear(self, event: Event, more: bool = False) -> None:
        """Show what happens, if it is to be seen."""
        from contextinfinity.cli.output import say
        from contextinfinity.domain.events import Clarification, Delta, Retrying, ToolCalled

        if isinstance(event, Delta):
            say(event.text)
            self.in_line = not event.text.endswith("\n")
        elif isinstance(event, Clarification):
            say(event.question)
            self.in_line = True
        elif isinstance(event, ToolCalled | Retrying):
            remark(f"\n{aside(event)}" if self.in_line else aside(event))
            self.in_line = False


def aside(event: ToolCalled | Retrying) -> str:
    """Say in a line what goes on beside the answer."""
    from contextinfinity.cli.output import one_line
    from contextinfinity.domain.events import Retrying

    if isinstance(event, Retrying):
        wait = f" Again in {event.wait_seconds:.0f} s." if event.wait_seconds >= 0.5 else ""
        return f"[{event.reason}{wait}]"
    if event.output is None:
        return one_line(f"[{event.name} {json.dumps(event.arguments, ensure_ascii=False)}]")
    return one_line(f"[{event.name} {'failed' if event.is_error else 'done'}]")


def way(
    work: EngineThread, means: CommonOptions, session: str, branch: str | None, model: str | None
) -> tuple[str, SendFields]:
    """Find out where a question goes and how: (thread, how to send)."""
    if model is not None:
        check_model(model, work.do(work.client.conversations.models()))
    how: SendFields = {"user_id": means.named_user, "model": model}
    if session == NEW:
        if branch is not None:
            raise InvalidInput("A new session has no branches to choose from.", hint="Name one with --session.")
        return NEW, how
    thread_id, how["branch_id"] = place(work, means, session, branch)
    return thread_id, how


def has_failed(turn: FinishedTurn) -> bool:
    """Tell whether a turn ended without the answer one asked for, by no wish of the user's."""
    return turn.outcome == "failed" or turn.error is not None


def why_incomplete(work: EngineThread, turn_id: TurnId) -> str:
    """Say why an answer is incomplete, as the provider said it of the last request."""
    steps = work.do(work.client.conversations.turn(turn_id)).steps
    reason = getattr(steps[-1].outcome, "reason", "") if steps else ""
    return f"The answer is incomplete: {REASONS.get(reason, reason or 'the provider gave no reason')}."


def remark_on(work: EngineThread, turn: FinishedTurn) -> None:
    """Say how a turn ended, where its text does not show it."""
    if turn.error is not None:
        remark(f"{turn.error.message} {turn.error.hint}".rstrip())
    elif turn.outcome == "cancelled":
        remark("[stopped]")
    elif turn.outcome == "incomplete":
        remark(f"[{why_incomplete(work, turn.turn_id)}]")
    elif turn.outcome == "paused":
        remark("[the model waits for its tools]")


def check_model(model: str, known: tuple[str, ...]) -> None:
    """Refuse a model nobody knows before a person has typed a question for it."""
    if model not in known:
        raise InvalidInput(
            f"There is no model {model!r}; there are: {', '.join(known)}.",
            hint="Name it under [models] in config.toml.",
        )
