"""Turns that are answered and not yet committed, and the command that commits them now."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import clock
from contextinfinity.tui.panels.panel import ListPanel


class PendingPanel(ListPanel):
    """The pending turns of this branch."""

    NAME = "pending"
    TITLE = "Pending turns"
    KEYS = "c commits pending now"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "commit", "Commit pending now")]

    async def load(self) -> None:
        """Read and list the pending turns."""
        await self.conversation.refresh()
        pending, branch = self.conversation.pending, self.conversation.branch
        if branch is None:
            return self.show_nothing("This conversation has no turns yet.")
        if not pending:
            return self.show_nothing(
                f"Nothing is pending: all answers are committed, the head is state {branch.state}."
            )
        return self.show_lines(
            Text.assemble(
                f"turn {turn.turn_seq}  ",
                (f"{turn.phase.value}, {turn.outcome}, {clock(turn.created_at)}\n", "dim"),
                " ".join(printable(turn.user[:200]).split()),
            )
            for turn in pending
        )

    def action_commit(self) -> None:
        """Commit the pending turns now."""
        if self.conversation.thread_id is not None:
            self.start("Committing", self._commit(self.conversation.thread_id))

    async def _commit(self, thread_id: str) -> None:
        branch = self.conversation.branch_id
        committed = await self.conversation.call(
            self.conversation.client.threads.commit(thread_id, branch_id=branch, seconds=30.0)
        )
        left = f"; {committed.pending} still wait" if committed.pending else ""
        self.notify(f"Committed: the head is state {committed.state}{left}.")
        self.post_message(self.ConversationChanged())
