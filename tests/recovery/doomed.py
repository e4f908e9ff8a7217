"""A process that sends messages to an engine until it is killed, or kills itself at a boundary.

``python -m tests.recovery.doomed FOLDER KILL TEXT…`` sends all texts, so that each waits for the one before, prints
the events on standard output, and stays until its jobs are done.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.torture.observations import Accepted, Ended, Event, Reporter, Shown, events_in
from benchmarks.torture.plans import Kill
from benchmarks.torture.workload import engine_on, until_quiet
from contextinfinity.domain.events import Delta, TurnDone
from tests.doors.forked import Forked

ROOT = Path(__file__).resolve().parents[2]
THREAD = "a talk"


@contextmanager
def process(folder: Path, *texts: str, kill: Kill | None = None) -> Iterator[Forked]:
    """Start a process; it is killed at the end of the block."""
    arguments = [str(folder), msgspec.json.encode(kill).decode(), *texts]
    with Forked("tests.recovery.doomed", arguments, dict(os.environ), streams=(0, None, 2)) as running:
        try:
            yield running
        finally:
            running.kill()


def died_at(folder: Path, kill: Kill, *texts: str) -> list[Event]:
    """Let a process kill itself; return its output until then."""
    with process(folder, *texts, kill=kill) as running:
        told = running.communicate()[0]
        assert (running.returncode or 0) < 0, f"it was to die at {kill}"
    return events_in(told)


def told_until(running: Forked, enough: Callable[[list[Event]], bool]) -> list[Event]:
    """Read a process's output until a condition holds."""
    facts: list[Event] = []
    while not enough(facts):
        line = running.output.readline()
        assert line, f"it ended too early, after {facts}"
        facts += events_in(line)
    return facts


def rest_of(running: Forked) -> list[Event]:
    """Read a process's output until it ends."""
    return events_in(running.communicate()[0])


def shown_in(facts: list[Event]) -> str:
    """Join what was shown of the last turn."""
    last = [fact.turn_id for fact in facts if isinstance(fact, Accepted)][-1]
    return "".join(fact.text for fact in facts if isinstance(fact, Shown) and fact.turn_id == last)


async def main(folder: Path, kill: Kill | None, texts: list[str]) -> None:
    """Run the process."""
    report = Reporter(sys.stdout.fileno())
    async with engine_on(folder, kill) as (engine, store):
        turns = []
        for text in texts:
            turn, _ = await engine.accept(THREAD, text)
            report(Accepted(turn.id, turn.session_id, turn.branch_id, turn.turn_seq, text))
            turns.append(turn)
        for turn in turns:
            async for stamped in engine.watch(turn.id):
                if isinstance(stamped.event, Delta):
                    report(Shown(turn.id, stamped.event.text))
                elif isinstance(stamped.event, TurnDone):
                    report(Ended(turn.id, stamped.event.turn.outcome, stamped.event.turn.text))
        await until_quiet(store)


if __name__ == "__main__":
    doom = msgspec.json.decode(sys.argv[2], type=Kill | None)
    asyncio.run(main(Path(sys.argv[1]), doom, sys.argv[3:]))
