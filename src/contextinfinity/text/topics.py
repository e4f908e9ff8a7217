"""Detect topic changes in a conversation.

The input is the messages and their vectors; the result is for each message the probability that it opens a new topic,
with 0.5 as the threshold. A message is compared with those before and after it by vectors, words, questions and opening
phrases.

There are two kinds of conversation. In work with an assistant, only the user opens topics, and a question is one unit
with its answer. In a conversation of equals, each message is a unit, and anyone may open a topic. Both use the same
evidence with different weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import exp, log1p, log10
from typing import TYPE_CHECKING

from contextinfinity.text import cues

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.floating]

LONGEST = 2_000
"""The number of characters of a message that are read."""

BEFORE = 2
"""The number of units (messages, or questions with answers) before and after that a message is compared with."""


@dataclass(frozen=True, kw_only=True)
class TopicWeights:
    """The weight of each piece of evidence; positive means a new topic."""

    bias: float
    near: float
    """The similarity to the previous message."""
    block: float
    """The similarity of what follows to what came before."""
    depth: float
    """How much less similar this unit is to its neighbour than the units around it are."""
    overlap: float
    """The share of the message's words that occurred before."""
    shared: float
    """The share of words that the unit and those before it have in common."""
    new: float
    """The number of new words (logarithm)."""
    before: float
    """The number of content words of the previous message (logarithm)."""
    pointing: float
    """How much it refers to things said before."""
    asks: float
    """Whether it asks something."""
    asks_about_you: float
    """Whether it asks the other person about themselves."""
    answers: float
    """Whether the previous message asked something."""


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
"""Conversations of equals: a logistic regression on the 300 chats of TIAGE's training set.

Ridge 5 on standardised evidence; the bias puts 0.5 where F1 was best in fivefold cross-validation (0.56).
"""

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
"""Work with an assistant: the same (ridge 10) on CANARD's dialogues, up to three of which were concatenated at random.

The bias is lowered by 0.5, because a false topic change costs more here; the last two weights could not be learned
there and are set by hand. Trained on half of the dialogues, F1 on the other half is 0.72 (precision 0.86, recall 0.62).
"""

# Set by hand for lack of data, in log-odds.
LEAVES_TOPIC = 4.0
GOES_ON = -1.0

_BRIEF = 30
"""The maximum average number of words of a casual partner's answers."""

_PERSONAL = 0.6
"""The share of such answers that ask something or talk about themselves."""

_PAUSE = 1_800.0
_MOST_FOR_A_PAUSE = 2.5


def shift_scores(
    texts: Sequence[str],
    vectors: Matrix,
    *,
    roles: Sequence[str] | None = None,
    times: Sequence[float | None] | None = None,
) -> NDArray[np.float64]:
    """Return for each message the probability that it opens a new topic; 0 for the first.

    ``vectors`` are the rows of the texts, ``roles`` the speakers (default: equals), ``times`` in seconds. System
    messages and blank ones are ignored.
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
        odds = weigh(said.evidence(unit), weights) + said.cue_weight(unit) + _pause(clock[opening - 1], clock[opening])
        scores[spoken[opening]] = 1 / (1 + exp(-odds))
    return scores


def weigh(evidence: Sequence[float], weights: TopicWeights) -> float:
    """Add up the evidence, in log-odds."""
    return weights.bias + sum(
        found * float(getattr(weights, piece)) for piece, found in zip(PIECES, evidence, strict=True)
    )


def _pause(before: float | None, now: float | None) -> float:
    """Return the weight of a pause: half an hour is 0, 5 hours 1, 50 hours 2."""
    if before is None or now is None or now - before <= _PAUSE:
        return 0.0
    return min(log10((now - before) / _PAUSE), _MOST_FOR_A_PAUSE)


class _Said:
    """The non-blank messages, with their features."""

    def __init__(self, texts: list[str], vectors: Matrix, roles: list[str]) -> None:
        self.texts = texts
        self.vectors = vectors
        self.roles = roles
        self.words = [cues.words(text) for text in texts]
        self.content = [cues.content(said) for said in self.words]

    @cached_property
    def is_work(self) -> bool:
        """Whether it is work with an assistant; one with brief, personal answers is a casual partner."""
        answers = [place for place, role in enumerate(self.roles) if role == "assistant"]
        if not answers or "tool" in self.roles:
            return bool(answers)
        brief = sum(len(self.words[place]) for place in answers) < _BRIEF * len(answers)
        personal = sum(cues.asks(self.texts[place]) or cues.of_itself(self.words[place]) for place in answers)
        return not brief or personal < _PERSONAL * len(answers)

    @cached_property
    def units(self) -> list[tuple[int, int]]:
        """The start and end of each unit: a message, or a question with its answers."""
        everywhere = range(len(self.texts))
        starts = [place for place in everywhere if not self.is_work or place == 0 or self.roles[place] == "user"]
        return list(zip(starts, [*starts, len(self.texts)][1:], strict=True))

    @cached_property
    def steps(self) -> list[float]:
        """The similarity of each unit to the previous one."""
        whole = [_direction(self.vectors[start:end]) for start, end in self.units]
        return [0.0, *(float(one @ other) for one, other in pairwise(whole))]

    def evidence(self, unit: int) -> list[float]:
        """Return the evidence for a new topic, in the order of ``PIECES``."""
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
            float(cues.asks(self.texts[start])),
            float(cues.asks_about_you(self.texts[start])),
            float(cues.ends_asking(self.texts[start - 1])),
        ]

    def _depth(self, unit: int) -> float:
        around = [*self.steps[max(1, unit - 2) : unit], *self.steps[unit + 1 : unit + 3]]
        return sum(around) / len(around) - self.steps[unit] if around else 0.0

    def cue_weight(self, unit: int) -> float:
        """Return the weight of the opening phrase."""
        text = self.texts[self.units[unit][0]]
        if cues.leaves_topic(text):
            return LEAVES_TOPIC
        return GOES_ON if self.is_work and cues.starts_like_follow_up(text) else 0.0


def _direction(rows: Matrix) -> Matrix:
    """Return the normalised sum of rows; zeros if it is zero."""
    import numpy as np

    summed: Matrix = rows.sum(axis=0)
    return summed / max(float(np.linalg.norm(summed)), 1e-12)
