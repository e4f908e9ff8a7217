"""Keep the results of benchmarks as JSON, and make the tables for a terminal, docs/benchmarks.md and docs/proof.md.

``results/NAME.json`` holds the rows of one benchmark with their date and machine. ``results/page.md`` and
``results/proof.md`` are the pages without their tables, ``results/missed.toml`` says why targets are missed, by the
beginning of the row's key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.table import Table

from benchmarks.harness import Row, host

RESULTS = Path(__file__).parent / "results"
_DOCS = Path(__file__).parents[1] / "docs"
PAGES = {_DOCS / "benchmarks.md": RESULTS / "page.md", _DOCS / "proof.md": RESULTS / "proof.md"}
HEADINGS = ("measurement", "target", "result", "baseline", "ratio", "met")
NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class Result(Row):
    """A row that is kept, with the date and the machine of its run."""

    key: str
    date: str
    machine: str
    full: bool = False
    """Whether it was measured by ``make bench-full``."""


def keys(rows: Sequence[Row]) -> list[str]:
    """Return the key of each row: its text; an indented row's begins with that of the row it belongs to."""
    found: list[str] = []
    parent = ""
    for row in rows:
        is_part = row.what.startswith("  ")
        found.append(f"{parent} – {row.what.strip()}" if is_part else row.what)
        parent = parent if is_part else row.what
    return found


def load(name: str, folder: Path = RESULTS) -> list[Result]:
    """Return the results kept of one benchmark; none when it has never been run."""
    path = folder / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=list[Result]) if path.exists() else []


def save(name: str, rows: Sequence[Row], machine: str, *, full: bool = False, folder: Path = RESULTS) -> None:
    """Replace the results of one benchmark.

    Kept are results of a full run that an ordinary run does not repeat, and those of rows that were not measured.
    """
    today = datetime.now(UTC).date().isoformat()
    new = [
        Result(**asdict(row), key=key, date=today, machine=machine, full=full)
        for key, row in zip(keys(rows), rows, strict=True)
        if not row.result.startswith(NOT_MEASURED)
    ]
    replaced = {result.key for result in new}
    is_partial = len(new) < len(rows)
    old = [result for result in load(name, folder) if result.key not in replaced]
    kept = [result for result in old if is_partial or (result.full and not full)]
    encoded = msgspec.json.format(msgspec.json.encode([*new, *kept]), indent=1)
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded + b"\n")


def save_proof(name: str, rows: Sequence[Row]) -> None:
    """Replace the results of one part of ``make proof``, and make docs/proof.md again."""
    save(f"proof/{name}", rows, host())
    write_pages()


def table(rows: Sequence[Row]) -> Table:
    """Return the table for a terminal."""
    made = Table(*HEADINGS, show_lines=False)
    for row in rows:
        made.add_row(*_cells(row), style=None if row.target else "dim")
    return made


def write_pages() -> None:
    """Make the pages again."""
    for path, text in PAGES.items():
        path.write_text(page(text), encoding="utf-8")


def page(source: Path) -> str:
    """Return a page: its text, with the tables of the benchmarks that it names."""
    text = source.read_text(encoding="utf-8")
    reasons: dict[str, dict[str, str]] = tomllib.loads((RESULTS / "missed.toml").read_text(encoding="utf-8"))
    judged = [result for path in RESULTS.glob("*.json") for result in load(path.stem) if result.met is not None]
    met = sum(result.met is True for result in judged)
    text = text.replace("<!-- targets met -->", f"{met} of {len(judged)} targets are met")
    return re.sub(r"^<!-- results: (.+) -->$", lambda names: section(names[1].split(), reasons), text, flags=re.M)


def section(names: Sequence[str], reasons: dict[str, dict[str, str]]) -> str:
    """Return the table of some benchmarks, the reasons for its missed targets, and when and where it was measured."""
    found = {name: load(name) for name in names}
    missed = [
        f"- Missed: {key}. {reason}"
        for name, results in found.items()
        for key, reason in reasons.get(name, {}).items()
        if any(result.met is False and result.key.startswith(key) for result in results)
    ]
    runs: dict[str, list[str]] = {}
    for name, results in found.items():
        for result in results:
            measured = runs.setdefault(f"{result.date}: {result.machine}", [])
            measured += [f"`{name}`"] * (f"`{name}`" not in measured)
    dates = [f"- Measured on {run} ({', '.join(measured)})" for run, measured in sorted(runs.items())]
    return f"{markdown([result for results in found.values() for result in results])}\n\n" + "\n".join(missed + dates)


def markdown(rows: Sequence[Row]) -> str:
    """Return the table as markdown, without columns that are empty."""
    lines = [HEADINGS, *(_cells(row) for row in rows)]
    shown = [index for index in range(len(HEADINGS)) if any(line[index] for line in lines[1:])]
    lines.insert(1, ("---",) * len(HEADINGS))
    return "\n".join(f"| {' | '.join(line[index] for index in shown)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    what = f"– {row.what.strip()}" if row.what.startswith("  ") else row.what
    return (what, row.target, row.result, row.baseline, ratio, {True: "yes", False: "NO", None: ""}[row.met])
