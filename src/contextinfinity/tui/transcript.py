"""The conversation on the screen: selecting turns with keys and mouse, copying, and going to a turn."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.selection import Selection

from contextinfinity.client.results import ShownTurn
from contextinfinity.tui.live_turn import LiveTurn
from contextinfinity.tui.turn_scroll import LineMap, TurnPages, TurnScroll


class Transcript(TurnScroll):
    """The turns of a branch, and below them the one that is being answered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k,shift+up", "select(-1)", "Previous turn"),
        Binding("j,shift+down", "select(1)", "Next turn"),
        Binding("enter", "open_turn", "Turn menu"),
        Binding("y", "copy_turn", "Copy answer"),
    ]

    class TurnSelected(Message):
        """A turn was selected, by its number; None: the newest one again."""

        def __init__(self, seq: int | None) -> None:
            super().__init__()
            self.seq = seq

    class TurnOpened(Message):
        """The selected turn was opened with Enter or a second click."""

        def __init__(self, turn: ShownTurn) -> None:
            super().__init__()
            self.turn = turn

    # --- what is shown ---

    def show_turns(self, pages: TurnPages | None) -> None:
        """Show the turns of a branch from its end; of the branch that is shown already, those that are new."""
        if pages is not None and pages is self._pages:
            for seq in [seq for seq, (turn, _) in self._drawn.items() if pages.get(seq) not in (turn, None)]:
                del self._drawn[seq]
            self._loading -= self._failed
            self._failed.clear()
            self._map.resize(pages.last)
        else:
            self._pages, self._map, self._follows = pages, LineMap(pages.last if pages else 0), True
            self._drawn.clear()
            self._loading.clear()
            self.selected = None
        self._settle()

    @property
    def turns(self) -> int:
        """How many turns are shown."""
        return self._map.count

    def deselect(self) -> None:
        """Select no turn and go to the end."""
        self.selected, self._follows = None, True
        self._settle()
        self.post_message(self.TurnSelected(None))

    def show_live(self, live: LiveTurn | None) -> None:
        """Show a turn that is being answered below the others; None: no turn is."""
        self._live, self._live_strips, self._live_finished = live, [], 0
        if live is not None:
            self._follows = True
        self._draw_live()
        self._settle()

    def go_to(self, seq: int) -> None:
        """Select a turn and scroll to it."""
        if self._pages is None or not 1 <= seq <= self._map.count:
            return
        self.selected, self._follows = seq, False
        self._scroll_to_line(self._map.top(seq))
        self._settle()
        self._scroll_to_line(self._map.top(seq))
        self.post_message(self.TurnSelected(seq))

    # --- keys and mouse ---

    def action_select(self, step: int) -> None:
        """Select the next turn, or the one before."""
        if not self._map.count:
            return
        now = self.selected or (self._map.item_at(self._bottom()) + (step < 0))
        self.go_to(min(max(now + step, 1), self._map.count))

    def action_open_turn(self) -> None:
        """Open the selected turn, or the newest one."""
        turn = self._pages.get(self.selected or self._map.count) if self._pages and self._map.count else None
        if turn is not None:
            self.post_message(self.TurnOpened(turn))

    def action_copy_turn(self) -> None:
        """Copy the answer of the selected turn to the clipboard of the terminal."""
        turn = self._pages.get(self.selected or self._map.count) if self._pages and self._map.count else None
        if turn is not None:
            self.app.copy_to_clipboard(turn.assistant)
            self.notify(f"Copied the answer of turn {turn.turn_seq}.")

    def on_click(self, event: events.Click) -> None:
        """Select the turn under the mouse; a double click opens it."""
        seq = self._map.item_at(event.y + self.scroll_offset.y)
        turn = self._pages.get(seq) if self._pages and seq else None
        if turn is None or event.y + self.scroll_offset.y >= self._map.total:
            return
        self.selected = seq
        self.refresh()
        self.post_message(self.TurnOpened(turn) if event.chain == 2 else self.TurnSelected(seq))

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that was marked with the mouse, of what is drawn."""
        lines = range(self._map.total + len(self._live_strips))
        text = "\n".join(self._strip_at(y).text if selection.get_span(y) is not None else "" for y in lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw what is marked."""
        self.refresh()
