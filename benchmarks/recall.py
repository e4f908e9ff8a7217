"""How much of what answers a question comes back within so many tokens, beside other stores with the same vectors.

A question's evidence counts by the share of its messages that are packed whole. Each piece costs its words and ten
tokens. The peers are chromadb, mem0 (``infer=False``) and LangChain's in-memory store; ``make peers`` installs them in
an environment of their own, and whichever is not there is named.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.asked import CATEGORIES, LOCOMO, Asked, Talk, chats, locomo
from benchmarks.harness import Bench, Row, Series
from benchmarks.shelf import Shelf, count
from contextinfinity.embedders.static import built_in
from contextinfinity.retrieval.asking import Question
from contextinfinity.retrieval.calibration import KNOWN
from contextinfinity.retrieval.lexicon import built_in_lexicon
from contextinfinity.retrieval.packing import Candidate, Room, pack
from contextinfinity.retrieval.ranking import CHOSEN, Found, Means, Weights, rank

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("CONTEXTINFINITY_BENCH_PEERS", HERE.parent / ".venv-peers" / "bin" / "python"))
BUDGETS = (500, 1_000, 2_000)
BORDER = 10
FEW = 150
"""Messages of a conversation at the size of a test."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)

ABLATIONS: dict[str, Weights] = {
    "words alone": Weights(near=0, voice=0, time=0, asking=0, heard_around={}),
    "vector alone": Weights(heard=0, voice=0, time=0, asking=0, near_around={}),
    "words and vector": Weights(voice=0, time=0, asking=0, heard_around={}, near_around={}),
    "without words around": Weights(heard_around={}),
    "without vectors around": Weights(near_around={}),
    "without the vector": Weights(near=0),
    "without the voice": Weights(voice=0),
    "without times": Weights(time=0),
    "without the share that asks": Weights(asking=0),
}


class Share(NamedTuple):
    """What came back of one question's evidence within each budget."""

    category: int
    shares: tuple[float, ...]


async def run(bench: Bench) -> list[Row]:
    """Measure people's conversations and chats with an assistant."""
    talks, talk = locomo(), chats()
    if bench.scale.blocks <= 2:
        talks, talk = [_first(each) for each in talks[:1]], _first(talk)
    if not talks:
        missing = f"not measured: there is no {LOCOMO.name} in {LOCOMO.parent}; set CONTEXTINFINITY_BENCH_DATA"
        return [Row(what="evidence found (LoCoMo)", measured=missing), _chats(talk)]
    shelves = [Shelf(talk) for talk in talks]
    found = [_found(shelf, talk) for shelf, talk in zip(shelves, talks, strict=True)]
    chosen, took = _ours(talks, shelves, found, CHOSEN)
    return [
        *_figures(chosen, took),
        *_peers(talks, shelves),
        *(_ablation(name, _ours(talks, shelves, found, weights)[0]) for name, weights in ABLATIONS.items()),
        _chats(talk),
    ]


def _first(talk: Talk) -> Talk:
    """Cut a conversation down to what is asked of its beginning: a few questions of each kind."""
    said = talk.said[:FEW]
    known = {each.id for each in said}
    asked = [each for each in talk.asked if each.evidence <= known]
    return Talk(said, [each for kind in CATEGORIES for each in [a for a in asked if a.category == kind][:3]])


def _found(shelf: Shelf, talk: Talk) -> list[Found]:
    return [shelf.find(_question(asked)) for asked in talk.asked]


def _question(asked: Asked) -> Question:
    return Question(text=asked.text, asked_at=NOW)


def _ours(
    talks: Sequence[Talk], shelves: Sequence[Shelf], found: Sequence[Sequence[Found]], weights: Weights
) -> tuple[list[Share], Series]:
    """Rank and pack every question; time the ranking."""
    means = Means(calibration=KNOWN[built_in().name], lexicon=built_in_lexicon(), count=count, weights=weights)
    shares, took = [], Series()
    for talk, shelf, finds in zip(talks, shelves, found, strict=True):
        for asked, each in zip(talk.asked, finds, strict=True):
            with took.timed():
                ranked = rank(_question(asked), each, means)
            shares.append(_share(asked, [_packed(shelf, ranked, asked.text, budget) for budget in BUDGETS]))
    return shares, took


def _packed(shelf: Shelf, ranked: Sequence[Candidate], question: str, budget: int) -> set[str]:
    """Pack as a search with a budget does; give the ids of what went in whole."""
    rows = shelf.vectors(int(each.chunk.id) for each in ranked)
    room = Room(target=budget, border=BORDER)
    pieces = pack(ranked, question, count, room=room, vectors=rows).pieces
    whole = (chunk.id for piece in pieces if piece.form == "whole" for chunk in piece.chunks)
    return {shelf.entries[int(place)].external_ids[0] for place in whole}


def _share(asked: Asked, packed: Iterable[set[str]]) -> Share:
    return Share(asked.category, tuple(len(asked.evidence & each) / len(asked.evidence) for each in packed))


