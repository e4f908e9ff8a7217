"""Small dialogs above the screen: one line of text, yes or no, a choice, and the menu of actions on one turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from contextinfinity.client.results import ShownTurn
from contextinfinity.errors import ContextInfinityError
from contextinfinity.text.terminal.control_characters import printable

if TYPE_CHECKING:
    from contextinfinity.tui.workbench_app import WorkbenchApp


class TextDialog(ModalScreen[str | None]):
    """Asks for a line of text; Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Cancel")]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """Put the question above the field."""
        with Vertical(classes="dialog"):
            yield Label(printable(self._question), markup=False)
            yield Input(printable(self._value), select_on_focus=False)
            yield Label("Enter accepts, Escape cancels", classes="hint")

    @on(Input.Submitted)
    def _accepted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class ChoiceDialog(ModalScreen[str | None]):
    """Offers lines to choose from: (id, key, line). A key chooses its line at once; Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Cancel")]

    def __init__(self, title: str, choices: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._is_over = False

    def compose(self) -> ComposeResult:
        """Put the title above the choices."""
        with Vertical(classes="dialog"):
            yield Label(printable(self._title), markup=False)
            lines = [
                Option(Text.assemble((f" {key}  ", "bold cyan"), printable(line)), id=name)
                for name, key, line in self._choices
            ]
            yield OptionList(*lines)
            yield Label("A letter or Enter chooses, Escape cancels", classes="hint")

    def on_key(self, event: events.Key) -> None:
        """Choose by letter; the letter does nothing else, and letters typed after it are not for this dialog."""
        names = [name for name, key, _ in self._choices if key == event.character]
        if names and not self._is_over:
            self._is_over = True
            event.stop()
            event.prevent_default()
            self.dismiss(names[0])

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        if not self._is_over:
            self._is_over = True
            self.dismiss(event.option.id)


class ConfirmDialog(ChoiceDialog):
    """Asks before something that cannot be undone; gives ``yes`` or None."""

    def __init__(self, question: str, yes: str) -> None:
        super().__init__(question, [("no", "n", "No, keep everything"), ("yes", "y", yes)])


CHOICES = (
    ("context", "c", "Context: what the model saw"),
    ("steps", "t", "Steps and tool calls"),
    ("fork", "f", "Fork: a new branch after this turn"),
    ("rollback", "r", "Roll back: go on from here; later turns stay on the old branch"),
    ("edit", "e", "Edit the question and ask it on a new branch"),
    ("again", "a", "Ask again"),
    ("pin", "p", "Pin a fact from this turn"),
    ("answer", "y", "Copy the answer"),
    ("question", "q", "Copy the question"),
)


class TurnMenu:
    """The menu of one turn."""

    def __init__(self, app: WorkbenchApp, turn: ShownTurn) -> None:
        self._app = app
        self._turn = turn

    def open(self) -> None:
        """Show the menu."""
        self._app.push_screen(ChoiceDialog(f"Turn {self._turn.turn_seq}", CHOICES), self._chosen)

    async def _chosen(self, name: str | None) -> None:
        app, turn = self._app, self._turn
        app.conversation.selected = turn.turn_seq if name is not None else app.conversation.selected
        match name:
            case "context" | "steps":
                await app.close_panel()
                await app.action_panel(name)
            case "fork" | "rollback":
                app.run_worker(self._branch(name), exit_on_error=False)
            case "edit":
                app.push_screen(TextDialog("Ask this instead, on a new branch", turn.user), self._edited)
            case "again":
                app.answers.ask_again(turn)
            case "pin":
                app.push_screen(TextDialog("Pin a fact to every prompt of this branch", turn.user), self._pinned)
            case "answer" | "question":
                app.copy_to_clipboard(turn.assistant if name == "answer" else turn.user)
                app.notify(f"Copied the {name} of turn {turn.turn_seq}.")

    async def _branch(self, kind: str) -> None:
        app, turn = self._app, self._turn
        threads, branch = app.conversation.client.threads, app.conversation.branch_id
        try:
            if kind == "fork":
                made = await app.conversation.call(threads.fork(turn.thread_id, at=turn.turn_seq, branch_id=branch))
            else:
                made = await app.conversation.call(threads.rollback(turn.thread_id, to=turn.turn_seq, branch_id=branch))
        except ContextInfinityError as error:
            app.notify(str(error), severity="error")
            return
        await app.go_to(turn.thread_id, made.branch_id)
        app.notify(f"On a new branch after turn {turn.turn_seq}; Ctrl+O b lists the branches.")

    def _edited(self, question: str | None) -> None:
        if question:
            self._app.run_worker(self._app.answers.ask_instead(self._turn, question), exit_on_error=False)

    def _pinned(self, fact: str | None) -> None:
        if fact:
            self._app.run_worker(self._pin(fact), exit_on_error=False)

    async def _pin(self, fact: str) -> None:
        app = self._app
        pins = app.conversation.client.pins
        try:
            await app.conversation.call(pins.add(self._turn.thread_id, fact, branch_id=app.conversation.branch_id))
        except ContextInfinityError as error:
            app.notify(str(error), severity="error")
            return
        app.notify("Pinned.")
        await app.answers.refresh()
