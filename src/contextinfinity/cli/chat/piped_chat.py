"""Lines from a pipe: every line is a question, and stdout receives only the answers.

Ctrl-C stops a running answer, which is kept as far as it came; a second one within two seconds, before the next
question, leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from contextinfinity.cli.answer_output import Answer, PlainAnswer, has_failed, print_outcome
from contextinfinity.cli.attachments import content_of
from contextinfinity.cli.chat.keyboard import InterruptToLeave
from contextinfinity.cli.output import print_json, print_notice, say
from contextinfinity.errors import ContextInfinityError, InvalidInput

if TYPE_CHECKING:
    from contextinfinity.cli.attachments import Attachment
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields
    from contextinfinity.domain.events import FinishedTurn


class PipedChat:
    """A conversation, line by line."""

    def __init__(
        self, work: EngineThread, thread: str, how: SendFields, *, as_json: bool, files: Sequence[Attachment] = ()
    ) -> None:
        self._work = work
        self._thread = thread
        self._how = how
        self._as_json = as_json
        self._files = list(files)
        """What goes along with the first question."""
        self._leaving = InterruptToLeave()
        self.failures = 0

    def run(self) -> None:
        """Answer line after line until the input ends."""
        while True:
            try:
                line = _next_line()
            except KeyboardInterrupt:
                self._interrupted()
                continue
            except InvalidInput as error:
                self._failed(error)
                continue
            if line is None:
                return
            if line.strip():
                self._leaving.forget()
                self._answer(line)

    def _answer(self, line: str) -> None:
        answer = Answer(self._work, self._thread, content_of(line, self._files), self._how)
        self._files.clear()
        try:
            turn = answer.wait(None if self._as_json else PlainAnswer().on_event)
        except ContextInfinityError as error:  # the next line may do better
            return self._failed(error)
        if answer.stopped:
            self._leaving.pressed()
        self._thread = turn.thread_id
        self._finish(turn)
        self.failures += has_failed(turn)
        if not self._as_json:
            print_outcome(self._work, turn)
        return None

    def _finish(self, turn: FinishedTurn) -> None:
        if self._as_json:
            print_json(turn, indent=None)
        elif turn.text:
            say("" if turn.text.endswith("\n") else "\n")

    def _interrupted(self) -> None:
        """Leave at the second Ctrl-C in a row."""
        if self._leaving.pressed():
            raise KeyboardInterrupt
        print_notice("\nCtrl-C again leaves.")

    def _failed(self, error: ContextInfinityError) -> None:
        self.failures += 1
        print_notice(str(error))


def _next_line() -> str | None:
    """Read a line as UTF-8, whatever the locale."""
    line = sys.stdin.buffer.readline()
    try:
        return line.decode("utf-8").rstrip("\r\n") if line else None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"A line is not UTF-8 text: {line[:60]!r}.", hint="It was left out.") from error
