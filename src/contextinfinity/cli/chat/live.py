"""The bottom of a terminal: finished lines scroll away, unfinished ones are redrawn in place.

Only changed lines are written, in one write, so nothing flickers; the main screen is used, so everything stays in the
scrollback. When the window gets narrower, the terminal wraps the lines that are there; they are counted as it shows
them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from contextinfinity.text.terminal.control_characters import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MARGIN = 3
"""Columns left free at the right: for the mark, and for signs that a terminal shows wider than they are."""


class Live:
    """The unfinished lines at the bottom of the screen. Thread-safe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: list[tuple[str, int]] = []  # each line as it was written, and how wide it is
        self._lock = threading.RLock()

    @property
    def width(self) -> int:
        """The maximum width of a line."""
        return max(_size().columns - MARGIN, 10)

    def draw(self, finished: Sequence[Text], tail: Sequence[Text]) -> None:
        """Print finished lines and draw the unfinished ones below; if these are too many, the last of them."""
        with self._lock, undivided():
            drawn = self._as_written([*tail[-max(_size().lines - 2, 1) :]])
            _write(self._replacement(self._as_written(finished) + drawn, ends=not drawn))
            self._drawn = drawn

    def above(self, text: str) -> None:
        """Print a line above the unfinished ones."""
        with self._lock, undivided():
            kept, line = self._drawn, (text, 0)
            _write(self._replacement([line, *kept], ends=not kept))
            self._drawn = kept

    def _as_written(self, lines: Sequence[Text]) -> list[tuple[str, int]]:
        """Convert lines to terminal output; only styles become escape sequences."""
        with self._console.capture() as captured:
            for line in lines:
                line.plain = printable(line.plain.replace("\n", " "))
                self._console.print(line, soft_wrap=True, end="\n")
        written = captured.get().split("\n")
        return [(one, line.cell_len) for one, line in zip(written, lines, strict=False)]

    def _replacement(self, lines: list[tuple[str, int]], *, ends: bool) -> str:
        """Return the output that replaces the drawn lines; the cursor ends after the last, or below a complete one."""
        same = 0
        for old, new in zip(self._drawn, lines, strict=False):
            if old != new:
                break
            same += 1
        same = min(same, max(len(lines) - 1, 0), max(len(self._drawn) - 1, 0))
        size = _size()
        rows = sum(max(1, -(-width // size.columns)) for _, width in self._drawn[same:])
        up = min(rows - 1, size.lines - 1)
        back = ("\r" + (f"\x1b[{up}A" if up > 0 else "")) if self._drawn else ""
        # Line by line: some terminals keep what one erases from the top of the screen on in their scroll-back.
        end = "\r\n\x1b[J" if ends and lines else "\x1b[J"
        return back + "\r\n".join(f"\x1b[K{text}" for text, _ in lines[same:]) + end


def _size() -> os.terminal_size:
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except OSError:
        size = os.terminal_size((80, 24))
    return size if size.columns and size.lines else os.terminal_size((80, 24))


def _write(text: str) -> None:
    screen = sys.__stdout__ or sys.stdout
    screen.write(text)
    screen.flush()


@contextmanager
def undivided() -> Iterator[None]:
    """Delay Ctrl-C until the block is done, because a partial drawing could not be continued."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda *call: waiting.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting and callable(before):
        before(*waiting[0])
