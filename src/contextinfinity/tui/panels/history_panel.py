"""All turns of the branch, one line each; as many as there are, only those in view are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList, Static

from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import ContextInfinityError
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import clock
from contextinfinity.tui.panels.panel import Panel
from contextinfinity.tui.turn_scroll import TurnPages


class TurnIndex(ScrollView, can_focus=True):
    """One line per turn, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-1000000000)", show=False),
        Binding("end", "move(1000000000)", show=False),
        Binding("enter", "choose", "Go there"),
    ]

    class LineChosen(Message):
        """A line was chosen."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    def __init__(self, pages: TurnPages | None) -> None:
        super().__init__(classes="panel-list")
        self._pages = pages
        self._loading: set[int] = set()
        self.highlighted = 0

    def on_mount(self) -> None:
        """Begin at the newest turn."""
        self.show(self._pages)

    def show(self, pages: TurnPages | None) -> None:
        """Show the turns of a branch."""
        self._pages = pages
        self._loading.clear()
        self.virtual_size = Size(0, 0 if pages is None else pages.last)
        self.refresh()
        self._read_missing()

    def action_move(self, step: int) -> None:
        """Highlight another line."""
        last = self._pages.last if self._pages is not None else 0
        self.highlighted = min(max(self.highlighted + step, 0), max(last - 1, 0))
        top, height = int(self.scroll_y), max(self.scrollable_content_region.height, 1)
        if not top <= self.highlighted < top + height:
            line = self.highlighted if self.highlighted < top else self.highlighted - height + 1
            self.scroll_to(y=line, animate=False, immediate=True, force=True)
        self.refresh()

    def action_choose(self) -> None:
        """Go to the highlighted turn."""
        if self._pages is not None and self._pages.last:
            self.post_message(self.LineChosen(self._pages.last - self.highlighted))

    def on_click(self, event: events.Click) -> None:
        """Highlight the line under the mouse and go there."""
        line = event.y + self.scroll_offset.y
        if self._pages is not None and line < self._pages.last:
            self.highlighted = line
            self.action_choose()
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Read what comes into view."""
        super().watch_scroll_y(old_value, new_value)
        self._read_missing()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        line, width, base = y + self.scroll_offset.y, self.size.width, self.rich_style
        if self._pages is None or line >= self._pages.last:
            return Strip.blank(width, base)
        seq = self._pages.last - line
        turn = self._pages.get(seq)
        text = turn_line(turn) if turn is not None else Text(f"{seq:>6}  …", style="dim")
        strip = Strip(text.render(self.app.console)).apply_style(base)
        if line == self.highlighted:
            strip = strip.extend_cell_length(width).apply_style(Style(reverse=True))
        return strip.crop_extend(0, width, base)

    def _read_missing(self) -> None:
        if self._pages is None or not self._pages.last:
            return
        newest = self._pages.last - int(self.scroll_y)
        for page in self._pages.pages_missing(newest - self.size.height, newest):
            if page not in self._loading:
                self._loading.add(page)
                self._load(self._pages, page)

    @work(group="pages", exit_on_error=False)
    async def _load(self, pages: TurnPages, page: int) -> None:
        try:
            await pages.load(page)
        except ContextInfinityError as error:
            self.notify(str(error), severity="error")
            return
        if pages is self._pages:
            self._loading.discard(page)
            self.refresh()


class HistoryPanel(Panel):
    """The history of the branch."""

    NAME = "history"
    TITLE = "History"
    KEYS = "Enter goes to the turn"

    def body(self) -> Iterable[VerticalScroll | OptionList | Static]:
        """Return the list of turns."""
        yield TurnIndex(self.conversation.pages)  # type: ignore[misc]

    async def load(self) -> None:
        """Show the turns of the branch."""
        self.query_one(TurnIndex).show(self.conversation.pages)

    def show_nothing(self, why: str) -> None:
        """Report an error."""
        self.notify(why, severity="error")

    def focus_body(self) -> None:
        """Return the keyboard to the list."""
        self.screen.set_focus(self.query_one(TurnIndex))

    def on_turn_index_line_chosen(self, event: TurnIndex.LineChosen) -> None:
        """Go to the turn."""
        self.post_message(self.TurnChosen(event.seq))


def turn_line(turn: ShownTurn) -> Text:
    """Write a turn in one line: number, time, how it ended, the question."""
    mark, style = _mark(turn)
    words = " ".join(printable(turn.user[:400]).split())
    return Text.assemble(
        f"{turn.turn_seq:>6}  ", (f"{clock(turn.created_at)}  ", "dim"), (f"{mark} " if mark else "", style), words
    )


def _mark(turn: ShownTurn) -> tuple[str, str]:
    if turn.outcome == "incomplete":
        return "INCOMPLETE" if turn.phase != Phase.FAILED else "INCOMPLETE, recovered:", "bold yellow"
    if turn.outcome == "failed":
        return "FAILED", "bold red"
    if turn.outcome == "cancelled":
        return "STOPPED", "bold yellow"
    return ("running", "dim") if turn.outcome is None else ("", "")
