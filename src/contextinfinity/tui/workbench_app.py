"""The screen of the workbench, and what its keys do.

    header          conversation, branch, head state, pending, phase, durable/displayed
    sidebar │ transcript │ panel
    composer
    keys

The app owns the open conversation and the running answer. Widgets report what happened; the app changes what is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static
from textual.worker import Worker

from contextinfinity.domain.session import Owner
from contextinfinity.errors import ContextInfinityError, NotFound
from contextinfinity.tui.answers import Answers
from contextinfinity.tui.client_thread import ClientThread, Submit, follow_folds, log_notices
from contextinfinity.tui.composer import Composer
from contextinfinity.tui.dialogs import TurnMenu
from contextinfinity.tui.help_screen import HelpScreen
from contextinfinity.tui.live_turn import Look
from contextinfinity.tui.open_conversation import NEW, OpenConversation
from contextinfinity.tui.panel_host import PanelHost
from contextinfinity.tui.panels.models_panel import ModelsPanel
from contextinfinity.tui.panels.panel import Panel
from contextinfinity.tui.panels.search_panel import SearchPanel
from contextinfinity.tui.sidebar import Sidebar
from contextinfinity.tui.status_header import StatusHeader
from contextinfinity.tui.transcript import Transcript
from contextinfinity.tui.workbench_keys import PANELS, commands_of

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client

LIVE_SECONDS = 0.1
"""How often the header is drawn again while an answer comes."""
REFRESH_SECONDS = 0.5
"""How often to look whether the branch has to be read again (``Answers.follow_jobs``)."""
WIDE = 100
OWN_ACTIONS = frozenset(
    (
        "help",
        "panels",
        "panel",
        "toggle_sidebar",
        "new_conversation",
        "ask_again",
        "search_conversations",
        "back",
        "stop",
    )
)
"""Actions of the app that are not for an open dialog."""
EMPTY = """\
ContextInfinity

Write a message below and press Enter.

Ctrl+B conversations · Ctrl+O panels · Ctrl+P commands · F1 keys"""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The start options of the workbench: conversation, model and appearance."""

    session: str = "last"
    branch: str | None = None
    model: str | None = None
    owner: Owner = field(default_factory=Owner)
    user_id: str | None = None
    plain: bool = False
    light: bool = False


