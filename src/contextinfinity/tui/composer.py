"""The field a message is written in."""

from __future__ import annotations

import unicodedata
from typing import ClassVar, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding, BindingType
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

# Most terminals send Alt+Enter as Escape and Return, which Textual reads as Enter: the message would be sent.
cast("dict[str, object]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


class Composer(TextArea):
    """A text field that grows with its text: Enter sends, Alt+Enter or a backslash at the end begins a new line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+enter,shift+enter,ctrl+j", "new_line", "New line", show=False),
        Binding("pageup", "scroll_transcript(-1)", show=False),
        Binding("pagedown", "scroll_transcript(1)", show=False),
    ]

    class MessageEntered(Message):
        """A message was finished with Enter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class PageScrolled(Message):
        """The conversation is to be scrolled by pages; the field itself has none."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            tab_behavior="focus",
            placeholder="Write a message; Enter sends it, F1 shows all keys",
        )

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.prevent_default()
            event.stop()
            if self.text.endswith("\\"):
                self.action_delete_left()
                self.insert("\n", maintain_selection_offset=False)
            elif self.text.strip():
                text = self.text
                self.clear()  # at once: what is typed from now on belongs to the next message
                self.post_message(self.MessageEntered(text))
            return
        if event.character and unicodedata.category(event.character) == "Cf":
            self.insert(event.character)  # joiners of emoji and Persian words, which Textual does not take for text
            event.stop()
            return
        await super()._on_key(event)

    def give_back(self, text: str) -> None:
        """Put a message that was not taken in front of what was typed since."""
        self.text = f"{text}\n{self.text}" if self.text else text
        self.move_cursor(self.document.end)

    def action_new_line(self) -> None:
        """Begin a new line."""
        self.insert("\n", maintain_selection_offset=False)

    def action_scroll_transcript(self, pages: int) -> None:
        """Scroll the conversation without leaving the field."""
        self.post_message(self.PageScrolled(pages))