def _of(shares: Sequence[Share], *categories: int) -> tuple[float, ...]:
    """Give the mean for each budget, in percent."""
    wanted = [share.shares for share in shares if share.category in categories]
    return tuple(100 * mean(column) for column in zip(*wanted, strict=True))


def _figures(shares: Sequence[Share], took: Series) -> list[Row]:
    main, adversarial = _of(shares, 1, 2, 3, 4), _of(shares, 5)
    wanted = [share.shares[1] for share in shares if share.category < 5]
    every, some = (100 * mean(map(test, wanted)) for test in (lambda s: s == 1, lambda s: s > 0))
    by_kind = ", ".join(f"{name} {_of(shares, number)[1]:.1f}" for number, name in CATEGORIES.items())
    return [
        _row("evidence found within 1,000 tokens (LoCoMo 1–4)", main[1], 85, f"all of it {every:.1f}, any {some:.1f}"),
        _row("evidence found within 2,000 tokens (LoCoMo 1–4)", main[2], 90, f"within 500: {main[0]:.1f}"),
        _row("evidence of adversarial questions within 1,000", adversarial[1], 75, f"within 500: {adversarial[0]:.1f}"),
        Row(what="by kind of question, within 1,000", measured=by_kind),
        Row(what="ranking what was found for a question", measured=str(took), values={"p95_ms": took.p95}),
    ]


def _row(what: str, percent: float, aim: int, beside: str) -> Row:
    return Row(
        what=what,
        figure=f"≥ {aim}%",
        measured=f"{percent:.1f}% ({beside})",
        reached=percent >= aim,
        values={"percent": percent},
    )


def _ablation(name: str, shares: Sequence[Share]) -> Row:
    return Row(what=f"… {name}", measured=f"{_told(_of(shares, 1, 2, 3, 4))}; adversarial {_of(shares, 5)[1]:.1f}")


def _told(percents: Sequence[float]) -> str:
    return " · ".join(f"{percent:.1f}" for percent in percents) + " % within 500 · 1,000 · 2,000"


def _chats(talk: Talk) -> Row:
    """Measure the chats with an assistant."""
    shelf = Shelf(talk)
    found = [_found(shelf, talk)]
    rows = [
        f"{name} {_of(_ours([talk], [shelf], found, weights)[0], 4)[0]:.1f}"
        for name, weights in {"chosen": CHOSEN, **ABLATIONS}.items()
        if name in ("chosen", "words alone", "vector alone", "words and vector")
    ]
    return Row(what="answers in chats with an assistant, within 500 tokens", measured=f"{', '.join(rows)} %")


def _peers(talks: Sequence[Talk], shelves: Sequence[Shelf]) -> list[Row]:
    """Ask the peers, in their own environment."""
    if not PEERS.is_file():
        return [Row(what="peers: chromadb, mem0, LangChain", measured="not installed; `make peers` does it")]
    given = [_given(talk, shelf) for talk, shelf in zip(talks, shelves, strict=True)]
    ran = subprocess.run(
        [str(PEERS), str(HERE / "peers.py")], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        return [Row(what="peers", measured=f"not measured: {ran.stderr.strip().splitlines()[-1][:160]}")]
    answers = json.loads(ran.stdout.splitlines()[-1])
    return [_peer(name, answer, talks, shelves) for name, answer in answers.items()]


def _given(talk: Talk, shelf: Shelf) -> dict[str, Any]:
    questions = [asked.text for asked in talk.asked]
    return {
        "texts": [entry.text for entry in shelf.entries],
        "rows": shelf.rows.tolist(),
        "asked": questions,
        "asked_rows": built_in().encode(questions).tolist(),
    }


def _peer(name: str, answer: dict[str, Any], talks: Sequence[Talk], shelves: Sequence[Shelf]) -> Row:
    if "trouble" in answer:
        return Row(what=f"beside it: {name}", measured=f"not measured: {answer['trouble']}")
    shares = [
        _share(asked, [_filled(shelf, order, budget) for budget in BUDGETS])
        for talk, shelf, orders in zip(talks, shelves, answer["orders"], strict=True)
        for asked, order in zip(talk.asked, orders, strict=True)
    ]
    took = Series()
    took.seconds = answer["seconds"]
    found = f"{_told(_of(shares, 1, 2, 3, 4))}; adversarial {_of(shares, 5)[1]:.1f}; a search {took}"
    return Row(what=f"beside it: {name} {answer['version']}", measured=found)


def _filled(shelf: Shelf, order: Iterable[int], budget: int) -> set[str]:
    """Take messages in their order as far as they fit, as we do."""
    taken: set[str] = set()
    for place in order:
        tokens = shelf.entries[place].chunks[0].token_est + BORDER
        if tokens <= budget:
            budget -= tokens
            taken.add(shelf.entries[place].external_ids[0])
    return taken
