"""Fit the weights of the librarian's score, each time with one set left out: ``python -m benchmarks.summary_weights``.

A sentence is a positive example when a question asks for it, or when it states a fact that strangers planted (every
other one, among sentences of LoCoMo that no question asks for). One logistic regression (ridge 3, a bias of its own for
every set) is fitted. Printed are the weights of all sets together, for the set that was left out the share of its facts
among the best sentences of 2,560 tokens, and that share without each feature.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.strangers import SAMPLES
from benchmarks.summaries import count
from benchmarks.summary_data import conversations
from contextinfinity.librarian.contract import TranscriptMessage
from contextinfinity.librarian.extract import is_prose
from contextinfinity.librarian.scoring import SIGNS, signs, words_of
from contextinfinity.librarian.shorten import shortened
from contextinfinity.text.sentences import reported

SETS = ("locomo", "realtalk", "beam")
RIDGE = 3.0
BUDGET = 2_560

Matrix = NDArray[np.float64]


class Sample(NamedTuple):
    """The sentences of a set: their features, how often each is asked for, tokens, and conversation."""

    signs: Matrix
    asked: Matrix
    cost: Matrix
    talk: Matrix


def sample(name: str) -> Sample:
    """Read a set."""
    rows = []
    for number, talk in enumerate(conversations(name)):
        for one in talk.said:
            asked = [fact.sentence for fact in talk.facts if (fact.turn, fact.role) == (one.turn_seq, one.role)]
            rows += [(*found, asked.count(sentence), cost, number) for sentence, found, cost in _sentences(one)]
    table = np.array(rows, dtype=np.float64)
    return Sample(table[:, :-3], table[:, -3], table[:, -2], table[:, -1])


def strangers(talk: Sample) -> Sample:
    """Read every other fact that strangers planted, among sentences of a talk that no one asks for."""
    rows = []
    for line in (SAMPLES / "planted.jsonl").read_text(encoding="utf-8").splitlines()[::2]:
        fact = json.loads(line)
        one = TranscriptMessage(turn_seq=1, role=fact["speaker"], text=fact[fact["speaker"]])
        rows += [
            (*found, 1, cost, 0)
            for sentence, found, cost in _sentences(one)
            if any(word.casefold() in sentence.casefold() for word in fact["must_contain"])
        ]
    table = np.array(rows, dtype=np.float64)
    others = np.flatnonzero(talk.asked == 0)[::4]
    return Sample(
        np.concatenate([table[:, :-3], talk.signs[others]]),
        np.concatenate([table[:, -3], talk.asked[others]]),
        np.concatenate([table[:, -2], talk.cost[others]]),
        np.zeros(len(table) + len(others)),
    )


def _sentences(one: TranscriptMessage) -> Iterator[tuple[str, list[float], int]]:
    said = reported(one.text, everything=one.role == "assistant")
    for place, sentence in enumerate(said):
        text = shortened(sentence, one.at)
        if is_prose(text):
            yield sentence, signs(text, words_of(text), place, len(said)), count(text) + 5


def fitted(samples: Sequence[Sample], without: int = -1) -> tuple[float, Matrix]:
    """Fit the bias (the mean over the sets) and the weights; the weight of one feature may be left out."""
    parts, biases, asked, weights = [], [], [], []
    for number, one in enumerate(samples):
        positive = np.minimum(one.asked, 1)
        parts.append(one.signs)
        biases.append(np.eye(len(samples))[[number] * len(positive)] * 5)
        asked.append(positive)
        weights.append(np.full(len(positive), 300 / positive.sum()))
    found = np.concatenate(parts)
    if without >= 0:
        found[:, without] = 0
    bias, whole = _logistic(np.c_[found, np.concatenate(biases)], np.concatenate(asked), np.concatenate(weights))
    return bias + float(whole[len(SIGNS) :].mean()) * 5, whole[: len(SIGNS)]


def _logistic(rows: Matrix, known: Matrix, weight: Matrix) -> tuple[float, Matrix]:
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    table = np.c_[np.ones(len(rows)), (rows - mean) / spread]
    made = np.zeros(table.shape[1])
    ridge = np.eye(len(made)) * RIDGE
    ridge[0, 0] = 0
    for _ in range(30):
        odds = 1 / (1 + np.exp(-table @ made))
        slope = table.T @ (weight * (known - odds)) - ridge @ made
        made += np.linalg.solve((table * (weight * odds * (1 - odds))[:, None]).T @ table + ridge, slope)
    return float(made[0] - (made[1:] * mean / spread).sum()), made[1:] / spread


def share(one: Sample, weights: tuple[float, Matrix]) -> float:
    """Return the share of facts among the best sentences by score per token."""
    density = 1 / (1 + np.exp(-weights[0] - one.signs @ weights[1])) / one.cost**0.7
    found = 0.0
    for talk in np.unique(one.talk):
        places = np.where(one.talk == talk)[0]
        best = places[np.argsort(-density[places])]
        found += float(one.asked[best[np.cumsum(one.cost[best]) <= BUDGET * 0.8]].sum())
    return found / float(one.asked.sum())


def main() -> None:
    """Print the weights, and how they do on the set that was left out."""
    sets = {name: sample(name) for name in SETS if conversations(name)}
    planted = strangers(sets["locomo"])
    for without, feature in [(-1, "nothing"), *enumerate(SIGNS)]:
        left_out = [
            share(one, fitted([*(other for key, other in sets.items() if key != name), planted], without))
            for name, one in sets.items()
        ]
        print(
            f"without {feature}:", ", ".join(f"{name} {value:.1%}" for name, value in zip(sets, left_out, strict=True))
        )
    bias, weights = fitted([*sets.values(), planted])
    print(f"bias {bias:.2f}")
    for sign, weight in zip(SIGNS, weights, strict=True):
        print(f"{sign} {weight:.2f}")


if __name__ == "__main__":
    main()
