"""The branches of the conversation as a tree, with fork and rollback."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from contextinfinity.client.results import ShownBranch
from contextinfinity.text.plurals import counted
from contextinfinity.tui.live_turn import Look, clock
from contextinfinity.tui.open_conversation import branch_name
from contextinfinity.tui.panels.panel import ListPanel


class BranchesPanel(ListPanel):
    """Branches, each below the one it came from."""

    NAME = "branches"
    TITLE = "Branches"
    KEYS = "Enter switches · f forks · r rolls back, at the selected turn. Nothing is deleted."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "fork", "Fork"), Binding("r", "rollback", "Roll back")]

    async def load(self) -> None:
        """Read and draw the tree."""
        self._branches: list[ShownBranch] = []
        if self.conversation.thread_id is None:
            return self.show_nothing("A branch begins with the first message.")
        threads = self.conversation.client.threads
        found = await self.conversation.call(threads.branches(self.conversation.thread_id))
        drawn = list(tree_of(found))
        self._branches = [branch for branch, _ in drawn]
        shown = [one.branch_id for one in self._branches]
        here = shown.index(self.conversation.branch_id) if self.conversation.branch_id in shown else 0
        return self.show_lines(
            (branch_line(branch, depth, place == here, self.look) for place, (branch, depth) in enumerate(drawn)),
            highlight=here,
        )

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        if event.option_index < len(self._branches):
            self.start("Switching", self._switch(self._branches[event.option_index]))

    def action_fork(self) -> None:
        """Start a branch after the selected turn, or at the end."""
        self.start("Forking", self._fork())

    def action_rollback(self) -> None:
        """Go back to the selected turn on a new branch."""
        if self.conversation.selected is None:
            self.notify("Select a turn first: j and k in the conversation, or a click.", severity="warning")
            return
        self.start("Rolling back", self._rollback(self.conversation.selected))

    async def _switch(self, branch: ShownBranch) -> None:
        made = await self.conversation.call(self.conversation.client.threads.switch(branch.thread_id, branch.branch_id))
        self.post_message(self.BranchChosen(made.branch_id))

    async def _fork(self) -> None:
        conversation = self.conversation
        if conversation.thread_id is None:
            return
        fork = conversation.client.threads.fork(
            conversation.thread_id, at=conversation.selected, branch_id=conversation.branch_id
        )
        made = await conversation.call(fork)
        self.notify(f"Branch {branch_name(made)} goes on after turn {made.fork_seq}.")
        self.post_message(self.BranchChosen(made.branch_id))

    async def _rollback(self, seq: int) -> None:
        conversation = self.conversation
        if conversation.thread_id is None:
            return
        back = conversation.client.threads.rollback(conversation.thread_id, to=seq, branch_id=conversation.branch_id)
        made = await conversation.call(back)
        self.notify(f"Back after turn {seq} on branch {branch_name(made)}; the old branch stays.")
        self.post_message(self.BranchChosen(made.branch_id))


def tree_of(branches: tuple[ShownBranch, ...]) -> list[tuple[ShownBranch, int]]:
    """Put each branch below its parent, with its depth."""
    known = {branch.branch_id for branch in branches}
    below: dict[str | None, list[ShownBranch]] = {}
    for branch in branches:
        below.setdefault(branch.parent_id if branch.parent_id in known else None, []).append(branch)
    tree, waiting = list[tuple[ShownBranch, int]](), [(branch, 0) for branch in reversed(below.get(None, []))]
    while waiting:
        branch, depth = waiting.pop()
        tree.append((branch, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(branch.branch_id, []))]
    return tree


def branch_line(branch: ShownBranch, depth: int, is_open: bool, look: Look) -> Text:
    """Draw one branch of the tree."""
    shape = f"level {depth + 1}: " if look.plain else "  " * max(depth - 1, 0) + ("└─ " if depth else "")
    origin = f"from turn {branch.fork_seq}, " if branch.parent_id else ""
    marks = ", ".join(mark for mark, wanted in (("open", is_open), ("active", branch.active)) if wanted)
    return Text.assemble(
        (shape, "dim"),
        (branch_name(branch), "bold" if is_open else ""),
        (f"  {origin}{counted(branch.last_turn_seq, 'turn')}, state {branch.state}, {clock(branch.created_at)}", "dim"),
        (f"  {marks}" if marks else "", "bold cyan"),
    )
