"""Fit the weights of the librarian's score, each time with one set left out: ``python -m benchmarks.summary_weights``.

A sentence is a positive example when a question asks for it. One logistic regression (ridge 3, a bias of its own for
every set) is fitted for short messages and one for long replies of an assistant. Printed are the weights of all sets
together and, for the set that was left out, the share of its facts among the best sentences of 2,560 tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.summaries import count
from benchmarks.summary_data import conversations
from contextinfinity.librarian.extract import is_prose
from contextinfinity.librarian.scoring import SIGNS, signs, words_of
from contextinfinity.librarian.shorten import shortened
from contextinfinity.text.sentences import spoken

SETS = ("locomo", "realtalk", "beam")
LONG = 6
RIDGE = 3.0
BUDGET = 2_560

Matrix = NDArray[np.float64]


class Sample(NamedTuple):
    """The sentences of a set: their signs, how often each is asked for, tokens, conversation, and long replies."""

    signs: Matrix
    asked: Matrix
    cost: Matrix
    talk: Matrix
    long: Matrix


def sample(name: str) -> Sample:
    """Read a set."""
    rows = []
    for number, talk in enumerate(conversations(name)):
        for one in talk.said:
            asked = [fact.sentence for fact in talk.facts if (fact.turn, fact.role) == (one.turn_seq, one.role)]
            sentences = spoken(one.text).sentences
            for place, sentence in enumerate(sentences):
                text = shortened(sentence, one.at)
                if is_prose(text):
                    long = one.role == "assistant" and len(sentences) > LONG
                    found = signs(text, words_of(text), place, len(sentences))
                    rows.append((*found, asked.count(sentence), count(text) + 4, number, long))
    table = np.array(rows, dtype=np.float64)
    return Sample(table[:, :-4], table[:, -4], table[:, -3], table[:, -2], table[:, -1])


def fitted(samples: list[Sample], long: bool) -> tuple[float, Matrix]:
    """Fit the bias (the mean over the sets) and the weights."""
    parts, biases, asked, weights = [], [], [], []
    for number, one in enumerate(samples):
        chosen = one.long == long
        positive = np.minimum(one.asked[chosen], 1)
        if positive.sum() < 5:
            continue
        parts.append(one.signs[chosen])
        biases.append(np.eye(len(samples))[[number] * int(chosen.sum())] * 5)
        asked.append(positive)
        weights.append(np.full(int(chosen.sum()), 300 / positive.sum()))
    if not parts:
        return -4.0, np.zeros(len(SIGNS))
    found, known, weight = np.concatenate(parts), np.concatenate(asked), np.concatenate(weights)
    bias, whole = _logistic(np.c_[found, np.concatenate(biases)], known, weight)
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


def share(one: Sample, short: tuple[float, Matrix], long: tuple[float, Matrix]) -> float:
    """Return the share of facts among the best sentences by score per token."""
    odds = np.where(one.long > 0, long[0] + one.signs @ long[1], short[0] + one.signs @ short[1])
    density = 1 / (1 + np.exp(-odds)) / one.cost**0.8
    found = 0.0
    for talk in np.unique(one.talk):
        places = np.where(one.talk == talk)[0]
        best = places[np.argsort(-density[places])]
        found += float(one.asked[best[np.cumsum(one.cost[best]) <= BUDGET * 0.88]].sum())
    return found / float(one.asked.sum())


def main() -> None:
    """Print the weights, and how they do on the set that was left out."""
    samples = {name: sample(name) for name in SETS if conversations(name)}
    for name, one in samples.items():
        others = [other for key, other in samples.items() if key != name]
        print(f"{name} left out: {share(one, fitted(others, False), fitted(others, True)):.1%}")
    every = [*samples.values()]
    short, long = fitted(every, False), fitted(every, True)
    for name, one in samples.items():
        print(f"{name} with all: {share(one, short, long):.1%}")
    print(f"bias {short[0]:.2f} {long[0]:.2f}")
    for sign, here, there in zip(SIGNS, short[1], long[1], strict=True):
        print(f"{sign} {here:.2f} {there:.2f}")


if __name__ == "__main__":
    main()
