"""Where a conversation begins to be about something else.

In go the messages and their vectors, out comes for each message how likely it opens a new topic; 0.5 is where it pays
to call it one. A message is compared with what stands before it and after it, by vectors, by words, by the names of
files and symbols, by what it asks and by how it begins.

Two kinds of conversation are told apart. Where somebody works with an assistant, only the user opens topics, and a
question is taken together with its answer. Where both sides speak alike, each message stands for itself, and anyone may
open one. Both look at the same evidence and weigh it differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import exp, log1p, log10
from typing import TYPE_CHECKING

from contextinfinity.text import cues
from contextinfinity.text.entities import ARTIFACTS, entities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.floating]

LONGEST = 2_000
"""Characters of a message that are looked at."""

BEFORE = 2
"""Units (messages, or questions with their answers) before and after that a message is compared with."""


@dataclass(frozen=True, kw_only=True)
class TopicWeights:
    """What each piece of evidence counts for; positive speaks for a new topic."""

    bias: float
    near: float
    """How close the message is to the one before it."""
    block: float
    """How close what follows is to what came before."""
    depth: float
    """How much less close this unit is to its neighbour than the units around it are."""
    overlap: float
    """The share of the message's words that were said before."""
    shared: float
    """The share of words that the unit and those before it have in common."""
    new: float
    """How many words are new (logarithm)."""
    before: float
    """How many words with content the message before it has (logarithm)."""
    pointing: float
    """How much it points at things said before."""
    asks: float
    """Whether something is asked."""
    asks_about_you: float
    """Whether the other is asked about themselves."""
    answers: float
    """Whether the message before it asked something."""


PIECES = tuple(name for name in TopicWeights.__annotations__ if name != "bias")

TALK = TopicWeights(
    bias=-1.56,
    near=-1.13,
    block=-4.55,
    depth=0.87,
    overlap=-0.69,
    shared=0.64,
    new=0.77,
    before=0.46,
    pointing=-1.35,
    asks=0.80,
    asks_about_you=1.77,
    answers=-0.88,
)
"""People among themselves: a logistic regression (ridge 5 on standardised evidence) on the 300 chats of TIAGE's
training part; the bias puts 0.5 where F1 was best in fivefold cross-validation (0.56)."""

WORK = TopicWeights(
    bias=-0.98,
    near=-1.68,
    block=-6.31,
    depth=3.90,
    overlap=-1.15,
    shared=-4.50,
    new=1.18,
    before=0.38,
    pointing=-4.05,
    asks=0.39,
    asks_about_you=0.0,
    answers=-1.5,
)
"""Work with an assistant: the same (ridge 10) on CANARD's question-and-answer dialogues, up to three of which were put
together at random. The bias leans towards no shift by 0.5, since a wrong one costs more here; the last two weights
could not be learned there and are set by hand. Learned so on half of the dialogues, F1 on the other half is 0.72
(precision 0.86, recall 0.62)."""

# What no data was at hand for is set by hand, in log-odds.
LEAVES_TOPIC = 4.0
TURNS_ASIDE = 1.5
GOES_ON = -1.0
SAME_NAMES = -1.5
OTHER_NAMES = 1.0

_BRIEF = 30
"""Words that the answers of somebody who chats have fewer of, on average."""

_PERSONAL = 0.6
"""The share of their answers that ask something or speak of themselves."""

_PAUSE = 1_800.0
_MOST_FOR_A_PAUSE = 2.5


def shift_scores(
    texts: Sequence[str],
    vectors: Matrix,
    *,
    roles: Sequence[str] | None = None,
    times: Sequence[float | None] | None = None,
) -> NDArray[np.float64]:
    """Tell for each message how likely it opens a new topic; the first opens none.

    ``vectors`` are the rows of the texts, ``roles`` who spoke (default: people among themselves), ``times`` seconds.
    A system message and one that says nothing open no topic and count for nothing.
    """
    import numpy as np

    who = roles or ["user"] * len(texts)
    spoken = [place for place, text in enumerate(texts) if text.strip() and who[place] != "system"]
    scores = np.zeros(len(texts))
    said = _Said([texts[place][:LONGEST] for place in spoken], vectors[spoken], [who[place] for place in spoken])
    clock = [times[place] if times else None for place in spoken]
    weights = WORK if said.is_work else TALK
    for unit in range(1, len(said.units)):
        opening = said.units[unit][0]
        odds = weigh(said.evidence(unit), weights) + said.told(unit) + _pause(clock[opening - 1], clock[opening])
        scores[spoken[opening]] = 1 / (1 + exp(-odds))
    return scores


