"""What a prompt gets of facts that strangers planted in other people's talk.

The samples of ``tests/samples/strangers`` were written by people who never saw the rules: facts of both speakers with
a question in other words, facts that change, identifiers that differ in one character, and three chats about code.
They are put between 1,200 turns of LoCoMo, and asked 30, 200 and 900 turns later as if everything had been folded, so
that only retrieval can bring them back. A fact is found when the pieces of its own turn hold the words that the sample
demands. Every other sample may be looked at (``python -m benchmarks.strangers`` lists the misses among them); the
figures are of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.asked import DATA, LOCOMO, Said, Talk, locomo
from benchmarks.harness import Bench, Row
from benchmarks.ledgers import digest
from benchmarks.plain_rankings import Passages, count
from benchmarks.recall import Asking, engine_at
from contextinfinity.domain.search import ChunkSide
from contextinfinity.embedders.contract import Embedder
from contextinfinity.embedders.static import built_in
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.settings import Settings
from contextinfinity.text.keywords import VERSION
from contextinfinity.wiring.embedding import embedder_of

SAMPLES = Path(__file__).parent.parent / "tests" / "samples" / "strangers"
TURNS, PLANTED_WITHIN = 1_200, 280
"""Turns of other people's talk, and those between which everything is planted."""
LATER = (30, 200, 900)
CHANGED_AFTER = 60
"""Planted items between a fact and its newer value."""
CHATS = (1, 2, 3)
SIDES: tuple[ChunkSide, ChunkSide] = ("user", "assistant")
AIMS = {"planted": (98, 85, 70), "changed": (90, 90, 90), "identifiers": (100, 100, 100), "coding": (98, 85, 70)}
BUDGET = 1_920
"""The packing target of a window of 128,000 tokens."""
CAST, UNRELATED, NOISE = DATA / "cast" / "2021.json", 4, 100
"""Questions that have nothing to do with the talk: every so many are asked; the tokens that may come back."""
_BEGIN = datetime(2025, 1, 6, 8, tzinfo=UTC)


class Sample(NamedTuple):
    """A question; ``turn`` is where its answer was said, ``old`` where a value was said that holds no longer."""

    kind: str
    number: int
    question: str
    words: tuple[str, ...]
    turn: int
    old: int = 0
    old_words: tuple[str, ...] = ()

    @property
    def is_development(self) -> bool:
        """Whether it may be looked at while rules are made."""
        return self.number % 2 == 0


