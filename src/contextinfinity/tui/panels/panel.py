"""Base of all panels: a title, a body, a line of keys, and work that never blocks the screen.

A panel reads what it shows with ``load``, as a worker. Something that changes the conversation runs with ``start``: the
panel counts the seconds, Escape cancels it, and an error is shown in place of a result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from time import monotonic
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from contextinfinity.errors import ContextInfinityError
from contextinfinity.tui.live_turn import Look
from contextinfinity.tui.open_conversation import OpenConversation

STEP_KEYS: list[BindingType] = [
    Binding("j", "step(1)", "Next turn", show=False),
    Binding("k", "step(-1)", "Previous turn", show=False),
]
"""The keys of panels that show one turn."""
LOADING = "loading …"


class Panel(Vertical):
    """One panel beside the conversation."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    KEYS: ClassVar[str] = ""

    class ConversationChanged(Message):
        """Something of the open conversation was changed: its head state, its pins, its pending turns."""

    class BranchChosen(Message):
        """Another branch is to be shown: it was chosen, forked, or rolled back to."""

        def __init__(self, branch_id: str) -> None:
            super().__init__()
            self.branch_id = branch_id

    class TurnChosen(Message):
        """A turn was chosen; the conversation goes there. ``stays``: the panel stays open where it covers it."""

        def __init__(self, seq: int, thread_id: str | None = None, *, stays: bool = False) -> None:
            super().__init__()
            self.seq = seq
            self.thread_id = thread_id
            self.stays = stays

    def __init__(self, conversation: OpenConversation, look: Look) -> None:
        super().__init__(id=f"panel-{self.NAME}")
        self.conversation = conversation
        self.look = look
        self.loading_now: Worker[None] | None = None
        self._operation: Worker[None] | None = None
        self._what, self._since = "", 0.0

    def compose(self) -> ComposeResult:
        """Put the body between the title and the keys."""
        yield Label(self.TITLE, classes="panel-title")
        yield from self.body()
        yield Label(self.KEYS, classes="panel-keys", markup=False)

    def body(self) -> Iterable[VerticalScroll | OptionList | Static]:
        """Return the widgets between the title and the keys."""
        raise NotImplementedError

    async def load(self) -> None:
        """Read what the panel shows and show it."""
        raise NotImplementedError

    def show_nothing(self, why: str) -> None:
        """Show that there is nothing to show."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Load, and count the seconds of what runs."""
        self.set_interval(0.5, self._count)
        self.call_after_refresh(self.reload)

    def reload(self) -> None:
        """Load again; an earlier load that still runs is cancelled. While the conversation is opened, wait for it."""
        if not self.conversation.is_opening:
            self.loading_now = self._load()

    def follow(self) -> None:
        """Load again because the conversation has changed."""
        self.reload()

    def focus_body(self) -> None:
        """Give the keyboard to the field, else to the list or the text.

        It is given at once: ``focus()`` would let keys that were typed ahead go elsewhere.
        """
        self.screen.set_focus(self.query("Input, OptionList, VerticalScroll").first())

    def action_step(self, step: int) -> None:
        """Show the next turn, or the previous one."""
        if (pages := self.conversation.pages) is not None:
            now = self.conversation.selected or pages.last
            self.post_message(self.TurnChosen(now + step, stays=True))

    # --- work that changes something ---

    @property
    def is_busy(self) -> bool:
        """Whether something runs that Escape would cancel."""
        return self._operation is not None and not self._operation.is_finished

    def start(self, what: str, work: Awaitable[None]) -> None:
        """Run something, one at a time."""
        if self.is_busy:
            self.notify(f"{self._what} still runs; Escape cancels it.", severity="warning")
            getattr(work, "close", lambda: None)()
            return
        self._what, self._since = what, monotonic()
        self._operation = self.run_worker(self._guarded(work), group="operation", exit_on_error=False)
        self._say(f"{what} …  Escape cancels")

    def cancel(self) -> None:
        """Cancel what runs."""
        if self._operation is not None and self.is_busy:
            self._operation.cancel()
            self.notify(f"Cancelled: {self._what}")
        self._operation = None
        self._say(self.KEYS)

    @work(group="load", exclusive=True, exit_on_error=False)
    async def _load(self) -> None:
        await self._guarded(self.load())

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except ContextInfinityError as error:
            self.show_nothing(str(error))

    def _count(self) -> None:
        if self.is_busy:
            self._say(f"{self._what} … {monotonic() - self._since:.0f} s  Escape cancels")
        elif self._operation is not None:
            self._operation = None
            self._say(self.KEYS)

    def _say(self, line: str) -> None:
        for label in self.query(".panel-keys").results(Label):
            label.update(line)


class TextPanel(Panel):
    """A panel that shows text."""

    def body(self) -> Iterable[VerticalScroll | OptionList | Static]:
        """Return one scrolling text."""
        scroll = VerticalScroll(Static(LOADING, classes="panel-text", markup=False), can_focus=True)
        yield scroll

    def show(self, content: RenderableType) -> None:
        """Show something in the body."""
        self.query_one(".panel-text", Static).update(content)

    def show_nothing(self, why: str) -> None:
        """Show that there is nothing to show."""
        self.show(Text(why, style="dim"))


class ListPanel(Panel):
    """A panel that shows lines to choose from."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "to_list", show=False)]

    def body(self) -> Iterable[VerticalScroll | OptionList | Static]:
        """Return one list."""
        yield OptionList(LOADING, classes="panel-list", markup=False)

    @on(Input.Submitted)
    def action_to_list(self) -> None:
        """Go from the field above the list to the list."""
        self.screen.set_focus(self.lines)

    @property
    def lines(self) -> OptionList:
        """The list."""
        return self.query_one(".panel-list", OptionList)

    @property
    def chosen(self) -> int | None:
        """The number of the highlighted line, from 0."""
        return self.lines.highlighted

    def show_lines(self, lines: Iterable[Text], *, highlight: int | None = None) -> None:
        """Show lines; the highlighted one stays highlighted."""
        shown = self.lines
        place = highlight if highlight is not None else shown.highlighted or 0
        shown.clear_options()
        shown.add_options([Option(line) for line in lines])
        if shown.option_count:
            shown.highlighted = min(place, shown.option_count - 1)

    def show_nothing(self, why: str) -> None:
        """Show that there is nothing to show."""
        self.lines.clear_options()
        self.lines.add_option(Option(Text(why, style="dim"), disabled=True))
