"""The commands of the palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from contextinfinity.tui.panels.panel_table import PANELS

if TYPE_CHECKING:
    from contextinfinity.tui.workbench_app import WorkbenchApp


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
