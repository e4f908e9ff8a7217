"""The memories of the user: list, edit and forget them."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList

from contextinfinity.client.results import ShownMemory
from contextinfinity.domain.session import Owner
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.dialogs import ConfirmDialog, TextDialog
from contextinfinity.tui.live_turn import clock
from contextinfinity.tui.panels.panel import ListPanel

if TYPE_CHECKING:
    from contextinfinity.client.contract import MemoryClient

TYPING_SECONDS = 0.2
MOST = 200


class MemoriesPanel(ListPanel):
    """The user's memories, the newest first; with a question typed, those that matter for it."""

    NAME = "memories"
    TITLE = "Memories"
    KEYS = "Enter goes to the list · a adds · e edits · d deletes permanently"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add", "Add"),
        Binding("e", "edit", "Edit"),
        Binding("d,delete", "forget", "Forget"),
    ]
    _memories: tuple[ShownMemory, ...] = ()

    def body(self) -> Iterable[Input | OptionList]:  # type: ignore[override]
        """Return a field above the list."""
        yield Input(placeholder="Find memories about …", id="memory-words", select_on_focus=True)
        yield OptionList(classes="panel-list", markup=False)

    async def load(self) -> None:
        """Read and list the memories."""
        words = self.query_one(Input).value.strip()
        if words:
            await sleep(TYPING_SECONDS)
        memories, owner = self.conversation.client.memories, self.conversation.thread.owner
        self._memories = await self.conversation.call(memories.list(owner, q=words or None, limit=MOST))
        if not self._memories:
            nothing = "There are no memories yet. Press Enter, then a, to add a fact."
            return self.show_nothing(f"Nothing found for {words}." if words else nothing)
        return self.show_lines(map(_line, self._memories))

    @on(Input.Changed, "#memory-words")
    def _typed(self) -> None:
        self.reload()

    @property
    def memory(self) -> ShownMemory | None:
        """The highlighted memory."""
        place = self.chosen
        return self._memories[place] if place is not None and place < len(self._memories) else None

    def action_add(self) -> None:
        """Ask for a fact and remember it."""
        self.app.push_screen(TextDialog("Remember a fact in all conversations"), self._added)

    def action_edit(self) -> None:
        """Ask for other words for the highlighted memory."""
        if (memory := self.memory) is not None:
            self.app.push_screen(
                TextDialog("Change this memory; the old text is deleted", memory.content),
                lambda content: self._edited(memory, content),
            )

    def action_forget(self) -> None:
        """Ask, and forget the highlighted memory."""
        if (memory := self.memory) is not None:
            self.app.push_screen(
                ConfirmDialog(f"Delete permanently:  {memory.content[:120]}", "Yes, forget it"),
                lambda answer: self._forgotten(memory, answer),
            )

    def _added(self, content: str | None) -> None:
        if content:
            self.start("Remembering", self._change(self._client.add(content, owner=self._owner)))

    def _edited(self, memory: ShownMemory, content: str | None) -> None:
        if content and content != memory.content:
            self.start("Changing", self._change(self._client.edit(memory.id, content, owner=self._owner)))

    def _forgotten(self, memory: ShownMemory, answer: str | None) -> None:
        if answer == "yes":
            self.start("Forgetting", self._change(self._client.forget(memory.id, owner=self._owner)))

    async def _change(self, call: Coroutine[Any, Any, object]) -> None:
        await self.conversation.call(call)
        self.reload()

    @property
    def _client(self) -> MemoryClient:
        return self.conversation.client.memories

    @property
    def _owner(self) -> Owner:
        return self.conversation.thread.owner


def _line(memory: ShownMemory) -> Text:
    past = "  no longer true" if memory.valid_to is not None or memory.superseded_by is not None else ""
    source = "from a turn" if memory.source_turn is not None else memory.origin
    return Text.assemble(
        (printable(memory.content), "dim" if past else ""),
        (f"\n  {memory.kind}, {source}, {', '.join(memory.tags)}, {clock(memory.created_at)}{past}", "dim"),
    )
