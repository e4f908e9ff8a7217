"""The app as far as panels need it: one panel is open at a time, beside the conversation or in its place."""

from __future__ import annotations

from time import monotonic
from typing import Any

from textual.app import App

from contextinfinity.tui.composer import Composer
from contextinfinity.tui.dialogs import ChoiceDialog
from contextinfinity.tui.live_turn import Look
from contextinfinity.tui.open_conversation import OpenConversation
from contextinfinity.tui.panels.panel import Panel
from contextinfinity.tui.workbench_keys import BY_NAME, PANELS


class PanelHost(App[None]):
    """Opens and closes panels for the open conversation."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look
        self.panel: Panel | None = None
        self._conversation: OpenConversation | None = None
        self.is_ready = False
        """Whether the engine is open and the first conversation is shown."""
        self._said: dict[str, float] = {}
        """The notices on the screen, and until when they are there."""

    @property
    def conversation(self) -> OpenConversation:
        """The open conversation; there is one as soon as the engine is open."""
        assert self._conversation is not None  # noqa: S101  callers check ``is_ready``
        return self._conversation

    def notify(self, message: str, **how: Any) -> None:
        """Show a notice, but not one that is on the screen already."""
        now = monotonic()
        self._said = {said: until for said, until in self._said.items() if until > now}
        if message not in self._said:
            self._said[message] = now + (how.get("timeout") or self.NOTIFICATION_TIMEOUT)
            super().notify(message, **how)

    async def action_panel(self, name: str) -> None:
        """Open a panel, or close it if it is open."""
        if not self.is_ready:
            self.notify("The engine is still starting.", severity="warning")
            return
        was = self.panel.NAME if self.panel is not None else None
        await self.close_panel()
        if was == name:
            return
        self.panel = BY_NAME[name].kind(self.conversation, self.look)
        slot = self.query_one("#panel-slot")
        slot.add_class("-shown")
        self.query_one("#main").add_class("-panel")
        await slot.mount(self.panel)
        self.panel.focus_body()

    async def close_panel(self) -> None:
        """Close the open panel; another one may be opened while its widgets are removed."""
        panel, self.panel = self.panel, None
        self.query("#panel-slot").remove_class("-shown")
        self.query("#main").remove_class("-panel")
        for composer in self.query(Composer).results():  # none if the workbench was left meanwhile
            self.screen.set_focus(composer)
        if panel is not None:
            await panel.remove()

    def action_panels(self) -> None:
        """Offer the panels by letter."""

        async def chosen(name: str | None) -> None:
            if name is not None:
                await self.action_panel(name)

        choices = [(entry.name, entry.letter, entry.kind.TITLE) for entry in PANELS]
        self.push_screen(ChoiceDialog("Panels", choices), chosen)
