"""The plain view: every character is printed once, in order. For screen readers and old terminals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contextinfinity.cli.chat.keyboard import keyboard_of_readline
from contextinfinity.cli.chat.styles import PROMPT
from contextinfinity.cli.output import print_notice, say
from contextinfinity.text.plurals import counted

if TYPE_CHECKING:
    from contextinfinity.cli.answer_output import EventHandler


class PlainView:
    """``ChatView`` that prints line after line."""

    def __init__(self) -> None:
        self.typed = False

    def read(self, words: str = "") -> str | None:
        """Read a message; a backslash at the end of a line goes on with the next."""
        print_notice("")
        self.typed = False
        lines = [self._line(PROMPT, words)]
        while lines[-1] is not None and lines[-1].endswith("\\"):
            lines.append(self._line(" " * len(PROMPT)))
        return None if lines[0] is None else "\n".join(line.removesuffix("\\") for line in lines if line is not None)

    def keep_typed(self, thread: str | None) -> None:
        """Store nothing: the plain prompt has no history."""

    @contextmanager
    def answering(self) -> Iterator[EventHandler]:
        """Print an answer as it arrives."""
        from contextinfinity.cli.answer_output import PlainAnswer

        plainly = PlainAnswer()
        try:
            yield plainly.on_event
        finally:
            if plainly.in_line:
                say("\n")

    def note(self, text: str) -> None:
        """Print a line."""
        print_notice(text)

    def show_cost(self, account: str) -> None:
        """Print the cost of an answer."""
        print_notice(f"({account})")

    def recall(self, question: str, answer: str, most: int) -> None:
        """Print an earlier exchange."""
        lines = answer.splitlines()
        more = [f"… {counted(len(lines) - most, 'more line')}"] if len(lines) > most else []
        print_notice("\n".join(["", f"{PROMPT}{question}", *lines[:most], *more]))

    def _line(self, prompt: str, words: str = "") -> str | None:
        import readline  # gives input() arrow keys and a history

        readline.parse_and_bind("set enable-bracketed-paste on")
        readline.set_startup_hook(lambda: readline.insert_text(words))
        try:
            with keyboard_of_readline():
                return input(prompt)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.typed = bool(readline.get_line_buffer())
            raise
        finally:
            readline.set_startup_hook(None)
            sys.stdout.flush()