async def run(bench: Bench) -> list[Row]:
    """Measure with the built-in vectors and with the best embedder of this machine."""
    if not locomo():
        return [Row(what="facts by outsiders in a prompt", result=f"not measured: there is no {LOCOMO}")]
    talk, samples = planted(TURNS // 20 if bench.scale.blocks <= 2 else TURNS)
    rows = []
    for embedder in {each.name: each for each in (built_in(), embedder_of(Settings()))}.values():
        found = await asked(bench.folder, talk, samples, embedder)
        rows += [_row(kind, found, embedder.name) for kind in AIMS]
        rows += [await _noise(bench.folder, talk, embedder)] if CAST.is_file() else []
    return [*rows, _plain(talk, samples)]


def planted(turns: int) -> tuple[Talk, list[Sample]]:
    """Put all samples, in an order by chance, between the first turns of other people's talk."""
    others = [exchange for talk in locomo() for exchange in _exchanges(talk.said)][:turns]
    blocks = _blocks()
    places = dict(zip(random.Random(7).sample([*blocks], len(blocks)), range(len(blocks)), strict=True))
    for key in (key for key in blocks if key[0] == "new"):
        places[key] = places["old", key[1]] + CHANGED_AFTER
    left = sorted(blocks, key=lambda key: places[key])
    step = min(PLANTED_WITHIN, turns // 4) / (max(places.values()) + 1)
    made: list[tuple[str, str]] = []
    starts: dict[tuple[str, int], int] = {}
    for number, other in enumerate(others):
        while left and places[left[0]] * step <= number:
            starts[left[0]] = len(made) + 1
            made += blocks[left.pop(0)]
        made.append(other)
    said = [
        Said(f"{seq} {side}", side, "", text, _BEGIN + timedelta(minutes=17 * seq))
        for seq, exchange in enumerate(made, start=1)
        for side, text in zip(SIDES, exchange, strict=True)
        if text
    ]
    return Talk(said, []), [*_samples(starts)]


def _exchanges(said: Sequence[Said]) -> Iterator[tuple[str, str]]:
    """Join what each side says in a row, so that every exchange has both sides."""
    sides: dict[str, list[str]] = {"user": [], "assistant": []}
    for one in said:
        if one.side == "user" and sides["assistant"]:
            yield "\n".join(sides["user"]) or "Hello.", "\n".join(sides["assistant"])
            sides = {"user": [], "assistant": []}
        sides[one.side].append(one.text)


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()]


def _blocks() -> dict[tuple[str, int], list[tuple[str, str]]]:
    """Return what is planted: one exchange for a fact, forty for a chat."""
    blocks: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for kind in ("planted", "identifiers"):
        blocks |= {(kind, number): [_exchange(one)] for number, one in enumerate(_read(kind))}
    for number, one in enumerate(_read("changed")):
        blocks |= {("old", number): [_exchange(one["first"])], ("new", number): [_exchange(one["second"])]}
    return blocks | {("coding", chat): [_exchange(one) for one in _read(f"coding_{chat}")] for chat in CHATS}


def _exchange(one: dict[str, Any]) -> tuple[str, str]:
    return one["user"], one["assistant"]


def _samples(starts: dict[tuple[str, int], int]) -> Iterator[Sample]:
    for number, one in enumerate(_read("planted")):
        yield Sample("planted", number, one["question"], tuple(one["must_contain"]), starts["planted", number])
    for number, one in enumerate(_read("identifiers")):
        yield Sample("identifiers", number, one["question"], (one["identifier"],), starts["identifiers", number])
    for number, one in enumerate(_read("changed")):
        new, old = starts["new", number], starts["old", number]
        yield Sample("changed", number, one["question"], tuple(one["new"]), new, old, tuple(one["old"]))
    for chat in CHATS:
        for number, one in enumerate(_read(f"coding_{chat}_questions")):
            turn = starts["coding", chat] + one["turn"] - 1
            yield Sample("coding", number, one["question"], tuple(one["must_contain"]), turn)


async def _noise(folder: Path, talk: Talk, embedder: Embedder) -> Row:
    """Ask what has nothing to do with the talk: questions to a search engine, with and without an introduction."""
    asked = [turn["rewrite"] for chat in json.loads(CAST.read_text("utf-8")) for turn in chat["turns"]][::UNRELATED]
    async with engine_at(_kept(folder, talk, embedder), embedder) as engine:
        asking = await Asking.of(engine, talk, embedder)
        tokens = [sum(count(each.text) for each in await asking.pieces(question, BUDGET)) for question in asked]
    return Row(
        what=f"tokens retrieved for {len(asked)} questions that have nothing to do with the talk ({embedder.name})",
        target=f"≤ {NOISE}",
        result=f"{mean(tokens):.0f} in the mean, none for {tokens.count(0)}",
        met=mean(tokens) <= NOISE,
        values={"tokens": mean(tokens)},
    )


def _kept(folder: Path, talk: Talk, embedder: Embedder) -> Path:
    return folder / f"strangers-{len(talk.said)}-{digest(VERSION, embedder.name)}"


Found = list[tuple[Sample, tuple[bool, ...]]]


async def asked(folder: Path, talk: Talk, samples: Sequence[Sample], embedder: Embedder) -> Found:
    """Ask every question at every distance."""
    async with engine_at(_kept(folder, talk, embedder), embedder) as engine:
        asking = await Asking.of(engine, talk, embedder)
        return [
            (sample, tuple([is_found(sample, await pieces_of(asking, sample, later)) for later in LATER]))
            for sample in samples
        ]


async def pieces_of(asking: Asking, sample: Sample, later: int) -> Sequence[Artifact]:
    """Return the pieces that a prompt gets so many turns after the answer was said."""
    return await asking.pieces(sample.question, BUDGET, before=sample.turn + later)


def is_found(sample: Sample, pieces: Sequence[Artifact]) -> bool:
    """Return whether the pieces answer: an identifier with the first, a changed fact without its old value."""
    if sample.kind == "identifiers":
        return bool(pieces) and pieces[0].turn_seq == sample.turn
    outdated = " ".join(each.text for each in pieces if each.turn_seq == sample.old and not each.superseded_by)
    if any(word.casefold() in outdated.casefold() for word in sample.old_words):
        return False
    text = " ".join(piece.text for piece in pieces if piece.turn_seq == sample.turn).casefold()
    return all(word.casefold() in text for word in sample.words)


def _row(kind: str, found: Found, name: str) -> Row:
    held = [at for sample, at in found if sample.kind == kind and not sample.is_development]
    seen = [at for sample, at in found if sample.kind == kind and sample.is_development]
    shares = [100 * mean(column) for column in zip(*held, strict=True)]
    looked_at = _listed([100 * mean(column) for column in zip(*seen, strict=True)])
    return Row(
        what=f"facts by outsiders in a prompt, 30 / 200 / 900 turns later: {kind}, {len(held)} ({name})",
        target=f"≥ {_listed(AIMS[kind])}%",
        result=f"{_listed(shares)}% (the other half {looked_at}%)",
        met=all(share >= aim for share, aim in zip(shares, AIMS[kind], strict=True)),
        values={f"percent_{later}": share for later, share in zip(LATER, shares, strict=True)},
    )


def _plain(talk: Talk, samples: Sequence[Sample]) -> Row:
    """Ask BM25, which knows no superseded values, in the whole talk."""
    passages = Passages(talk)
    shares = {}
    for kind in AIMS:
        those = [each for each in samples if each.kind == kind and not each.is_development]
        packed = [passages.packed(Passages.bm25, each.question, BUDGET) for each in those]
        shares[kind] = 100 * mean(
            any(f"{each.turn} {side}" in ids for side in SIDES) for each, ids in zip(those, packed, strict=True)
        )
    told = ", ".join(f"{kind} {share:.0f}" for kind, share in shares.items())
    return Row(what="  baseline: a message of the turn found by BM25, at the end", result=f"{told} %")


def _listed(shares: Sequence[float]) -> str:
    return " / ".join(f"{share:.0f}" for share in shares)


async def _misses(folder: Path, embedder: Embedder) -> None:
    """List what is missed among the samples that may be looked at."""
    talk, samples = planted(TURNS)
    for sample, at in await asked(folder, talk, [each for each in samples if each.is_development], embedder):
        if not all(at):
            print(sample.kind, sample.number, at, sample.question, sample.words, sep=" | ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="List misses among the samples that may be looked at.")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--static", action="store_true", help="with the built-in vectors")
    arguments = parser.parse_args()
    asyncio.run(_misses(arguments.data, built_in() if arguments.static else embedder_of(Settings())))
