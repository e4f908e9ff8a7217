"""All panels: the letter after Ctrl+O that opens each, its function key, and its class."""

from __future__ import annotations

from typing import NamedTuple

from contextinfinity.tui.panels.branches_panel import BranchesPanel
from contextinfinity.tui.panels.context_panel import ContextPanel
from contextinfinity.tui.panels.folds_panel import FoldsPanel
from contextinfinity.tui.panels.health_panel import HealthPanel
from contextinfinity.tui.panels.history_panel import HistoryPanel
from contextinfinity.tui.panels.memories_panel import MemoriesPanel
from contextinfinity.tui.panels.models_panel import ModelsPanel
from contextinfinity.tui.panels.panel import Panel
from contextinfinity.tui.panels.pending_panel import PendingPanel
from contextinfinity.tui.panels.pins_panel import PinsPanel
from contextinfinity.tui.panels.search_panel import SearchPanel
from contextinfinity.tui.panels.steps_panel import StepsPanel


class PanelEntry(NamedTuple):
    """A panel and the keys that open it."""

    letter: str
    function_key: str
    kind: type[Panel]

    @property
    def name(self) -> str:
        """The panel's name in actions."""
        return self.kind.NAME

    @property
    def keys(self) -> str:
        """The keys that open it, as people read them."""
        return f"Ctrl+O {self.letter}, {self.function_key.upper()}".removesuffix(", ")


PANELS = (
    PanelEntry("c", "f2", ContextPanel),
    PanelEntry("h", "f3", HistoryPanel),
    PanelEntry("s", "f4", SearchPanel),
    PanelEntry("b", "f5", BranchesPanel),
    PanelEntry("p", "f6", PinsPanel),
    PanelEntry("m", "f7", MemoriesPanel),
    PanelEntry("n", "f8", PendingPanel),
    PanelEntry("t", "f9", StepsPanel),
    PanelEntry("l", "", ModelsPanel),
    PanelEntry("f", "", FoldsPanel),
    PanelEntry("j", "", HealthPanel),
)
BY_NAME = {entry.name: entry for entry in PANELS}
