"""Draw the plots of the pages: ``.venv-peers/bin/python benchmarks/plots.py``; ``make peers`` installs matplotlib.

``docs/images/peers-append.svg``: what an append costs as a conversation grows, from ``results/peers.json``.
``docs/images/endurance.svg``: prompts, CPU and memory over many turns, from ``results/proof/endurance.json``.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
IMAGES = RESULTS.parents[1] / "docs" / "images"
PREFIX = "append_ms_"
WINDOW = 5
"""Points that are averaged: the disk of a shared machine is noisy."""
ENDURED = ("largest prompt (tokens)", "CPU of an exchange (ms)", "memory (MB)")


def main() -> None:
    """Draw all plots of which there are results."""
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "peers", "font.size": 9})
    plots = import_module("matplotlib.pyplot")
    _peers(plots)
    _endurance(plots)


def _peers(plots: Any) -> None:
    figure, axes = plots.subplots(figsize=(7, 3.6))
    for row in _rows("peers"):
        points = sorted(
            (int(name.removeprefix(PREFIX)), value) for name, value in row["values"].items() if name.startswith(PREFIX)
        )
        if not points:
            continue
        smooth = [
            sum(value for _, value in points[max(0, at - WINDOW + 1) : at + 1]) / min(WINDOW, at + 1)
            for at in range(len(points))
        ]
        ours = row["what"].endswith("contextinfinity")
        name = row["what"].rpartition(" ")[2]
        axes.plot([turns for turns, _ in points], smooth, label=name, linewidth=2.4 if ours else 1.2)
    axes.set(xlabel="exchanges in the conversation", ylabel="append an exchange (ms)", yscale="log")
    axes.legend(ncols=2, fontsize=8)
    axes.grid(alpha=0.3)
    _save(figure, "peers-append")


def _endurance(plots: Any) -> None:
    figure, panels = plots.subplots(1, 3, figsize=(9, 2.8))
    for axes, row, label in zip(panels, _rows("proof/endurance"), ENDURED, strict=True):
        points = {int(turn): value for turn, value in row["values"].items()}
        axes.plot(points.keys(), points.values(), linewidth=1.2)
        axes.set(xlabel="turns", ylabel=label, ylim=(0, 1.15 * max(points.values())))
        axes.grid(alpha=0.3)
    _save(figure, "endurance")


def _rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
