"""Pinned facts: they are in every prompt, verbatim."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.dialogs import ConfirmDialog, TextDialog
from contextinfinity.tui.panels.panel import ListPanel


class PinsPanel(ListPanel):
    """The facts pinned on this branch."""

    NAME = "pins"
    TITLE = "Pinned facts"
    KEYS = "a adds a fact · d removes the highlighted one"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("a", "add", "Add"), Binding("d,delete", "remove", "Remove")]

    async def load(self) -> None:
        """Read and list the pins."""
        if self.conversation.thread_id is None:
            return self.show_nothing("Write a message first; then a fact can be pinned.")
        where = self.conversation.branch_id
        pins = await self.conversation.call(
            self.conversation.client.pins.list(self.conversation.thread_id, branch_id=where)
        )
        if not pins.pins:
            return self.show_nothing("Nothing is pinned. Press a to pin a fact.")
        return self.show_lines(Text(f"{pin.n}. {printable(pin.fact)}") for pin in pins.pins)

    def action_add(self) -> None:
        """Ask for a fact and pin it."""
        if self.conversation.thread_id is not None:
            self.app.push_screen(TextDialog("Pin a fact to every prompt of this branch"), self._entered)

    def action_remove(self) -> None:
        """Ask, and remove the highlighted fact."""
        if self.chosen is not None and not self.lines.get_option_at_index(self.chosen).disabled:
            number = self.chosen + 1
            fact = str(self.lines.get_option_at_index(self.chosen).prompt)
            self.app.push_screen(
                ConfirmDialog(f"Remove from every prompt:  {fact[:120]}", "Yes, remove it"),
                lambda answer: self.start("Removing", self._remove(number)) if answer == "yes" else None,
            )

    def _entered(self, fact: str | None) -> None:
        if fact:
            self.start("Pinning", self._add(fact))

    async def _add(self, fact: str) -> None:
        conversation = self.conversation
        assert conversation.thread_id is not None  # noqa: S101  the panel asks only then
        await conversation.call(
            conversation.client.pins.add(conversation.thread_id, fact, branch_id=conversation.branch_id)
        )
        self.post_message(self.ConversationChanged())

    async def _remove(self, number: int) -> None:
        conversation = self.conversation
        assert conversation.thread_id is not None  # noqa: S101  a pin is listed
        await conversation.call(
            conversation.client.pins.remove(conversation.thread_id, number, branch_id=conversation.branch_id)
        )
        self.post_message(self.ConversationChanged())
