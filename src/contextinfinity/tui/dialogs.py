"""Small dialogs above the screen: one line of text, yes or no, and a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from contextinfinity.text.terminal.control_characters import printable


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
