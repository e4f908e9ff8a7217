"""One question and its answer at the command line, shared by ``ask`` and ``chat``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.cli.places import place
from contextinfinity.cli.printing import remark
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.options import Means
    from contextinfinity.cli.working import Work
    from contextinfinity.client.contract import How
    from contextinfinity.domain.events import Event, FinishedTurn, Retrying, ToolCalled
    from contextinfinity.domain.ids import TurnId

NEW = "new"

Show: TypeAlias = Callable[[str], None]


class Answer:
    """A question under way: ``wait`` hears it to its end, and the first Ctrl-C stops it. The second goes through."""

    def __init__(self, work: Work, thread_id: str, question: str, how: How) -> None:
        self._work = work
        self._events = work.each(work.client.conversations.send(thread_id, question, **how))
        self._turn_id: TurnId | None = None
        self.stopped = False
        self._in_line = False

    def wait(self, show: Show | None) -> FinishedTurn:
        """Show the answer as it comes, with what goes on beside it, and give the finished turn."""
        while True:
            try:
                if (turn := self._hear(show)) is not None:
                    return turn
            except KeyboardInterrupt:
                if self.stopped:
                    raise
                self.stopped = True
                self._stop()

    def _hear(self, show: Show | None) -> FinishedTurn | None:
        from contextinfinity.domain.events import TurnDone, TurnStarted

        for stamped in self._events:
            event = stamped.event
            if isinstance(event, TurnStarted):
                self._turn_id = event.turn_id
                if self.stopped:
                    self._stop()
            elif isinstance(event, TurnDone):
                return event.turn
            elif show is not None:
                self._show(event, show)
        if self._turn_id is None:
            raise KeyboardInterrupt  # the interrupt swallowed the only event that names the turn
        return self._work.do(self._work.client.conversations.cancel(self._turn_id))

    def _show(self, event: Event, show: Show) -> None:
        """Show a piece of the answer; what goes on beside it gets a line of its own."""
        from contextinfinity.domain.events import Delta, Retrying, ToolCalled

        if isinstance(event, Delta):
            show(event.text)
            self._in_line = not event.text.endswith("\n")
        elif isinstance(event, ToolCalled | Retrying):
            remark(f"\n{_aside(event)}" if self._in_line else _aside(event))
            self._in_line = False

    def _stop(self) -> None:
        """Ask for the end, if it is known by now of what; its events still come."""
        if self._turn_id is not None:
            self._work.begin(self._work.client.conversations.cancel(self._turn_id))


def _aside(event: ToolCalled | Retrying) -> str:
    """Say in a line what goes on beside the answer."""
    from contextinfinity.cli.printing import one_line
    from contextinfinity.domain.events import Retrying

    if isinstance(event, Retrying):
        wait = f" Again in {event.wait_seconds:.0f} s." if event.wait_seconds >= 0.5 else ""
        return f"[{event.reason}{wait}]"
    if event.output is None:
        return one_line(f"[{event.name} {json.dumps(event.arguments, ensure_ascii=False)}]")
    return one_line(f"[{event.name} {'failed' if event.is_error else 'done'}]")


def way(work: Work, means: Means, session: str, branch: str | None, model: str | None) -> tuple[str, How]:
    """Find out where a question goes and how: (thread, how to send)."""
    _check_model(work, model)
    how: How = {"user_id": means.user, "model": model}
    if session == NEW:
        if branch is not None:
            raise InvalidInput("A new session has no branches to choose from.", hint="Name one with --session.")
        return NEW, how
    thread_id, how["branch_id"] = place(work, means, session, branch)
    return thread_id, how


def has_failed(turn: FinishedTurn) -> bool:
    """Tell whether a turn ended without the answer one asked for, by no wish of the user's."""
    return turn.outcome == "failed" or turn.error is not None


def remark_on(turn: FinishedTurn) -> None:
    """Say how a turn ended, where its text does not show it."""
    if turn.error is not None:
        remark(f"{turn.error.message} {turn.error.hint}".rstrip())
    elif turn.outcome == "cancelled":
        remark("[stopped]")
    elif turn.outcome == "incomplete":
        remark("[the answer is incomplete]")
    elif turn.outcome == "paused":
        remark("[the model waits for its tools]")


def _check_model(work: Work, model: str | None) -> None:
    """Refuse a model nobody knows before a person has typed a question for it."""
    known = work.do(work.client.conversations.models())
    if model is not None and model not in known:
        raise InvalidInput(
            f"There is no model {model!r}; there are: {', '.join(known)}.",
            hint="Name it under [models] in config.toml.",
        )
