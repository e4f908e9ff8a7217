"""An answer as it is written: pieces of text in, lines for the screen out.

What is finished is given once and never again; the rest, the tail, is given anew each time. Code is finished line by
line, everything else piece by piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextinfinity.text.terminal.control_characters import tame
from contextinfinity.text.terminal.markdown_pieces import (
    MarkdownPiece,
    pieces_of,
    with_marks_closed,
    without_bare_marks,
)
from contextinfinity.text.terminal.markup import code_rows, lines_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LONGEST = 16_000
"""The signs of one piece that are read again with each new word; a longer one is cut, whatever it is."""


class StreamedAnswer:
    """The text of one answer, as far as it has come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rest = ""
        self._gap: list[Text] = []  # what stands before the first piece of the rest
        self._rows_given = 0  # of that piece, if it is code

    def add(self, text: str) -> None:
        """Take in a piece of it."""
        self._rest = (self._rest + text).replace("\r\n", "\n")

    def lines(self, width: int, *, over: bool = False) -> tuple[list[Text], list[Text]]:
        """Give what is finished since the last time, and the tail; where it is ``over`` there is none.

        More may follow what is over: it begins a new piece.
        """
        text = tame(self._rest)  # sign by sign: a place in one is a place in the other
        text = text if over else without_bare_marks(text)
        pieces = pieces_of(text)
        last = None if over or not pieces else pieces.pop()
        finished = [line for piece in pieces for line in self._finish(piece, width)]
        if last is not None:
            self._rest = self._rest[last.begins :]
            more, tail = self._last(text[last.begins :], last, width)
            return finished + more, tail
        self._rest = "" if over else self._rest
        return finished, []

    def _finish(self, piece: MarkdownPiece, width: int) -> list[Text]:
        """Give what was not given yet of a piece, with what stands before it."""
        rows = self._rows(piece, width)[self._rows_given :]
        lines = [*self._before(piece), *(line for row in rows for line in row)]
        self._gap, self._rows_given = self._blank(), 0
        return lines

    def _last(self, text: str, piece: MarkdownPiece, width: int) -> tuple[list[Text], list[Text]]:
        """Write the piece that can still change."""
        self._gap = self._before(piece)
        if piece.node.type == "fence":
            return self._code(text, piece, width)
        if len(text) > LONGEST:
            self._rest = self._rest[len(text) :]
            return self._finish(piece, width), []
        shown = pieces_of(with_marks_closed(text)) or [piece]
        return [], [*self._gap, *lines_of(shown[-1].node, self._console, width)]

    def _code(self, text: str, piece: MarkdownPiece, width: int) -> tuple[list[Text], list[Text]]:
        """Write code that can still grow: whole lines of it are finished."""
        rows = self._rows(piece, width) if piece.node.content else []
        whole = len(rows) - (not text.endswith("\n"))
        finished = [line for row in rows[self._rows_given : whole] for line in row]
        tail = [line for row in rows[max(whole, 0) :] for line in row]
        if not finished:
            return [], [*self._gap, *tail] if tail else []
        finished, self._gap, self._rows_given = [*self._gap, *finished], [], whole
        if len(text) > LONGEST and not _is_closed(text, piece.node.markup):
            begin, end = text.index("\n") + 1, text.rindex("\n") + 1
            self._rest, self._rows_given = self._rest[:begin] + self._rest[end:], 0
        return finished, tail

    def _rows(self, piece: MarkdownPiece, width: int) -> list[list[Text]]:
        """Write a piece in rows that are given one by one: code has one a line."""
        if piece.node.type == "fence":
            return list(code_rows(piece.node, self._console, width))
        return [lines_of(piece.node, self._console, width)]

    def _before(self, piece: MarkdownPiece) -> list[Text]:
        return [] if piece.goes_on else self._gap

    def _blank(self) -> list[Text]:
        from rich.text import Text

        return [Text()]


def _is_closed(text: str, fence: str) -> bool:
    return text.rstrip().rpartition("\n")[2].strip() == fence
