"""Two versions of a summary, drawn so that a change can be seen."""

from __future__ import annotations

import pytest
from rich.console import Console, RenderableType

from contextinfinity.text.terminal.summary_diff import one_column, side_by_side

BEFORE = "Goal: a buoy\nBudget: 400 EUR\nOpen: radio"
AFTER = "Goal: a buoy\nBudget: 450 EUR\nOpen: radio\nBoard: June"


def drawn(*parts: RenderableType) -> list[str]:
    console = Console(width=44, color_system=None)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.req("TUI-2", "CLI-1")
def test_equal_lines_are_level_and_changed_ones_are_marked_on_their_side() -> None:
    assert drawn(side_by_side(BEFORE, AFTER)) == [
        "summary before         summary after",
        "  Goal: a buoy           Goal: a buoy",
        "- Budget: 400 EUR      + Budget: 450 EUR",
        "  Open: radio            Open: radio",
        "                       + Board: June",
    ]


@pytest.mark.req("TUI-2")
def test_one_column_names_what_a_line_was_before_it() -> None:
    assert drawn(*one_column(BEFORE, AFTER)) == [
        "  Goal: a buoy",
        "- Budget: 400 EUR",
        "+ Budget: 450 EUR",
        "  Open: radio",
        "+ Board: June",
    ]


def test_a_summary_cannot_control_the_terminal() -> None:
    assert drawn(side_by_side("", "\x1b[2Jred"))[1:] == ["                       + \N{REPLACEMENT CHARACTER}[2Jred"]
