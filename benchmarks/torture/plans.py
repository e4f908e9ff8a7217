"""Who is killed where: every boundary in turn, and as many random moments, in a seeded order.

A boundary is a verb of the store or the journal; a life dies right before it is called or right after it returned.
Between two boundaries it dies at a random moment, at a random SQL statement (most of them inside a transaction),
or in the middle of a write to a journal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Way: TypeAlias = Literal["moment", "opening", "boundary", "statement", "torn"]
Side: TypeAlias = Literal["before", "after"]

BOUNDARIES = (
    "enter",
    "create",
    "accept",  # TX-0
    "prepare",  # only of a message that had to wait
    "open_step",  # TX-P
    "append text",
    "append finished",
    "append call",  # right before a tool is run
    "append output",
    "end journal",
    "finalise",  # TX-A
    "fail",
    "commit",  # TX-B
    "index",  # TX-C
    "complete summarize_turn",
    "complete index_turn",
    "complete remember_turn",
    "pin",
    "fork",
    "leave",
)
AWAY = ("land", "accept", "finalise")
"""Boundaries of a life whose ledger goes away and comes back."""
SIDES: tuple[Side, ...] = ("before", "after")

IN_RECOVERY = {
    "take_over": "append text",
    "end journal": "append text",
    "fail": "append text",
    "finalise": "end journal",
}
"""Boundaries of recovery itself, and after which boundary an earlier life has to die to lead there."""

OFTEN = frozenset({"accept", "open_step", "append text", "finalise", "commit", "index"})
"""Boundaries a life passes many times: it dies at one of the first few."""


class Kill(Struct, frozen=True, kw_only=True):
    """How a life ends. ``nth`` counts calls, statements or writes; ``seconds`` from the first thing it told, or
    for an opening from its start."""

    way: Way
    boundary: str = ""
    side: Side = "before"
    nth: int = 1
    seconds: float = 0.0


class Plan(Struct, frozen=True, kw_only=True):
    """One trial: what it is called in the report, and how its lives end, one after the other."""

    number: int
    label: str
    kills: tuple[Kill, ...]
    fresh_process: bool = False
    """A process of its own from the start, not a fork."""
    away: bool = False
    """Another process holds the ledger again and again."""


_Named: TypeAlias = tuple[str, tuple[Kill, ...]]


def schedule(seed: int, trials: int, starts: int = 20, *, away: bool = False) -> list[Plan]:
    """Plan all trials: the same seed gives the same plans. ``away``: the ledger is now there, now not."""
    rng = random.Random(seed)
    plans = list(islice(_while_away(rng) if away else _alternating(rng), trials))
    rng.shuffle(plans)
    fresh = set(rng.sample(range(trials), min(starts, trials // 4)))
    return [
        Plan(number=number, label=label, kills=kills, fresh_process=number in fresh, away=away)
        for number, (label, kills) in enumerate(plans)
    ]


def labels() -> set[str]:
    """Name every boundary as the report does."""
    return {label for label, _ in [*_boundaries(), *_recoveries()]}


def _alternating(rng: random.Random) -> Iterator[_Named]:
    boundaries = cycle([*_boundaries(), *_recoveries()])
    others = cycle([_moment, _moment, _moment, _statement, _statement, _opening, _torn])
    while True:
        yield _varied(rng, *next(boundaries))
        yield next(others)(rng)


def _while_away(rng: random.Random) -> Iterator[_Named]:
    """Die at a random moment of outages and returns, one to three times in a row, or at a boundary of them."""
    boundaries = cycle([(name, side) for name in AWAY for side in SIDES])
    others = cycle([_away_moment, _away_moment, _away_moment, _torn])
    while True:
        name, side = next(boundaries)
        kill = Kill(way="boundary", boundary=name, side=side, nth=rng.choice((1, 1, 2, 3)))
        yield f"{side} {name}, away", (kill,)
        yield from (next(others)(rng) for _ in range(3))


def _away_moment(rng: random.Random) -> _Named:
    lives = rng.choice((1, 1, 2, 3))
    kills = tuple(Kill(way="moment", seconds=rng.uniform(0.0, 0.25)) for _ in range(lives))
    return "random moment, away", kills


def _boundaries() -> Iterator[_Named]:
    for name in BOUNDARIES:
        for side in SIDES:
            yield f"{side} {name}", (Kill(way="boundary", boundary=name, side=side),)


def _recoveries() -> Iterator[_Named]:
    for name, first in IN_RECOVERY.items():
        for side in SIDES:
            kills = (
                Kill(way="boundary", boundary=first, side="after"),
                Kill(way="boundary", boundary=name, side=side),
            )
            yield f"{side} {name}, in recovery", kills


def _varied(rng: random.Random, label: str, kills: tuple[Kill, ...]) -> _Named:
    """Die at a later call now and then, where there are many."""
    if len(kills) > 1 or kills[0].boundary not in OFTEN:
        return label, kills
    return label, (replace(kills[0], nth=rng.choice((1, 1, 2, 3))),)


def _moment(rng: random.Random) -> _Named:
    """One to three crashes in a row before anybody looks."""
    lives = rng.choice((1, 1, 1, 2, 3))
    return "random moment", tuple(Kill(way="moment", seconds=rng.uniform(0.0, 0.08)) for _ in range(lives))


def _statement(rng: random.Random) -> _Named:
    return "random SQL statement", (Kill(way="statement", nth=rng.randint(1, 400)),)


def _opening(rng: random.Random) -> _Named:
    kills = (Kill(way="moment", seconds=rng.uniform(0.0, 0.05)), Kill(way="opening", seconds=rng.uniform(0.0, 0.04)))
    return "while opening", kills


def _torn(rng: random.Random) -> _Named:
    return "in the middle of a journal's line", (Kill(way="torn", nth=rng.randint(1, 12)),)
