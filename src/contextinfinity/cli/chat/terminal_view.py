"""The drawn view: Markdown as it streams, a mark for what is stored, and an editable prompt.

At the bottom of the terminal, finished lines scroll away and unfinished ones are redrawn in place. Only changed lines
are written, in one write, so nothing flickers; the main screen is used, so everything stays in the scrollback. When the
window gets narrower, the terminal wraps the lines that are there; they are counted as it shows them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import TextIOBase
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from contextinfinity.cli.chat.styles import PROMPT
from contextinfinity.text.plurals import counted
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.streamed_answer import StreamedAnswer

if TYPE_CHECKING:
    from contextinfinity.cli.answer_output import EventHandler
    from contextinfinity.cli.chat.input import Input
    from contextinfinity.domain.events import Event

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


MARKS = "○◔◑◕●"
"""How much of the shown text would survive a power cut: nothing yet, a quarter, half, three quarters, all."""
FRAME_SECONDS = 0.03
"""How long words gather before they are shown: drawing each for itself would take the time of the engine's thread."""


class TerminalView:
    """``ChatView`` of a terminal that can move its cursor."""

    def __init__(self, keys: Input) -> None:
        self._input = keys
        self._console = Console(highlight=False, markup=False, emoji=False)

    @property
    def typed(self) -> bool:
        """Whether anything was typed at the last prompt."""
        return self._input.typed

    def read(self, words: str = "") -> str | None:
        """Read a message."""
        self._console.print()
        return self._input.read(words)

    def keep_typed(self, thread: str | None) -> None:
        """Store what was typed for the next start."""
        self._input.keep_typed(thread)

    @contextmanager
    def answering(self) -> Iterator[EventHandler]:
        """Draw an answer as it arrives; other output goes above it."""
        drawing = TerminalDrawing(self._console)
        with self._input.reading_ahead(), redirect_stderr(_Above(drawing.live)):
            try:
                yield drawing.on_event
            finally:
                drawing.end()

    def note(self, text: str) -> None:
        """Print a notice in a dim style."""
        self._console.print(Text(printable(text), style="dim"))

    def show_cost(self, account: str) -> None:
        """Print the cost of an answer, after the mark that it is stored."""
        self.note(f"✓ {account}")

    def recall(self, question: str, answer: str, most: int) -> None:
        """Print an earlier exchange."""
        live, written = Live(self._console), StreamedAnswer(self._console)
        written.add(answer)
        lines = written.lines(live.width, over=True)[0]
        more = [Text(f"… {counted(len(lines) - most, 'more line')}", style="dim")] if len(lines) > most else []
        line = Text.assemble((PROMPT, "cyan"), (printable(question), "bold"))
        live.draw([Text(), *line.wrap(self._console, live.width), *lines[:most], *more], [])


class TerminalDrawing:
    """One answer on the screen."""

    def __init__(self, console: Console) -> None:
        self.live = Live(console)
        self._console = console
        self._written = StreamedAnswer(console)
        self._shown = self._safe = 0  # bytes of what the model says now, between two of its tools
        self._drawn = 0.0

    def on_event(self, event: Event, more: bool) -> None:
        """Process an event and redraw; events close together are drawn together."""
        with undivided():
            finished = self._take(event)
            early = self._drawn + FRAME_SECONDS - monotonic()
            if early > 0 and more and not finished:
                return
            sleep(max(early, 0))
            self._draw(finished)

    def end(self) -> None:
        """Leave the answer on the screen as it is."""
        self.live.draw(self._written.lines(self.live.width, over=True)[0], [])

    def _take(self, event: Event) -> list[Text]:
        """Process an event; return the lines of one that is shown beside the answer."""
        from contextinfinity.cli.answer_output import describe_event
        from contextinfinity.domain.events import Clarification, Delta, Durability, Retrying, StepStarted, ToolCalled

        if isinstance(event, Clarification):
            choices = (f"{candidate.id}. {candidate.name}" for candidate in event.candidates)
            self._written.add("\n\n".join((event.question, "\n".join(choices))))
        elif isinstance(event, Delta):
            self._shown += len(event.text.encode("utf-8", "replace"))
            self._written.add(event.text)
        elif isinstance(event, Durability):
            self._safe = event.durable
        elif isinstance(event, StepStarted):
            self._shown = self._safe = 0
        elif isinstance(event, ToolCalled | Retrying):
            lines, width = self._written.lines(self.live.width, over=True)[0], self.live.width
            return [*lines, *Text(printable(describe_event(event)), style="dim").wrap(self._console, width)]
        return []

    def _draw(self, finished: list[Text]) -> None:
        more, tail = self._written.lines(self.live.width)
        last = tail.pop() if tail else Text()
        mark = MARKS[min(4 * self._safe // self._shown, 4) if self._shown else 0]
        self.live.draw([*finished, *more], [*tail, Text.assemble(last, (f" {mark}", "dim"))])
        self._drawn = monotonic()


class _Above(TextIOBase):
    """Redirects stderr while an answer is drawn."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._line = ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._live.above(printable(line))
        return len(text)
