"""Other stores with the same vectors: chromadb, mem0 (``infer=False``) and LangChain's in-memory store.

``make peers`` installs them in an environment of their own; whichever is not there is named. They rank whole messages
by their vectors, and get each question as it is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.asked import Talk
from benchmarks.harness import Row, Series
from benchmarks.plain_rankings import count
from contextinfinity.embedders.static import built_in

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("CONTEXTINFINITY_BENCH_PEERS", HERE.parent / ".venv-peers" / "bin" / "python"))


def peer_rows(talks: Sequence[Talk], budgets: Sequence[int]) -> list[Row]:
    """Ask the peers, in their own environment."""
    if not PEERS.is_file():
        return [Row(what="  baseline: chromadb, mem0, LangChain", result="not measured: `make peers` installs them")]
    given = json.dumps([_given(talk) for talk in talks])
    ran = subprocess.run([str(PEERS), str(HERE / "peers.py")], input=given, capture_output=True, text=True, check=False)
    if ran.returncode:
        return [Row(what="  baseline: peers", result=f"not measured: {ran.stderr.strip().splitlines()[-1][:160]}")]
    answers = json.loads(ran.stdout.splitlines()[-1])
    return [_row(name, answer, talks, budgets) for name, answer in answers.items()]


def _given(talk: Talk) -> dict[str, Any]:
    texts, questions = [said.text for said in talk.said], [asked.text for asked in talk.asked]
    encode = built_in().encode
    return {
        "texts": texts,
        "rows": encode(texts).tolist(),
        "asked": questions,
        "asked_rows": encode(questions).tolist(),
    }


def _row(name: str, answer: dict[str, Any], talks: Sequence[Talk], budgets: Sequence[int]) -> Row:
    if "trouble" in answer:
        return Row(what=f"  baseline: {name}", result=f"not measured: {answer['trouble']}")
    shares = [
        [len(asked.evidence & _filled(talk, order, budget)) / len(asked.evidence) for budget in budgets]
        for talk, orders in zip(talks, answer["orders"], strict=True)
        for asked, order in zip(talk.asked, orders, strict=True)
    ]
    took = Series()
    took.seconds = answer["seconds"]
    told = " · ".join(f"{100 * mean(column):.1f}" for column in zip(*shares, strict=True))
    return Row(what=f"  baseline: {name} {answer['version']}", result=f"{told} %; a search {took}")


def _filled(talk: Talk, order: Iterable[int], budget: int) -> set[str]:
    """Take messages in their order as far as they fit."""
    taken: set[str] = set()
    for place in order:
        tokens = count(talk.said[place].text)
        if tokens <= budget:
            budget -= tokens
            taken.add(talk.said[place].id)
    return taken
