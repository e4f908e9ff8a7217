"""Folding old turns into the summary: look at it first, do it, undo it."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.binding import Binding, BindingType

from contextinfinity.client.results import ShownFold
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.summary_diff import one_column, side_by_side
from contextinfinity.tui.live_turn import tokens
from contextinfinity.tui.panels.panel import TextPanel

LISTED = 12
EXPLANATION = """\
When the conversation grows, old turns move from the word-for-word part of the prompt into a summary. Nothing is \
lost: every turn stays in the history and can be found.

Press p to preview which turns would move and how the summary would change."""


class FoldsPanel(TextPanel):
    """The next fold, as a preview, and the last one to be undone."""

    NAME = "folds"
    TITLE = "Folds"
    KEYS = "p previews · f folds as previewed · u undoes the last fold"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "preview", "Preview"),
        Binding("f", "fold", "Fold"),
        Binding("u", "undo", "Undo"),
    ]

    async def load(self) -> None:
        """Describe what folding is; a preview may ask a model, so it waits for a key."""
        self.show(Text(EXPLANATION))

    def follow(self) -> None:
        """Keep what was previewed or folded in view."""

    def action_preview(self) -> None:
        """Show what would be folded."""
        self.start("Previewing", self._fold(preview=True))

    def action_fold(self) -> None:
        """Fold now."""
        self.start("Folding", self._fold(preview=False))

    def action_undo(self) -> None:
        """Go back to the summary before the last fold."""
        self.start("Undoing", self._undo())

    async def _fold(self, *, preview: bool) -> None:
        conversation = self.conversation
        if conversation.thread_id is None:
            return self.show_nothing("This conversation has no turns yet.")
        fold = conversation.client.folds.fold(conversation.thread_id, preview=preview, branch_id=conversation.branch_id)
        return self._shown(await conversation.call(fold))

    async def _undo(self) -> None:
        conversation = self.conversation
        if conversation.thread_id is None:
            return self.show_nothing("This conversation has no turns yet.")
        undo = conversation.client.folds.undo(conversation.thread_id, branch_id=conversation.branch_id)
        return self._shown(await conversation.call(undo))

    def _shown(self, fold: ShownFold) -> None:
        self.show(fold_view(fold, plain=self.look.plain))
        if fold.committed:
            self.post_message(self.ConversationChanged())


def fold_view(fold: ShownFold, *, plain: bool) -> Group:
    """Draw a fold: what it does, the turns that leave, and the summary before and after it."""
    before, after = fold.summary_before, fold.summary
    summaries = one_column(before, after) if plain else [side_by_side(before, after)]
    if fold.case == "none":
        covered = f"The summary covers the turns up to {fold.covers_turn_seq}:\n" if fold.covers_turn_seq else ""
        return Group(Text("Nothing to fold: the newest turns stay verbatim."), Text(covered + printable(after)))
    done = {"unfold": "Undone"}.get(fold.case, "Folded" if fold.committed else "Preview")
    parts: list[RenderableType] = [
        Text(f"{done}: the summary covers turns up to {fold.covers_turn_seq} (before: {fold.covered}).", style="bold"),
    ]
    if fold.by:
        parts.append(Text(f"{fold.tokens_before:,} → {fold.tokens_after:,} tokens, written by {fold.by}", style="dim"))
    if fold.boundary_reason:
        parts.append(Text(f"Cut at a new topic: {printable(fold.boundary_reason)}", style="dim"))
    if fold.notice:
        parts.append(Text(printable(fold.notice), style="bold yellow"))
    if used := tokens(fold.spent):
        parts.append(Text(f"Summaries of this conversation used {used}", style="dim"))
    for title, lines in (
        ("Turns to fold", fold.leaves),
        ("Turns that stay verbatim", fold.stays),
        ("Settled", fold.retired),
    ):
        if lines:
            parts.append(Text(f"\n{title}", style="bold"))
            parts.extend(Text(printable(line), no_wrap=True, overflow="ellipsis") for line in lines[-LISTED:])
    return Group(*parts, Text("\nSummary", style="bold"), *summaries)
