"""Draw what an append costs as a conversation grows: ``.venv-peers/bin/python benchmarks/peer_plots.py``.

It reads ``results/peers.json`` and writes ``docs/images/peers-append.svg``; matplotlib is installed by ``make peers``.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "peers-append.svg"
PREFIX = "append_ms_"
WINDOW = 5
"""Points that are averaged: the disk of a shared machine is noisy."""


def main() -> None:
    """Draw one line for each library."""
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "peers", "font.size": 9})
    figure, axes = import_module("matplotlib.pyplot").subplots(figsize=(7, 3.6))
    for row in json.loads((HERE / "results" / "peers.json").read_text("utf-8")):
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
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
