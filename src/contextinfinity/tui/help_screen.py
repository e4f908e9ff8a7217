"""The page that shows the keys of the workbench."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from contextinfinity.tui.workbench_keys import KEYS, PANELS

if TYPE_CHECKING:
    pass


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
