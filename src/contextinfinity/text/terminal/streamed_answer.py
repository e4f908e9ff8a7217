"""Render a streamed answer: text deltas in, screen lines out.

Finished lines are returned once; the unfinished tail is returned again each time. Code is finished line by line,
everything else piece by piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.markdown_pieces import (
    MarkdownPiece,
    pieces_of,
    with_marks_closed,
    without_bare_marks,
)
from contextinfinity.text.terminal.markup import Column, code_rows, lines_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LONGEST = 16_000
"""The maximum number of characters of a piece that is rendered again with each delta; a longer one is split."""


class StreamedAnswer:
    """The text of one answer so far. ``plain``: without frames, for screen readers and simple terminals."""

    def __init__(self, console: Console, *, plain: bool = False) -> None:
        self._console = console
        self._plain = plain
        self._rest = ""
        self._gap: list[Text] = []  # printed before the first piece of the rest
        self._rows_given = 0  # rows of that piece, if it is code

    def add(self, text: str) -> None:
        """Append a text delta."""
        self._rest = (self._rest + text).replace("\r\n", "\n")

    def lines(self, width: int, *, over: bool = False) -> tuple[list[Text], list[Text]]:
        """Return the newly finished lines and the tail; with ``over``, everything is finished and the tail is empty.

        Text that is added afterwards starts a new piece.
        """
        text = printable(self._rest)  # one to one, so offsets stay valid
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
        """Return the lines of a piece that were not returned yet, with the gap before it."""
        rows = self._rows(piece, width)[self._rows_given :]
        lines = [*self._before(piece), *(line for row in rows for line in row)]
        self._gap, self._rows_given = self._blank(), 0
        return lines

    def _last(self, text: str, piece: MarkdownPiece, width: int) -> tuple[list[Text], list[Text]]:
        """Render the piece that can still change."""
        self._gap = self._before(piece)
        if piece.node.type == "fence":
            return self._code(text, piece, width)
        if len(text) > LONGEST:
            self._rest = self._rest[len(text) :]
            return self._finish(piece, width), []
        shown = pieces_of(with_marks_closed(text)) or [piece]
        return [], [*self._gap, *lines_of(shown[-1].node, self._column(width))]

    def _code(self, text: str, piece: MarkdownPiece, width: int) -> tuple[list[Text], list[Text]]:
        """Render code that can still grow: its complete lines are finished."""
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
        """Render a piece as rows; code has one row per line."""
        if piece.node.type == "fence":
            return list(code_rows(piece.node, self._column(width)))
        return [lines_of(piece.node, self._column(width))]

    def _column(self, width: int) -> Column:
        return Column(self._console, width, self._plain)

    def _before(self, piece: MarkdownPiece) -> list[Text]:
        return [] if piece.goes_on else self._gap

    def _blank(self) -> list[Text]:
        from rich.text import Text

        return [Text()]


def _is_closed(text: str, fence: str) -> bool:
    return text.rstrip().rpartition("\n")[2].strip() == fence
