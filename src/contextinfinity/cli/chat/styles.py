"""What a person sees and types: the plain face, for every terminal, and the drawn one, for those that can."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from contextinfinity.cli.chat.keyboard import is_dumb

if TYPE_CHECKING:
    from contextinfinity.cli.answer_output import Hear

PROMPT = "> "
NARROW = 30
"""Columns below which nothing is drawn."""

Offers: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]
"""Given what stands before the cursor, tells what its last word may become, and how to show that."""


class ChatView(Protocol):
    """One side of a conversation with a person."""

    @property
    def typed(self) -> bool:
        """Whether anything was typed at the last prompt; to be asked when Ctrl-C ended it."""
        ...

    def read(self, words: str = "") -> str | None:
        """Read a message that begins with these words; None when there are no more."""
        ...

    def keep_typed(self, thread: str | None) -> None:
        """Keep what was typed since the last call for the next start, under its conversation where that is known."""
        ...

    def answering(self) -> AbstractContextManager[Hear]:
        """Show an answer: whatever is told inside the ``with``. All of it stands there at its end."""
        ...

    def note(self, text: str) -> None:
        """Tell something beside the answers."""
        ...

    def kept(self, account: str) -> None:
        """Tell that an answer is safe, and what it took."""
        ...

    def recall(self, question: str, answer: str, most: int) -> None:
        """Show again what was said, of the answer no more than ``most`` lines."""
        ...


def choose(*, plain: bool, history: Path, offers: Offers) -> ChatView:
    """Give the face that suits the terminal."""
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
