"""The keys, commands and panels of the workbench, in tables.

A panel has a letter that opens it after Ctrl+O, a function key, and a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.app import SystemCommand

from contextinfinity.tui.panels.branches_panel import BranchesPanel
from contextinfinity.tui.panels.context_panel import ContextPanel
from contextinfinity.tui.panels.folds_panel import FoldsPanel
from contextinfinity.tui.panels.health_panel import HealthPanel
from contextinfinity.tui.panels.history_panel import HistoryPanel
from contextinfinity.tui.panels.memories_panel import MemoriesPanel
from contextinfinity.tui.panels.models_panel import ModelsPanel
from contextinfinity.tui.panels.panel import Panel
from contextinfinity.tui.panels.pending_panel import PendingPanel
from contextinfinity.tui.panels.pins_panel import PinsPanel
from contextinfinity.tui.panels.search_panel import SearchPanel
from contextinfinity.tui.panels.steps_panel import StepsPanel

if TYPE_CHECKING:
    from contextinfinity.tui.workbench_app import WorkbenchApp


class PanelEntry(NamedTuple):
    """A panel and the keys that open it."""

    letter: str
    function_key: str
    kind: type[Panel]

    @property
    def name(self) -> str:
        """The panel's name in actions."""
        return self.kind.NAME

    @property
    def keys(self) -> str:
        """The keys that open it, as people read them."""
        return f"Ctrl+O {self.letter}, {self.function_key.upper()}".removesuffix(", ")


PANELS = (
    PanelEntry("c", "f2", ContextPanel),
    PanelEntry("h", "f3", HistoryPanel),
    PanelEntry("s", "f4", SearchPanel),
    PanelEntry("b", "f5", BranchesPanel),
    PanelEntry("p", "f6", PinsPanel),
    PanelEntry("m", "f7", MemoriesPanel),
    PanelEntry("n", "f8", PendingPanel),
    PanelEntry("t", "f9", StepsPanel),
    PanelEntry("l", "", ModelsPanel),
    PanelEntry("f", "", FoldsPanel),
    PanelEntry("j", "", HealthPanel),
)

BY_NAME = {entry.name: entry for entry in PANELS}

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


def commands_of(app: WorkbenchApp) -> Iterator[SystemCommand]:
    """Yield the panels, then the other commands; what opens something runs when the palette is closed."""
    for entry in PANELS:
        yield SystemCommand(
            entry.kind.TITLE,
            f"Open the panel ({entry.keys})",
            partial(app.call_later, app.action_panel, entry.name),
        )
    for title, says, action in (
        ("Commit pending now", "Commit answered turns at once", app.answers.commit_pending),
        ("New conversation", "Begin with the next message", partial(app.call_later, app.action_new_conversation)),
        ("Ask again", "Ask the newest question again", app.action_ask_again),
        ("Turn menu", "Fork, roll back, edit, pin or copy", app.transcript.action_open_turn),
        ("Conversations", "Show or hide the list", app.action_toggle_sidebar),
        ("Keys", "Show all keys", app.action_help),
        ("Light or dark", "Change the colours", app.action_toggle_light),
        ("Quit", "Leave the workbench", app.exit),
    ):
        yield SystemCommand(title, says, action)
