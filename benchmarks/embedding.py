"""Embedders on one core: their size, their time to the first vector, and texts embedded per second.

The endpoint is the fake vendor on this machine; its own cost is measured by a bare client with the same requests.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.harness import Bench, Row
from benchmarks.words import text
from contextinfinity.embedders.choice import CachedEmbedder
from contextinfinity.embedders.minilm.embedder import MiniLMEmbedder
from contextinfinity.embedders.static import TOKENIZER, WEIGHTS, StaticEmbedder, installed
from contextinfinity.providers.local.weights_file import MINILM, are_there
from contextinfinity.settings import ModelSettings, RetrievalSettings, Settings
from contextinfinity.wiring.embedding import embedder_of
from contextinfinity_testing.vendors import FakeVendors

SHORT, HUNDRED = 60, 390
"""Characters of a short text, and of one of 100 tokens."""

MODELS = Path(os.environ.get("CONTEXTINFINITY_LOCAL__MODELS_DIR") or "~/.cache/contextinfinity/models").expanduser()
BATCH = 32
ROUNDS = 3
"""How often MiniLM places the same: it takes its time."""

_LOADING = """
import json, time
began = time.perf_counter()
import numpy, tokenizers
from contextinfinity.embedders.static import StaticEmbedder
imported = time.perf_counter()
StaticEmbedder().encode(["ready"])
print(json.dumps({"import": imported - began, "load": time.perf_counter() - imported}))
"""

_LOADING_MINILM = """
import asyncio, json, sys, time
from pathlib import Path
began = time.perf_counter()
import numpy, onnxruntime, tokenizers
from contextinfinity.embedders.minilm.embedder import MiniLMEmbedder
imported = time.perf_counter()
asyncio.run(MiniLMEmbedder(*map(Path, sys.argv[1:])).embed(["ready"]))
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
        *await _minilm(hundred[: 4 * bench.scale.exchanges], short[: 20 * bench.scale.exchanges], bench),
        await _endpoint(hundred[:BATCH], bench.scale.blocks),
    ]


async def _minilm(hundred: Sequence[str], short: Sequence[str], bench: Bench) -> list[Row]:
    if not are_there(MINILM, MODELS):
        return [Row(what="embedder minilm", result="not measured: its weights are fetched by `cix model get minilm`")]
    files = (MODELS / MINILM.file, MODELS / MINILM.beside[0].file)
    embedder = MiniLMEmbedder(*files)
    await embedder.embed(["ready"])
    rates = [await _slowly_placed(embedder, texts) for texts in (hundred, short)]
    await embedder.close()
    load, imports = _loaded(_LOADING_MINILM, bench.scale.starts, *map(str, files))
    return [
        Row(
            what="load minilm and embed a first text",
            result=f"{load:.2f} s, after {imports:.2f} s of imports",
            values={"load_s": load, "import_s": imports},
        ),
        _rate("texts of 100 tokens placed by minilm in a second", "", rates[0]),
        _rate("short texts placed by minilm in a second", "", rates[1]),
    ]


async def _slowly_placed(embedder: MiniLMEmbedder, texts: Sequence[str]) -> float:
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        await embedder.embed(texts)
        rates.append(len(texts) / (time.process_time() - began))
    return statistics.median(rates)


async def _endpoint(texts: Sequence[str], times: int) -> Row:
    """Ask for the same vectors as an embedder and as a bare client; what differs is what we add."""
    import httpx2

    async with FakeVendors() as vendors, httpx2.AsyncClient() as client:
        model = ModelSettings(provider="openai_chat", model_id="nomic-embed-text", base_url=vendors.compatible_url)
        settings = Settings(retrieval=RetrievalSettings(embedding_model="mine"), models={"mine": model})
        embedder = embedder_of(settings)

        async def ours(texts: Sequence[str]) -> None:
            await embedder.embed(texts)

        async def bare(texts: Sequence[str]) -> None:
            body = {"model": "nomic-embed-text", "input": texts}
            (await client.post(f"{vendors.compatible_url}/embeddings", json=body)).json()

        took: dict[Callable[[Sequence[str]], Awaitable[None]], list[float]] = {ours: [], bare: []}
        for number, ask in enumerate([ours, bare] * (times + 1)):
            fresh = [f"{number} {one}" for one in texts]  # what is known would not be asked for
            began = time.perf_counter()
            await ask(fresh)
            took[ask].append(1000 * (time.perf_counter() - began))
        await embedder.close()
    mine, floor = (statistics.median(took[ask][1:]) for ask in (ours, bare))
    return Row(
        what=f"{BATCH} texts of 100 tokens by /v1/embeddings",
        result=f"{mine:.1f} ms",
        baseline=f"{floor:.1f} ms (a bare client)",
        ratio=mine / floor,
        values={"ours_ms": mine, "bare_ms": floor},
    )


def _size() -> Row:
    size = sum((installed() / name).stat().st_size for name in (WEIGHTS, TOKENIZER)) / 1e6
    return Row(
        what="size of the built-in embedder's files",
        target="≤ 30 MB",
        result=f"{size:.1f} MB",
        met=size <= 30,
        values={"megabytes": size},
    )


def _loaded(script: str, starts: int, *arguments: str) -> tuple[float, float]:
    """Give how long loading took, and the imports before it, in processes of their own."""
    command = [sys.executable, "-c", script, *arguments]
    told = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(starts)]
    load, imports = (statistics.median(one[part] for one in told) for part in ("load", "import"))
    return load, imports


def _loading(starts: int) -> Row:
    load, imports = _loaded(_LOADING, starts)
    return Row(
        what="load the built-in embedder and embed a first text",
        target="< 0.3 s",
        result=f"{load:.2f} s, after {imports:.2f} s of imports",
        met=load < 0.3,
        values={"load_s": load, "import_s": imports},
    )


def _placed(encode: Callable[[Sequence[str]], object], texts: Sequence[str], times: int) -> float:
    """Return the texts placed in a second of this process's own time: the machine may be busy with others."""
    rates = []
    for _ in range(times):
        began = time.process_time()
        encode(texts)
        rates.append(len(texts) / (time.process_time() - began))
    return statistics.median(rates)


def _rate(what: str, figure: str, rate: float) -> Row:
    reached = rate >= 2_000 if figure else None
    return Row(what=what, target=figure, result=f"{rate:,.0f}", met=reached, values={"per_second": rate})
