"""Two versions of a summary side by side, as a table or, for a screen reader, as lines in one column."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from contextinfinity.text.terminal.control_characters import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


class LinePair(NamedTuple):
    """A line of the old version beside the one of the new version; equal, or one or both of them changed."""

    before: str | None
    after: str | None


def line_pairs(before: str, after: str) -> list[LinePair]:
    """Align the lines of two versions: equal lines are level, removed and added ones stand beside a gap."""
    old, new = printable(before).splitlines(), printable(after).splitlines()
    pairs: list[LinePair] = []
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pairs += map(LinePair._make, zip_longest(old[old_start:old_end], new[new_start:new_end]))
    return pairs


def side_by_side(before: str, after: str) -> Table:
    """Draw two versions as a table of two columns: ``-`` marks removed lines, ``+`` added ones."""
    from rich.table import Table

    table = Table("summary before", "summary after", box=None, pad_edge=False, expand=True)
    table.columns[0].ratio = table.columns[1].ratio = 1
    for pair in line_pairs(before, after):
        table.add_row(_line(pair, removed=True), _line(pair, removed=False))
    return table


def one_column(before: str, after: str) -> list[Text]:
    """Draw two versions in one column: a removed line precedes the one that replaces it."""
    lines: list[Text] = []
    for pair in line_pairs(before, after):
        if pair.before is not None and pair.before != pair.after:
            lines.append(_line(pair, removed=True))
        if pair.after is not None:
            lines.append(_line(pair, removed=False))
    return lines


def _line(pair: LinePair, *, removed: bool) -> Text:
    from rich.text import Text

    line = pair.before if removed else pair.after
    if line is None:
        return Text()
    if pair.before == pair.after:
        return Text(f"  {line}")
    return Text(f"- {line}", style="red") if removed else Text(f"+ {line}", style="green")
