"""Fit the weights of the ranking on two sets and test them on the third: ``python -m benchmarks.fitting [EVERY]``.

Each weight is tried at neighbouring values while the others stay; for each set that is held out, the best value of each
weight on the other two is taken. EVERY (default 4) takes every so many questions of a conversation.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.asked import Talk, locomo, public
from benchmarks.recall import entries_of, without_adversarial
from contextinfinity.domain.search import WordHits
from contextinfinity.embedders.contract import Embedder
from contextinfinity.retrieval.calibration import calibration_of
from contextinfinity.retrieval.chunking import ENCODING
from contextinfinity.retrieval.packing import PackingBudget, pack
from contextinfinity.retrieval.question import SearchQuestion, search_terms, vector_text
from contextinfinity.retrieval.ranking import (
    CHOSEN,
    NEAR_AROUND,
    WORDS_AROUND,
    RankingInputs,
    RankingWeights,
    SearchResults,
    rank,
)
from contextinfinity.settings import Settings
from contextinfinity.text.keywords import terms
from contextinfinity.text.tokens.encodings import encoding
from contextinfinity.wiring.embedding import embedder_of

BUDGET = 1_000
TRIED: dict[str, Sequence[Any]] = {
    "words": (0.5, 0.9),
    "speaker": (0.1, 0.2),
    "role": (0.0, 0.15),
    "time": (0.3, 0.65),
    "words_around": tuple({by: part * share for by, share in WORDS_AROUND.items()} for part in (0.8, 1.15)),
    "near_around": tuple({by: part * share for by, share in NEAR_AROUND.items()} for part in (0.5, 1.5)),
}
count = encoding(ENCODING).count


class Case(NamedTuple):
    """A question with all that can be found for it."""

    question: SearchQuestion
    found: SearchResults
    evidence: frozenset[str]
    ids: dict[str, str]


async def cases(talks: Sequence[Talk], every: int, embedder: Embedder) -> list[Case]:
    """Prepare every so many questions: each passage of the conversation is ranked."""
    made: list[Case] = []
    for talk in talks:
        entries = entries_of(talk)
        chunks = [chunk for entry in entries for chunk in entry.chunks]
        rows = await embedder.embed([chunk.rendered_text for chunk in chunks])
        said = Counter(term for entry in entries for term in set(terms(entry.text)))
        ids = {entry.place.turn_id + entry.place.side: entry.external_ids[0] for entry in entries}
        speakers = {entry.speaker for entry in entries if entry.speaker}
        for asked in talk.asked[::every]:
            question = SearchQuestion(text=asked.text, asked_at=talk.said[-1].at)
            (row,) = await embedder.embed([vector_text(question, speakers)], kind="query")
            words = WordHits(counts=tuple(said[term] for term in search_terms(question)), total=len(entries))
            cosines = {chunk.id: float(near) for chunk, near in zip(chunks, rows @ row, strict=True)}
            made.append(
                Case(question, SearchResults(words=words, entries=entries, cosines=cosines), asked.evidence, ids)
            )
    return made


def recall(cases: Sequence[Case], means: RankingInputs) -> float:
    """Return the mean share of the evidence within the budget, in percent."""
    return 100 * mean(_share(case, means) for case in cases)


def _share(case: Case, means: RankingInputs) -> float:
    ranked = rank(case.question, case.found, means, most=600)
    pieces = pack(ranked, case.question.text, count, room=PackingBudget(target=BUDGET)).pieces
    found = {case.ids[piece.chunks[0].source_turn + piece.chunks[0].side] for piece in pieces}
    return len(case.evidence & found) / len(case.evidence)


def _variants() -> Iterator[tuple[str, RankingWeights]]:
    for name, values in TRIED.items():
        for value in values:
            yield name, replace(CHOSEN, **{name: value})


async def main(every: int) -> None:
    """Print the figures of each set, of each weight, and of each set that is held out."""
    embedder = embedder_of(Settings())
    talks = {"LoCoMo": without_adversarial(locomo()), "BEAM": public("beam"), "REALTALK": public("realtalk")}
    sets = {name: await cases(found, every, embedder) for name, found in talks.items() if found}
    if len(sets) < 2:
        sys.exit("At least two of LoCoMo, BEAM and REALTALK are needed; see benchmarks/asked.py.")
    means = RankingInputs(calibration=await calibration_of(embedder), count=count)

    def figures(weights: RankingWeights) -> dict[str, float]:
        return {name: round(recall(found, replace(means, weights=weights)), 1) for name, found in sets.items()}

    tried = [("chosen", CHOSEN, figures(CHOSEN))]
    print(embedder.name, tried[0][2])
    for name, weights in _variants():
        tried.append((name, weights, figures(weights)))
        print(name, getattr(weights, name), tried[-1][2])
    for held in sets:
        best = CHOSEN
        for name in TRIED:
            options = [each for each in tried if each[0] in (name, "chosen")]
            top = max(options, key=lambda each: sum(got for which, got in each[2].items() if which != held))
            best = replace(best, **{name: getattr(top[1], name)})
        print(f"{held} held out:", figures(best)[held])


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