def weigh(evidence: Sequence[float], weights: TopicWeights) -> float:
    """Add evidence up, in log-odds."""
    return weights.bias + sum(
        found * float(getattr(weights, piece)) for piece, found in zip(PIECES, evidence, strict=True)
    )


def _pause(before: float | None, now: float | None) -> float:
    """Weigh the time between two messages: half an hour counts for nothing, 5 hours for 1, 50 for 2."""
    if before is None or now is None or now - before <= _PAUSE:
        return 0.0
    return min(log10((now - before) / _PAUSE), _MOST_FOR_A_PAUSE)


class _Said:
    """Messages that say something, with what can be seen in them."""

    def __init__(self, texts: list[str], vectors: Matrix, roles: list[str]) -> None:
        self.texts = texts
        self.vectors = vectors
        self.roles = roles
        self.words = [cues.words(text) for text in texts]
        self.content = [cues.content(said) for said in self.words]

    @cached_property
    def is_work(self) -> bool:
        """Whether somebody works with an assistant; one that is brief, asks and speaks of itself is company."""
        answers = [place for place, role in enumerate(self.roles) if role == "assistant"]
        if not answers or "tool" in self.roles:
            return bool(answers)
        brief = sum(len(self.words[place]) for place in answers) < _BRIEF * len(answers)
        personal = sum("?" in self.texts[place] or cues.of_itself(self.words[place]) for place in answers)
        return not brief or personal < _PERSONAL * len(answers)

    @cached_property
    def units(self) -> list[tuple[int, int]]:
        """Where each unit begins and ends: a message, or a question with all that answers it."""
        everywhere = range(len(self.texts))
        starts = [place for place in everywhere if not self.is_work or place == 0 or self.roles[place] == "user"]
        return list(zip(starts, [*starts, len(self.texts)][1:], strict=True))

    @cached_property
    def names(self) -> list[frozenset[str]]:
        """The files, symbols and addresses that each message names."""
        return [
            frozenset(found.text.lower() for found in entities(text) if found.kind in ARTIFACTS) for text in self.texts
        ]

    @cached_property
    def steps(self) -> list[float]:
        """How close each unit is to the one before it."""
        whole = [_direction(self.vectors[start:end]) for start, end in self.units]
        return [0.0, *(float(one @ other) for one, other in pairwise(whole))]

    def evidence(self, unit: int) -> list[float]:
        """Give what speaks for and against a new topic, in the order of ``PIECES``."""
        start, end = self.units[unit]
        first = self.units[max(0, unit - BEFORE)][0]
        last = self.units[min(len(self.units) - 1, unit + BEFORE - 1)][1]
        here, said = self.content[start], frozenset[str]().union(*self.content[first:start])
        whole = frozenset[str]().union(*self.content[start:end])
        return [
            float(self.vectors[start] @ self.vectors[start - 1]),
            float(_direction(self.vectors[first:start]) @ _direction(self.vectors[start:last])),
            self._depth(unit),
            len(here & said) / max(1, len(here)),
            len(whole & said) / max(1, min(len(whole), len(said))),
            log1p(len(here - said)),
            log1p(len(self.content[start - 1])),
            cues.pointing(self.words[start]) / max(1, len(self.words[start])) ** 0.5,
            float("?" in self.texts[start]),
            float(cues.asks_about_you(self.texts[start])),
            float(cues.ends_asking(self.texts[start - 1])),
        ]

    def _depth(self, unit: int) -> float:
        around = [*self.steps[max(1, unit - 2) : unit], *self.steps[unit + 1 : unit + 3]]
        return sum(around) / len(around) - self.steps[unit] if around else 0.0

    def told(self, unit: int) -> float:
        """Weigh how the message begins, and which files and symbols it names."""
        text = self.texts[self.units[unit][0]]
        if cues.leaves_topic(text):
            odds = LEAVES_TOPIC
        elif cues.turns_aside(text):
            odds = TURNS_ASIDE
        else:
            odds = GOES_ON if self.is_work and cues.goes_on(text) else 0.0
        return odds + self._told_by_names(unit) if self.is_work else odds

    def _told_by_names(self, unit: int) -> float:
        start, end = self.units[unit]
        first = self.units[max(0, unit - BEFORE)][0]
        before = frozenset[str]().union(*self.names[first:start])
        if before & frozenset[str]().union(*self.names[start:end]):
            return SAME_NAMES
        return OTHER_NAMES if before and self.names[start] else 0.0


def _direction(rows: Matrix) -> Matrix:
    """Give the direction of the sum of rows; zeros if there is none."""
    import numpy as np

    summed: Matrix = rows.sum(axis=0)
    return summed / max(float(np.linalg.norm(summed)), 1e-12)
