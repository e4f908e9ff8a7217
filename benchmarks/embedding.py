"""The built-in embedder: what it weighs, how soon it is there, how many texts it places in a second, on one core."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.harness import Bench, Row
from benchmarks.words import text
from contextinfinity.embedders.cached import CachedEmbedder
from contextinfinity.embedders.static import StaticEmbedder
from contextinfinity.embedders.weights import TOKENIZER, WEIGHTS, installed

SHORT, HUNDRED = 60, 390
"""Characters of a short text, and of one of 100 tokens."""

_LOADING = """
import json, time
began = time.perf_counter()
import numpy, tokenizers
from contextinfinity.embedders.static import StaticEmbedder
imported = time.perf_counter()
StaticEmbedder().encode(["ready"])
print(json.dumps({"import": imported - began, "load": time.perf_counter() - imported}))
"""


async def run(bench: Bench) -> list[Row]:
    """Measure size, loading, placing, and placing again what is known."""
    embedder, draw = StaticEmbedder(), random.Random(7)
    hundred = [text(draw, HUNDRED) for _ in range(100 * bench.scale.exchanges)]
    short = [text(draw, SHORT) for _ in range(100 * bench.scale.exchanges)]
    cached = CachedEmbedder(embedder)
    await cached.embed(hundred)
    began = time.perf_counter()
    await cached.embed(hundred)
    known = len(hundred) / (time.perf_counter() - began)
    return [
        _size(),
        _loading(bench.scale.starts),
        _rate(
            "texts of 100 tokens placed in a second", "≥ 2,000", _placed(embedder.encode, hundred, bench.scale.blocks)
        ),
        _rate("short texts placed in a second", "", _placed(embedder.encode, short, bench.scale.blocks)),
        _rate("texts of 100 tokens in a second, when known", "", known),
    ]


def _size() -> Row:
    size = sum((installed() / name).stat().st_size for name in (WEIGHTS, TOKENIZER)) / 1e6
    return Row(
        what="files of the built-in embedder",
        figure="≤ 30 MB",
        measured=f"{size:.1f} MB",
        reached=size <= 30,
        values={"megabytes": size},
    )


def _loading(starts: int) -> Row:
    command = [sys.executable, "-c", _LOADING]
    told = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(starts)]
    load, imports = (statistics.median(one[part] for one in told) for part in ("load", "import"))
    return Row(
        what="the built-in embedder is loaded and has placed a text",
        figure="< 0.3 s",
        measured=f"{load:.2f} s, after {imports:.2f} s of imports",
        reached=load < 0.3,
        values={"load_s": load, "import_s": imports},
    )


def _placed(encode: Callable[[Sequence[str]], object], texts: Sequence[str], times: int) -> float:
    """Give the texts placed in a second of this process's own time: the machine may be busy with others."""
    rates = []
    for _ in range(times):
        began = time.process_time()
        encode(texts)
        rates.append(len(texts) / (time.process_time() - began))
    return statistics.median(rates)


def _rate(what: str, figure: str, rate: float) -> Row:
    reached = rate >= 2_000 if figure else None
    return Row(what=what, figure=figure, measured=f"{rate:,.0f}", reached=reached, values={"per_second": rate})
