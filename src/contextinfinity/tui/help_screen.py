"""All keys on one page."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from contextinfinity.tui.panels.panel_table import PANELS

KEYS = (
    ("Message", (("Enter", "send"), ("Alt+Enter, Ctrl+J", "new line"), ("Ctrl+R", "ask the last question again"))),
    (
        "Everywhere",
        (
            ("Ctrl+P", "command palette: every command by name"),
            ("Ctrl+O", "choose a panel by a letter"),
            ("Ctrl+B", "show or hide the conversations"),
            ("Ctrl+F", "search in conversations"),
            ("Ctrl+N", "new conversation"),
            ("Ctrl+T", "light or dark"),
            ("Tab, Shift+Tab", "next or previous part of the screen"),
            ("Escape", "cancel what runs; close the panel; back"),
            ("Ctrl+C", "stop the answer, copy the mark; twice: leave"),
            ("Ctrl+Q", "leave"),
        ),
    ),
    (
        "Conversation",
        (
            ("PageUp, PageDown", "scroll, also while writing"),
            ("j, k", "select the next or previous turn"),
            ("Enter", "turn menu: fork, roll back, edit, pin, copy"),
            ("y", "copy the answer"),
        ),
    ),
)


class HelpScreen(ModalScreen[None]):
    """The page of keys; any of Escape, F1 and Enter closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,f1,enter,q", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Put the page into a scrolling box."""
        with VerticalScroll(classes="dialog page"):
            yield Static(self._page(), markup=False)

    def _page(self) -> Text:
        page = Text()
        panels = [(entry.keys, entry.kind.TITLE) for entry in PANELS]
        for title, keys in (*KEYS, ("Panels", panels)):
            page.append(f"{title}\n", "bold cyan")
            for key, says in keys:
                page.append(f"  {key:<20}", "bold")
                page.append(f"{says}\n")
            page.append("\n")
        page.append("Escape closes this page.", "dim")
        return page
