"""The list of conversations at the left, with a search field."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from contextinfinity.client.results import ShownThread
from contextinfinity.domain.search import Hit
from contextinfinity.errors import ContextInfinityError
from contextinfinity.text.plurals import counted
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.client_thread import ClientThread
from contextinfinity.tui.live_turn import clock, excerpt

PAGE = 100
MORE = "more"
TYPING_SECONDS = 0.25
FOUND = 8


class Sidebar(Vertical):
    """List conversations, most recently used first; the field above filters them and searches their messages."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "to_list", show=False)]

    class ConversationChosen(Message):
        """A conversation was chosen, and with a search result the turn in it."""

        def __init__(self, thread_id: str | None, turn_seq: int | None = None) -> None:
            super().__init__()
            self.thread_id = thread_id
            self.turn_seq = turn_seq

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._thread: ClientThread | None = None
        self._shown: list[ShownThread] = []
        self._has_more = False
        self._current: str | None = None
        self._found: tuple[Hit, ...] = ()
        self._field = Input(placeholder="Search conversations", id="sidebar-search", select_on_focus=True)
        self._list = OptionList(id="sidebar-list", markup=False)

    def compose(self) -> ComposeResult:
        """Put the search field above the list."""
        yield self._field
        yield self._list

    def connect(self, thread: ClientThread) -> None:
        """Begin to show the conversations of a client."""
        self._thread = thread
        self.reload()

    def on_resize(self) -> None:
        """Cut the titles to the new width."""
        self._fill()

    def reload(self) -> None:
        """Read the newest conversations again."""
        self._read(after_last=False)

    def mark(self, thread_id: str | None) -> None:
        """Mark the conversation that is open."""
        self._current = thread_id
        self._fill()

    @work(group="sidebar", exclusive=True, exit_on_error=False)
    async def _read(self, *, after_last: bool) -> None:
        if self._thread is None:
            return
        after = self._shown[-1].position if after_last and self._shown else None
        threads = self._thread.client.threads
        try:
            page = await self._thread.call(threads.list(self._thread.owner, limit=PAGE, after=after))
        except ContextInfinityError as error:
            self.notify(str(error), severity="error")
            return
        self._shown = [*(self._shown if after_last else ()), *page]
        self._has_more = len(page) == PAGE
        self._fill()

    @on(Input.Changed, "#sidebar-search")
    def _typed(self) -> None:
        self._found = ()
        self._fill()
        self._search(self._field.value.strip())

    @work(group="sidebar-search", exclusive=True, exit_on_error=False)
    async def _search(self, words: str) -> None:
        """Search in what was said, once typing pauses."""
        from asyncio import sleep

        await sleep(TYPING_SECONDS)
        if self._thread is None or len(words) < 2:
            return
        try:
            search = self._thread.client.past.search(words, limit=FOUND, user_id=self._thread.user_id)
            self._found = (await self._thread.call(search)).hits
        except ContextInfinityError as error:
            self.notify(str(error), severity="warning")
        self._fill()

    def _fill(self) -> None:
        words = self._field.value.casefold().split()
        listed = self._list
        highlighted = listed.highlighted
        listed.clear_options()
        fitting = [one for one in self._shown if all(w in f"{one.about} {one.said}".casefold() for w in words)]
        listed.add_options([Option(self._line(one), id=f"thread {one.thread_id}") for one in fitting])
        if words and self._found:
            listed.add_option(Option(Text("what was said", style="dim"), disabled=True))
            for place, hit in enumerate(self._found):
                listed.add_option(Option(self._hit(hit), id=f"hit {place}"))
        if self._has_more and not words:
            listed.add_option(Option(Text("older conversations …", style="dim"), id=MORE))
        if not listed.option_count:
            nothing = "nothing found" if words else "No conversations yet: write a message."
            listed.add_option(Option(Text(nothing, style="dim"), disabled=True))
        elif highlighted is not None or listed.has_focus:
            self._highlight(min(highlighted or 0, listed.option_count - 1))

    def _line(self, one: ShownThread) -> Text:
        is_open = one.thread_id == self._current
        return Text.assemble(
            ("* " if is_open else "  ", "bold cyan"),
            (self._cut(one.about or "Untitled"), "bold" if is_open else ""),
            (f"\n  {counted(one.turns, 'turn')}, {clock(one.updated_at)}", "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )

    def _hit(self, hit: Hit) -> Text:
        about = next((one.about for one in self._shown if one.thread_id == hit.thread_id), "") or "Untitled"
        where = self._cut(f"{hit.turn_seq}, {about}")
        words = self._cut(excerpt(hit.text, self._field.value, self._room))
        return Text.assemble((f"  {where}\n", "dim"), f"  {words}", no_wrap=True)

    @property
    def _room(self) -> int:
        return max(self.size.width - 4, 8)

    def _cut(self, words: str) -> str:
        """Cut a line to the width of the list, which would break a longer one."""
        line, room = " ".join(printable(words).split()), self._room
        return line if cell_len(line) <= room else f"{set_cell_size(line, room - 1).rstrip()}…"

    @on(Input.Submitted, "#sidebar-search")
    def action_to_list(self) -> None:
        """Go from the search field to the list."""
        self._highlight(self._list.highlighted or 0)
        self.screen.set_focus(self._list)

    def _highlight(self, place: int) -> None:
        """Highlight the first line from a place on that can be chosen."""
        lines = self._list.options
        self._list.highlighted = next((at for at in range(place, len(lines)) if not lines[at].disabled), None)

    @on(OptionList.OptionSelected, "#sidebar-list")
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        kind, _, name = (event.option.id or "").partition(" ")
        if kind == MORE:
            self._read(after_last=True)
        elif kind == "thread":
            self.post_message(self.ConversationChosen(name))
        elif kind == "hit":
            hit = self._found[int(name)]
            self.post_message(self.ConversationChosen(hit.thread_id, hit.turn_seq))
