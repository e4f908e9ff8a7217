"""Who is killed where: every boundary in turn, and as many random moments, in a seeded order.

A boundary is a verb of the store or the journal; a process dies right before it is called or right after it returned.
Between two boundaries it dies at a random moment, at a random SQL statement (most of them inside a transaction),
or in the middle of a write to a journal. While it deletes, imports, replays a spool or migrates, it dies at a random
operation: an SQL statement or the removal or renaming of a file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Way: TypeAlias = Literal["moment", "opening", "boundary", "statement", "torn", "operation"]
Work: TypeAlias = Literal["talk", "delete", "import", "replay", "migrate"]
"""What a workload does: talk, delete a conversation, import a file, leave a spool, open an old ledger."""
Side: TypeAlias = Literal["before", "after"]

BOUNDARIES = (
    "enter",
    "accept",  # TX-0; of a new thread it creates the session too
    "prepare",  # only of a message that had to wait
    "open_step",  # TX-P
    "append text",
    "append finished",
    "append call",  # right before a tool is run
    "append output",
    "end journal",
    "finalise",  # TX-A; it claims the job that commits the turn
    "fail",
    "complete summarize_turn",  # TX-B, with TX-C and the memories of the turn; of late turns TX-B alone
    "complete index_turn",  # TX-C of late turns
    "complete remember_turn",
    "pin",
    "fork",
    "leave",
)
AWAY = ("replay", "accept", "finalise")
"""Boundaries of a process whose ledger is unavailable for a time."""
SIDES: tuple[Side, ...] = ("before", "after")

IN_RECOVERY = {
    "take_over": "append text",
    "end journal": "append text",
    "fail": "append text",
    "finalise": "end journal",
}
"""Boundaries of recovery itself, and after which boundary an earlier process has to die to lead there."""

OFTEN = frozenset({"accept", "open_step", "append text", "finalise", "complete summarize_turn"})
"""Boundaries that a process passes many times: it dies at one of the first few."""


class Kill(Struct, frozen=True, kw_only=True):
    """How a process ends.

    ``nth`` counts calls, statements, writes or operations (statements and changes of files). ``seconds`` count from the
    first event, or for an opening from its start.
    """

    way: Way
    boundary: str = ""
    side: Side = "before"
    nth: int = 1
    seconds: float = 0.0


class Plan(Struct, frozen=True, kw_only=True):
    """One trial: its name in the report, and how its processes end, one after the other."""

    number: int
    label: str
    kills: tuple[Kill, ...]
    fresh_process: bool = False
    """A process of its own from the start, not a fork."""
    away: bool = False
    """Another process holds the ledger again and again."""
    work: Work = "talk"
    beside: bool = False
    """Another process talks on the same branches meanwhile."""


class _Named(NamedTuple):
    label: str
    kills: tuple[Kill, ...]
    away: bool = False
    work: Work = "talk"
    beside: bool = False


def schedule(seed: int, trials: int, starts: int = 20) -> list[Plan]:
    """Plan all trials: the same seed gives the same plans."""
    rng = random.Random(seed)
    return _planned(rng, list(islice(_mixed(rng), trials)), starts)


def sample(seed: int, starts: int = 2) -> list[Plan]:
    """Plan a small run: a sixth of the boundaries, other ones with another seed, and one of everything else."""
    rng = random.Random(seed)
    away = [_at_boundary_away(rng, name, side) for name in AWAY for side in SIDES]
    boundaries = [*_boundaries(), *_recoveries(), *away]
    others = [kind(rng) for kind in (*_OTHERS, *_WORKS)]
    return _planned(rng, [*rng.sample(boundaries, len(boundaries) // 6), *others], starts)


def _planned(rng: random.Random, named: list[_Named], starts: int) -> list[Plan]:
    rng.shuffle(named)
    fresh = set(rng.sample(range(len(named)), min(starts, len(named) // 4)))
    return [Plan(number=number, fresh_process=number in fresh, **each._asdict()) for number, each in enumerate(named)]


def labels() -> set[str]:
    """Return the name of every boundary, as in the report."""
    return {each.label for each in [*_boundaries(), *_recoveries()]}


def _mixed(rng: random.Random) -> Iterator[_Named]:
    """A boundary, a random moment, one of the works, in turn; now and then while the ledger comes and goes."""
    boundaries = cycle([*_boundaries(), *_recoveries()])
    away = cycle([(name, side) for name in AWAY for side in SIDES])
    others, works = cycle(_MOMENTS), cycle(_WORKS)
    while True:
        for _ in range(4):
            yield _varied(rng, next(boundaries))
            yield next(others)(rng)
            yield next(works)(rng)
        yield _at_boundary_away(rng, *next(away))


def _at_boundary_away(rng: random.Random, name: str, side: Side) -> _Named:
    kill = Kill(way="boundary", boundary=name, side=side, nth=rng.choice((1, 1, 2, 3)))
    return _Named(f"{side} {name}, away", (kill,), away=True)


def _away_moment(rng: random.Random) -> _Named:
    """Die at a random moment of outages and returns, one to three times in a row."""
    workloads = rng.choice((1, 1, 2, 3))
    kills = tuple(Kill(way="moment", seconds=rng.uniform(0.0, 0.25)) for _ in range(workloads))
    return _Named("random moment, away", kills, away=True)


def _boundaries() -> Iterator[_Named]:
    for name in BOUNDARIES:
        for side in SIDES:
            yield _Named(f"{side} {name}", (Kill(way="boundary", boundary=name, side=side),))


def _recoveries() -> Iterator[_Named]:
    for name, first in IN_RECOVERY.items():
        for side in SIDES:
            kills = (
                Kill(way="boundary", boundary=first, side="after"),
                Kill(way="boundary", boundary=name, side=side),
            )
            yield _Named(f"{side} {name}, in recovery", kills)


def _varied(rng: random.Random, named: _Named) -> _Named:
    """Die at a later call now and then, where there are many."""
    if len(named.kills) > 1 or named.kills[0].boundary not in OFTEN:
        return named
    return named._replace(kills=(replace(named.kills[0], nth=rng.choice((1, 1, 2, 3))),))


def _moment(rng: random.Random) -> _Named:
    """One to three crashes in a row before the check."""
    workloads = rng.choice((1, 1, 1, 2, 3))
    return _Named("random moment", tuple(Kill(way="moment", seconds=rng.uniform(0.0, 0.08)) for _ in range(workloads)))


def _beside(rng: random.Random) -> _Named:
    """Two processes talk on the same branches, and one of them dies."""
    kill = Kill(way="moment", seconds=rng.uniform(0.0, 0.15))
    return _Named("random moment, two processes on one branch", (kill,), beside=True)


def _statement(rng: random.Random) -> _Named:
    return _Named("random SQL statement", (Kill(way="statement", nth=rng.randint(1, 400)),))


def _opening(rng: random.Random) -> _Named:
    kills = (Kill(way="moment", seconds=rng.uniform(0.0, 0.05)), Kill(way="opening", seconds=rng.uniform(0.0, 0.04)))
    return _Named("while opening", kills)


def _torn(rng: random.Random) -> _Named:
    return _Named("in the middle of a journal's line", (Kill(way="torn", nth=rng.randint(1, 12)),))


def _deleting(rng: random.Random) -> _Named:
    kill = Kill(way="operation", nth=rng.randint(1, MOST_OPERATIONS["delete"]))
    return _Named("while deleting", (kill,), work="delete", beside=rng.random() < 0.5)


def _importing(rng: random.Random) -> _Named:
    kill = Kill(way="operation", nth=rng.randint(1, MOST_OPERATIONS["import"]))
    return _Named("while importing", (kill,), work="import", beside=rng.random() < 0.5)


def _replaying(rng: random.Random) -> _Named:
    """A first process leaves a spool, a second dies while it replays it."""
    kills = (
        Kill(way="moment", seconds=rng.uniform(0.05, 0.3)),
        Kill(way="operation", nth=rng.randint(1, MOST_OPERATIONS["replay"])),
    )
    return _Named("while replaying a spool", kills, work="replay", beside=rng.random() < 0.5)


def _migrating(rng: random.Random) -> _Named:
    kills = (Kill(way="operation", nth=rng.randint(1, MOST_OPERATIONS["migrate"])),)
    return _Named("while migrating", kills, work="migrate", beside=rng.random() < 0.5)


MOST_OPERATIONS: dict[Work, int] = {"delete": 130, "import": 320, "replay": 120, "migrate": 95}
"""About how many operations each takes; a later one than it takes kills nothing."""
_OTHERS = (_moment, _beside, _statement, _opening, _torn, _away_moment)
_MOMENTS = (_moment, _moment, _beside, _statement, _statement, _opening, _torn, _moment, _away_moment)
_WORKS = (_deleting, _importing, _replaying, _migrating)
