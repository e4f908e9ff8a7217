"""The table at the end: for people, for docs/benchmarks.md, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from benchmarks.harness import Row

HEADINGS = ("measurement", "target", "result", "baseline", "ratio", "met")


def table(rows: Sequence[Row]) -> Table:
    """For a terminal."""
    made = Table(*HEADINGS, show_lines=False)
    for row in rows:
        made.add_row(*_cells(row), style=None if row.figure else "dim")
    return made


def markdown(rows: Sequence[Row], machine: str) -> str:
    """For docs/benchmarks.md."""
    lines = [_line(HEADINGS), _line(["---"] * len(HEADINGS)), *(_line(_cells(row)) for row in rows)]
    return "\n".join([*lines, "", f"Measured on: {machine}."])


def as_json(rows: Sequence[Row], machine: str) -> str:
    """For programs."""
    return json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=2, ensure_ascii=False)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    reached = {True: "yes", False: "NO", None: ""}[row.reached]
    return (row.what, row.figure, row.measured, row.floor, ratio, reached)
