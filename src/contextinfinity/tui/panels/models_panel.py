"""The models that can be asked, and which one answers."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.message import Message
from textual.widgets import OptionList

from contextinfinity.tui.panels.panel import ListPanel


class ModelsPanel(ListPanel):
    """Models to choose from; the first line leaves the choice to the router."""

    NAME = "models"
    TITLE = "Model"
    KEYS = "Enter chooses the model of the next messages"

    class ModelChosen(Message):
        """A model was chosen; None: the router chooses."""

        def __init__(self, name: str | None) -> None:
            super().__init__()
            self.name = name

    async def load(self) -> None:
        """Read and list the models."""
        self._names: list[str | None] = [None]
        models = await self.conversation.call(self.conversation.client.conversations.models())
        self._names += models
        now = self.conversation.model
        self.show_lines(
            (
                Text.assemble(
                    ("* " if name == now else "  ", "bold cyan"),
                    name or f"chosen by the router (usually {models[0]})",
                )
                for name in self._names
            ),
            highlight=self._names.index(now) if now in self._names else 0,
        )

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.post_message(self.ModelChosen(self._names[event.option_index]))
