"""The drawn view: Markdown as it streams, a mark for what is stored, and an editable prompt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import TextIOBase
from time import monotonic, sleep
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from contextinfinity.cli.chat.live import Live, undivided
from contextinfinity.cli.chat.styles import PROMPT
from contextinfinity.text.plurals import counted
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.streamed_answer import StreamedAnswer

if TYPE_CHECKING:
    from contextinfinity.cli.answer_output import EventHandler
    from contextinfinity.cli.chat.input import Input
    from contextinfinity.domain.events import Event

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
