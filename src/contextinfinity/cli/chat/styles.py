"""The two views of a chat: the plain one, for every terminal, and the drawn one, for capable terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from contextinfinity.cli.chat.keyboard import is_dumb

if TYPE_CHECKING:
    from contextinfinity.cli.answer_output import EventHandler

PROMPT = "> "
NARROW = 30
"""Columns below which nothing is drawn."""

Offers: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]
"""Given the text before the cursor, returns the completions of its last word, and how to show that."""


class ChatView(Protocol):
    """Input and output of a chat with a person."""

    @property
    def typed(self) -> bool:
        """Whether anything was typed at the last prompt; read after Ctrl-C ended it."""
        ...

    def read(self, words: str = "") -> str | None:
        """Read a message that starts with this text; None at the end of input."""
        ...

    def keep_typed(self, thread: str | None) -> None:
        """Store what was typed since the last call, with its conversation where known."""
        ...

    def answering(self) -> AbstractContextManager[EventHandler]:
        """Show an answer from the events inside the ``with``; it is complete on the screen at its end."""
        ...

    def note(self, text: str) -> None:
        """Show a notice beside the answers."""
        ...

    def show_cost(self, account: str) -> None:
        """Show that an answer is stored, and its cost."""
        ...

    def recall(self, question: str, answer: str, most: int) -> None:
        """Show an earlier exchange, at most ``most`` lines of the answer."""
        ...


def choose(*, plain: bool, history: Path, offers: Offers) -> ChatView:
    """Return the view that suits the terminal."""
    from contextinfinity.cli.chat.plain import PlainView

    if plain or not _can_draw():
        return PlainView()
    from contextinfinity.cli.chat.input import Input
    from contextinfinity.cli.chat.terminal_view import TerminalView

    return TerminalView(Input(history, offers))


def _can_draw() -> bool:
    """Return whether the terminal moves its cursor, can show the characters we draw with, and has room for them."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns or NARROW
    except OSError:
        columns = NARROW
    return not is_dumb() and encoding == "utf8" and columns >= NARROW
