"""After the kill: recovery, everything in its place, recovery once more, and the next message.

Runs in a process of its own, which reports its findings as a workload reports its events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.torture.inspection import connect, contents, kept_turns, readable, remains, violations
from benchmarks.torture.observations import (
    Accepted,
    Ended,
    Observations,
    Recovered,
    Reporter,
    Sending,
    Shown,
    Violation,
)
from benchmarks.torture.workload import THREADS, Report, engine_on, import_all, until_quiet
from contextinfinity.domain.events import Delta, TurnDone
from contextinfinity.domain.turn import Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import NotFound
from contextinfinity.prompt.prompt_sections import CUT_OFF, render_turn
from contextinfinity.settings import General, Settings
from contextinfinity.storage.contract import Store
from contextinfinity.upkeep.examine import examine
from contextinfinity.upkeep.safe_repair import examine_and_repair

LITTER = frozenset({"journal_stray", "lock_stray"})
"""What a crash may leave lying about: files that were made and not yet used. The doctor removes them."""


async def check(folder: Path, observed: Observations, name: str, report: Report) -> None:
    """Check everything after the trial of this name."""
    began = time.perf_counter()
    async with engine_on(folder) as (_, store):
        seconds = time.perf_counter() - began
        for offence in (*remains(folder, observed), *readable(folder, observed)):  # while it runs: with its log
            report(offence)
        for path in observed.imports:  # importing the file again finishes what was killed
            if await asyncio.to_thread(Path(path).exists):
                await import_all(store, Path(path))
        quiet = await until_quiet(store)
    for offence in violations(folder, observed):
        report(offence)
    if quiet:
        await _recover_again(folder, observed, name, report)
        _ask_the_doctor(folder, report)
        report(Recovered(seconds))
    else:
        report(Violation("broken", "the jobs do not come to an end"))


async def _recover_again(folder: Path, observed: Observations, name: str, report: Report) -> None:
    """A second start changes nothing, and the conversations go on."""
    before = contents(folder)
    async with engine_on(folder) as (engine, store):
        await until_quiet(store)
        for offence in _differences(before, contents(folder)):
            report(offence)
        await _late_watchers(engine, store, folder, observed, report)
        await asyncio.gather(*[_next_message(engine, thread, f"{name} {thread}", report) for thread in THREADS])
        await until_quiet(store)


def _ask_the_doctor(folder: Path, report: Report) -> None:
    for finding in examine(settings_of(folder), least_free=0).findings:
        if finding.code not in LITTER:
            report(Violation("broken", f"the doctor finds {finding.code}: {finding.what} {finding.where}"))


def settings_of(folder: Path) -> Settings:
    """The settings of a data_dir without a config file."""
    return Settings(general=General(data_dir=str(folder)))


def run(folder: Path, observed: Observations, name: str, descriptor: int) -> None:
    """Be a process that checks."""
    logging.disable()
    asyncio.run(check(folder, observed, name, Reporter(descriptor)))


def run_repair(folder: Path, descriptor: int) -> None:
    """Run a repair: afterwards nothing is wrong."""
    logging.disable()
    report = Reporter(descriptor)
    for finding in examine_and_repair(settings_of(folder), least_free=0).findings:
        report(Violation("broken", f"after a repair the doctor finds {finding.code}: {finding.what} {finding.where}"))


def _differences(before: dict[str, object], after: dict[str, object]) -> Iterator[Violation]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Violation("broken", f"recovery a second time changed {name}: {before.get(name)} → {after.get(name)}")


async def _late_watchers(engine: Engine, store: Store, folder: Path, observed: Observations, report: Report) -> None:
    """A late reader gets everything that is kept and the end; an interrupted answer is marked for the model."""
    connection = connect(folder)
    turns = [turn for turn in kept_turns(connection) if turn.turn_id not in observed.checked]
    connection.close()
    for kept in turns:
        events = [stamped.event async for stamped in engine.watch(kept.turn_id)]
        text = "".join(event.text for event in events if isinstance(event, Delta))
        if not isinstance(events[-1], TurnDone) or (text, events[-1].turn.text) != (kept.answer, kept.answer):
            report(Violation("broken", f"{kept}: a late watcher gets {text!r}, {kept.answer!r} is kept"))
        turn = await store.turns.get(kept.turn_id)
        assert turn is not None
        if (
            turn.phase is Phase.FAILED
            and kept.answer
            and not render_turn(turn, None)[-1].rendered_text.endswith(CUT_OFF)
        ):
            report(Violation("broken", f"{kept}: it is shown to the model as whole"))


async def _next_message(engine: Engine, thread: str, name: str, report: Report) -> None:
    """The conversation goes on as if nothing had happened."""
    try:
        await engine.session(thread)
    except NotFound:
        return
    text = f"plain next {name}"
    report(Sending(text))
    turn, _ = await engine.accept(thread, text)
    report(Accepted(turn.id, turn.session_id, turn.branch_id, turn.turn_seq, text))
    async for stamped in engine.watch(turn.id):
        if isinstance(stamped.event, Delta):
            report(Shown(turn.id, stamped.event.text))
        elif isinstance(stamped.event, TurnDone):
            report(Ended(turn.id, stamped.event.turn.outcome, stamped.event.turn.text))
            if stamped.event.turn.outcome != "completed":
                report(Violation("broken", f"the next message on {thread} ended as {stamped.event.turn}"))