class WorkbenchApp(PanelHost):
    """The terminal workbench."""

    TITLE = "ContextInfinity"
    CSS_PATH = "workbench.tcss"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012  Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Keys", priority=True),
        Binding("ctrl+o", "panels", "Panels", priority=True),
        Binding("ctrl+b", "toggle_sidebar", "Conversations", priority=True),
        Binding("ctrl+n", "new_conversation", "New", priority=True),
        Binding("ctrl+r", "ask_again", "Ask again", priority=True, show=False),
        Binding("ctrl+f", "search_conversations", "Search", priority=True, show=False),
        Binding("ctrl+t", "toggle_light", "Light/dark", priority=True, show=False),
        Binding("ctrl+c", "stop", "Stop", priority=True),
        Binding("escape", "back", "Back", show=False),
        Binding("ctrl+q", "quit", "Quit", priority=True),
        *(
            Binding(entry.function_key, f"panel('{entry.name}')", entry.kind.TITLE, priority=True, show=False)
            for entry in PANELS
            if entry.function_key
        ),
    ]

    def __init__(self, open_client: Callable[[], Future[Client]], submit: Submit, start: Start) -> None:
        super().__init__(Look(plain=start.plain, dark=not start.light))
        self.failure: BaseException | None = None
        """Why the workbench ended, if the engine could not be opened."""
        self.start = start
        self._open_client, self._submit = open_client, submit
        self.answers = Answers(self)
        self._moves = asyncio.Lock()
        self._going: Worker[bool] | None = None

    def compose(self) -> ComposeResult:
        """Compose the screen, and keep its parts: a query finds nothing once the workbench is being left."""
        self.header, self.sidebar = StatusHeader(id="header"), Sidebar(id="sidebar")
        self.composer = Composer(id="composer")
        self.transcript = Transcript(self.look, id="transcript")
        yield self.header
        with Horizontal(id="main"):
            yield self.sidebar
            with Vertical(id="centre"):
                yield Static(EMPTY, id="empty", markup=False)
                yield self.transcript
            yield Vertical(id="panel-slot")
        yield self.composer
        yield Footer(show_command_palette=True)

    async def on_mount(self) -> None:
        """Open the engine once the screen is drawn: loading it would delay the first picture."""
        self.theme = "textual-light" if self.start.light else "textual-dark"
        self.set_class(self.start.plain, "-plain-look")
        self.sidebar.set_class(self.size.width >= WIDE and not self.start.plain, "-shown")
        self.screen.set_focus(self.composer)
        self.call_after_refresh(self._begin)

    @work(group="begin", exit_on_error=False)
    async def _begin(self) -> None:
        try:
            client = await asyncio.wrap_future(self._open_client())
            thread = ClientThread(client, self._submit, owner=self.start.owner, user_id=self.start.user_id)
            self._conversation = OpenConversation(thread)
            await self.conversation.choose(self.start.model)
            await self._go_to_start()
        except ContextInfinityError as error:
            self.failure = error
            self.exit(return_code=1)
            return
        self.is_ready = True
        self.sidebar.connect(thread)
        self.set_interval(LIVE_SECONDS, self.answers.draw_header)
        self.set_interval(REFRESH_SECONDS, self.answers.follow_jobs)
        self.run_worker(log_notices(self), group="notices", exit_on_error=False)
        self.run_worker(follow_folds(self, thread), group="notices", exit_on_error=False)

    async def _go_to_start(self) -> None:
        thread, branch = self.conversation.thread, None
        thread_id: str | None = None
        if self.start.session != NEW:
            try:
                thread_id = (await thread.call(thread.client.threads.find(self.start.session, thread.owner))).thread_id
            except NotFound:
                if self.start.session != "last":
                    raise
        if thread_id is not None and self.start.branch is not None:
            branch = (await thread.call(thread.client.threads.find_branch(thread_id, self.start.branch))).branch_id
        await self.go_to(thread_id, branch)

    # --- where we are ---

    def start_going_to(self, thread_id: str | None, branch_id: str | None = None, seq: int | None = None) -> None:
        """Begin to show a conversation; the screen goes on while it is read. Where one wants to go last wins."""
        self._going = self.run_worker(
            self.go_to(thread_id, branch_id, seq), group="go", exclusive=True, exit_on_error=False
        )

    async def go_to(self, thread_id: str | None, branch_id: str | None = None, seq: int | None = None) -> bool:
        """Show a conversation, or an empty one; go to a turn in it. Return whether it could be read."""
        async with self._moves:
            try:
                await self.conversation.open(thread_id, branch_id)
            except ContextInfinityError as error:
                self.notify(str(error), severity="error")
                self.show_conversation()
                return False
            self.answers.leave()
            self.transcript.show_turns(self.conversation.pages)
            self.show_conversation()
            if seq is not None and seq <= self.transcript.turns:
                self.transcript.go_to(seq)
            if (running := self.conversation.running) is not None:
                self.answers.join(running)
            return True

    def show_conversation(self) -> None:
        """Draw the header, the list and the panel for where we are now."""
        is_empty = self.conversation.thread_id is None and self.answers.live is None
        self.query("#empty").set(display=is_empty)
        self.transcript.display = not is_empty
        self.sidebar.mark(self.conversation.thread_id)
        self.answers.draw_header(always=True)
        if self.panel is not None:
            self.panel.reload()

    @on(Sidebar.ConversationChosen)
    async def _conversation_chosen(self, event: Sidebar.ConversationChosen) -> None:
        self.start_going_to(event.thread_id, seq=event.turn_seq)
        if self.screen.has_class("-narrow"):
            await self.close_panel()
        self.screen.set_focus(self.composer)

    @on(Panel.BranchChosen)
    def _branch_chosen(self, event: Panel.BranchChosen) -> None:
        self.start_going_to(self.conversation.thread_id, event.branch_id)

    @on(Panel.TurnChosen)
    async def _turn_chosen(self, event: Panel.TurnChosen) -> None:
        if event.thread_id is not None and event.thread_id != self.conversation.thread_id:
            self.start_going_to(event.thread_id, seq=event.seq)
        else:
            self.transcript.go_to(event.seq)
        if self.screen.has_class("-narrow") and not event.stays:
            await self.close_panel()

    @on(Panel.ConversationChanged)
    def _conversation_changed(self) -> None:
        self.run_worker(self.answers.refresh(), group="go", exit_on_error=False)
        if self.panel is not None:
            self.panel.follow()

    @on(ModelsPanel.ModelChosen)
    async def _model_chosen(self, event: ModelsPanel.ModelChosen) -> None:
        self.conversation.model = event.name
        self.notify(f"{event.name} answers from now on." if event.name else "The router chooses from now on.")
        await self.close_panel()

    @on(SearchPanel.ChunkAttached)
    def _chunk_attached(self) -> None:
        self.answers.draw_header(always=True)

    @on(Transcript.TurnSelected)
    def _turn_selected(self, event: Transcript.TurnSelected) -> None:
        self.conversation.selected = event.seq
        if self.panel is not None and self.panel.NAME in ("context", "steps", "search"):
            self.panel.reload()

    @on(Transcript.TurnOpened)
    def _turn_opened(self, event: Transcript.TurnOpened) -> None:
        TurnMenu(self, event.turn).open()

    @on(Composer.MessageEntered)
    def _message_entered(self, event: Composer.MessageEntered) -> None:
        if self._going is not None and not self._going.is_finished:
            self.notify("The conversation is still being opened.", severity="warning")
            self.composer.give_back(event.text)
        elif not self.answers.send(event.text):
            self.composer.give_back(event.text)

    @on(Composer.PageScrolled)
    def _page_scrolled(self, event: Composer.PageScrolled) -> None:
        page = max(self.transcript.size.height - 2, 1)
        self.transcript.scroll_relative(y=event.pages * page, animate=False)

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keep keys that are typed into a dialog from the screen behind it."""
        return not isinstance(self.screen, ModalScreen) or action not in OWN_ACTIONS

    async def action_back(self) -> None:
        """Cancel what runs in the panel, close it, or go back to the message."""
        if self.panel is not None and self.panel.is_busy:
            self.panel.cancel()
        elif self.panel is not None:
            await self.close_panel()
        else:
            self.transcript.deselect()
            self.screen.set_focus(self.composer)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen())

    def action_toggle_sidebar(self) -> None:
        """Show or hide the conversations."""
        self.sidebar.toggle_class("-shown")
        self.screen.set_focus(self.query_one("#sidebar-list" if self.sidebar.has_class("-shown") else "#composer"))

    def action_search_conversations(self) -> None:
        """Go to the search field of the conversations."""
        self.sidebar.add_class("-shown")
        self.screen.set_focus(self.query_one("#sidebar-search"))

    async def action_new_conversation(self) -> None:
        """Begin a new conversation with the next message."""
        if self.is_ready:
            self.workers.cancel_group(self, "go")
            await self.go_to(None)
            self.screen.set_focus(self.composer)

    def action_ask_again(self) -> None:
        """Ask the newest question again."""
        if self.is_ready:
            self.answers.ask_again()

    def action_stop(self) -> None:
        """Copy what is marked, stop the answer, or leave when pressed twice."""
        if (marked := self.screen.get_selected_text()) is not None:
            self.copy_to_clipboard(marked)
            self.screen.clear_selection()
            self.notify("Copied.")
        elif self.is_ready:
            self.answers.stop_or_leave()
        else:
            self.exit()

    def action_toggle_light(self) -> None:
        """Change between light and dark."""
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    def watch_theme(self, theme_name: str) -> None:
        """Draw the conversation in the colours of the theme."""
        self.look = Look(plain=self.start.plain, dark=self.current_theme.dark)
        self.transcript.redraw(self.look)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """List the commands of the palette."""
        return commands_of(self)
