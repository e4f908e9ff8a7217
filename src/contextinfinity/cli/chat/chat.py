"""``cix chat``: question after question, from a terminal or a pipe.

From a pipe every line is a question, and stdout gets the answers and nothing else. On a terminal there is a prompt;
Ctrl-C stops a running answer, which is kept as far as it came; a second Ctrl-C before the next question leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from contextinfinity.cli.options import Branch, Means, Model, Session, command
from contextinfinity.errors import ContextInfinityError, InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.working import Events, Work
    from contextinfinity.client.contract import How
    from contextinfinity.domain.events import CompactionEvent, FinishedTurn

PROMPT = "> "
QUIT = "/quit"

NextLine = Callable[[], str | None]
"""Gives the next line without its end, or None when there are no more."""


@command
def chat(means: Means, session: Session = "new", branch: Branch = None, model: Model = None) -> None:
    """Talk with a model; lines from a pipe work too, one answer each."""
    from contextinfinity.cli.answering import way
    from contextinfinity.cli.weights import prepare
    from contextinfinity.cli.working import working

    on_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not means.as_json
    prepare(means, model, greet=not means.as_json)
    with working(means) as work:
        thread, how = way(work, means, session, branch, model)
        talk = Chat(work, thread, how, as_json=means.as_json)
        if on_terminal:
            talk.greet()
        try:
            if on_terminal:
                folds = work.each(work.client.folds.follow())
                talk.go_on(lambda: _typed(folds), quit_word=QUIT)
            else:
                talk.go_on(_piped, quit_word=None)
        finally:
            if on_terminal:
                talk.part()
    if talk.failures and not on_terminal:
        raise typer.Exit(1)


class Chat:
    """A conversation with a person, line by line."""

    def __init__(self, work: Work, thread: str, how: How, *, as_json: bool) -> None:
        self._work = work
        self._thread = thread
        self._how = how
        self._as_json = as_json
        self._interrupts = 0
        self.failures = 0

    def greet(self) -> None:
        """Say where we are, and what was said last."""
        from contextinfinity.cli.answering import NEW
        from contextinfinity.cli.printing import remark

        remark(f"Ctrl-C stops an answer; {QUIT} or Ctrl-D ends.")
        if self._thread == NEW:
            return
        branch = self._how.get("branch_id")
        shown = self._work.do(self._work.client.conversations.show(self._thread, branch_id=branch, limit=1))
        remark(f"session {shown.thread_id}, {shown.turns[-1].turn_seq if shown.turns else 0} turns so far")
        for turn in shown.turns:
            remark(f"\n{PROMPT}{turn.user}\n{turn.assistant}\n")

    def go_on(self, next_line: NextLine, *, quit_word: str | None) -> None:
        """Answer line after line until there are no more."""
        while True:
            try:
                line = next_line()
            except KeyboardInterrupt:
                self._interrupted()
                continue
            except InvalidInput as error:
                self._failed(error)
                continue
            if line is None or line.strip() == quit_word:
                return
            if line.strip():
                self._interrupts = 0
                self._answer(line)

    def part(self) -> None:
        """Say how to come back."""
        from contextinfinity.cli.answering import NEW
        from contextinfinity.cli.printing import remark

        if self._thread != NEW:
            remark(f"\nsession {self._thread}; continue with --session last")

    def _answer(self, line: str) -> None:
        from contextinfinity.cli.answering import Answer, has_failed, remark_on
        from contextinfinity.cli.printing import say

        answer = Answer(self._work, self._thread, line, self._how)
        try:
            turn = answer.wait(None if self._as_json else say)
        except ContextInfinityError as error:  # the next line may do better
            return self._failed(error)
        self._interrupts = int(answer.stopped)
        self._thread = turn.thread_id
        self._finish(turn)
        self.failures += has_failed(turn)
        if not self._as_json:
            remark_on(turn)
        return None

    def _finish(self, turn: FinishedTurn) -> None:
        from contextinfinity.cli.printing import print_json, say

        if self._as_json:
            print_json(turn, indent=None)
        elif turn.text:
            say("" if turn.text.endswith("\n") else "\n")

    def _interrupted(self) -> None:
        """Leave at the second Ctrl-C in a row; a slip of the hand costs nothing."""
        from contextinfinity.cli.printing import remark

        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        remark(f"\nCtrl-C again leaves, so do Ctrl-D and {QUIT}.")

    def _failed(self, error: ContextInfinityError) -> None:
        from contextinfinity.cli.printing import remark

        self.failures += 1
        remark(str(error))


def _typed(folds: Events[CompactionEvent]) -> str | None:
    """Read a line from the terminal, with the keys people expect; first tell what was folded meanwhile."""
    import readline  # makes input() know arrows and history

    from contextinfinity.cli.printing import remark

    readline.parse_and_bind("set enable-bracketed-paste on")  # what was pasted stays one message
    typer.echo(err=True)
    notices = {event.branch_id: _notice(event) for event in folds.so_far()}
    for notice in filter(None, notices.values()):
        remark(notice)
    try:
        return input(PROMPT)
    except EOFError:
        return None


def _notice(event: CompactionEvent) -> str | None:
    """Say in words what happened to the word-for-word part; what came to nothing is passed over."""
    from contextinfinity.domain.events import CompactionCompleted, CompactionFailed, CompactionStarted

    if isinstance(event, CompactionStarted):
        return "(Older turns are being folded into the summary; go on.)"
    if isinstance(event, CompactionFailed):
        return f"(Folding failed and is tried again: {event.message})"
    if isinstance(event, CompactionCompleted) and event.case != "none":
        tokens = f"{event.tokens_before} → {event.tokens_after} tokens"
        return f"(Turns 1 to {event.covers_turn_seq} are in the summary now, {tokens}; `cix fold --undo` undoes it.)"
    return None


def _piped() -> str | None:
    """Read a line from a pipe or a file, as UTF-8 wherever we are."""
    line = sys.stdin.buffer.readline()
    try:
        return line.decode("utf-8").rstrip("\r\n") if line else None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"A line is no text in UTF-8: {line[:60]!r}.", hint="It was left out.") from error
