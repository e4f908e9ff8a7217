"""The two lines at the top: conversation and branch, and what is durable."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from contextinfinity.client.references import short
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import LiveTurn, Look
from contextinfinity.tui.open_conversation import OpenConversation, branch_name

SEPARATOR = " · "


class StatusHeader(Static):
    """Conversation and branch; head state, pending turns, phase, and how much of what is shown is durable."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__("ContextInfinity\nopening …", id=id, markup=False)
        self.text = Text()
        self._shown: tuple[OpenConversation, LiveTurn | None, Look, str] | None = None

    def on_resize(self) -> None:
        """Cut the title to the new width."""
        if self._shown is not None:
            self.show(*self._shown)

    def show(self, conversation: OpenConversation, live: LiveTurn | None, look: Look, note: str) -> None:
        """Show the state of the conversation and of the running answer."""
        self._shown = conversation, live, look, note
        self.text = Text.assemble(*self._first(conversation), "\n", *self._second(conversation, live, look, note))
        self.update(self.text, layout=False)  # two lines always: the rest of the screen stays as it is

    def _first(self, conversation: OpenConversation) -> list[str | Text | tuple[str, str]]:
        branch = conversation.branch
        named = f"branch {branch_name(branch)}" if branch is not None else "no branch yet"
        model = conversation.model or "model chosen by the router"
        room = max(self.size.width - len(named) - len(model) - 8, 12)
        title = Text(" ".join(printable(conversation.title).split()), style="bold")
        title.truncate(room, overflow="ellipsis")
        return [title, SEPARATOR, named, SEPARATOR, (printable(model), "dim")]

    def _second(
        self, conversation: OpenConversation, live: LiveTurn | None, look: Look, note: str
    ) -> list[str | tuple[str, str]]:
        branch, pending = conversation.branch, len(conversation.pending)
        state = f"state {branch.state} {short(branch.head_state)}" if branch is not None else "state none"
        waiting = (f"pending {pending}", "bold yellow" if pending else "")
        parts: list[str | tuple[str, str]] = [(f"{note}{SEPARATOR}", "bold red")] if note else []
        parts += [state, SEPARATOR, waiting, SEPARATOR, phase_of(conversation, live)]
        parts += [SEPARATOR, durability_of(live, look)]
        if conversation.attached:
            parts += [SEPARATOR, (f"{len(conversation.attached)} attached", "bold cyan")]
        return parts


def phase_of(conversation: OpenConversation, live: LiveTurn | None) -> str:
    """Return the phase of the turn that is being answered, else of the newest one."""
    if live is not None:
        return live.phase
    return conversation.newest[-1].phase.value if conversation.newest else "idle"


def durability_of(live: LiveTurn | None, look: Look) -> tuple[str, str]:
    """Describe how many of the bytes on the screen are durable, and mark it while some are only buffered."""
    if live is None:
        return ("durable: all" if look.plain else "● durable"), "green"
    if live.durable is None:
        return f"shown {live.displayed:,} B", ""
    figures = f"durable {live.durable:,}/{live.displayed:,} B"
    if live.is_buffered:
        return (f"BUFFERED, {figures}" if look.plain else f"◌ BUFFERED, {figures}"), "bold yellow"
    return (figures if look.plain else f"● {figures}"), "green"
