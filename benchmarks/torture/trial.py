"""One trial: workloads and their ends, then the check. Also the plumbing: forks, pipes, kills.

The process that forks here has no threads, no loop and no connection, or the child would get half of each.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.torture import check, old_ledger, workload
from benchmarks.torture.observations import (
    Event,
    Observations,
    Reporter,
    Violation,
    events_in,
    stacks_in,
    write_stacks_on_signal,
)
from benchmarks.torture.plans import Kill, Plan
from benchmarks.torture.workload import TOO_LONG, Workload

STACKS_SECONDS = 2.0
"""How long a process that hangs may take to write its stacks."""


class Child(NamedTuple):
    """A process and the pipe through which it reports."""

    pid: int
    pipe: int


class End(NamedTuple):
    """The output of a process: its events, and what was unusual about its end."""

    facts: list[Event]
    killed: bool
    odd: str | None


def run_trial(plan: Plan, folder: Path, seed: int, observed: Observations) -> bool:
    """Run the workloads, kill them and check; return whether the last one died as planned."""
    if plan.work == "migrate":
        return _run_migration(plan, folder.with_name(f"old-{plan.number}"), seed, observed)
    return _run_and_check(plan, folder, seed, observed)


def _run_and_check(plan: Plan, folder: Path, seed: int, observed: Observations) -> bool:
    killed = False
    for number, kill in enumerate(plan.kills):
        name = f"{plan.number}.{number}"
        one = Workload(folder=str(folder), name=name, seed=f"{seed} {name}", kill=kill, away=plan.away, work=plan.work)
        child = start(one) if plan.fresh_process else fork(partial(workload.run, one))
        children: dict[str, tuple[Child, Kill | None]] = {f"workload {name}": (child, kill)}
        if plan.beside and number == len(plan.kills) - 1:
            other = Workload(folder=str(folder), name=f"{name}b", seed=f"{seed} {name}b")
            children[f"workload {name}b"] = fork(partial(workload.run, other)), None
        ends = until_ends(children)
        killed = ends[f"workload {name}"].killed
        for who, end in ends.items():
            _process_end(end, observed, who)
    checker = fork(partial(check.run, folder, observed, str(plan.number)))
    _process_end(until_end(checker), observed, "the check")
    observed.mark_checked()
    return killed


def _run_migration(plan: Plan, folder: Path, seed: int, observed: Observations) -> bool:
    """Make a ledger of an older release, and kill the process that migrates it."""
    own = Observations()
    name = f"{plan.number}.0"
    _process_end(until_end(fork(partial(old_ledger.make, folder, name, f"{seed} {name}"))), own, "making an old ledger")
    killed = _run_and_check(plan, folder, seed, own)
    observed.violations += own.violations
    observed.recovered += own.recovered
    if not own.violations:
        shutil.rmtree(folder)
    return killed


def run_repair(folder: Path, observed: Observations) -> None:
    """Run the doctor's repair on what crashes left."""
    _process_end(until_end(fork(partial(check.run_repair, folder))), observed, "the repair")


def fork(work: Callable[[int], None]) -> Child:
    """Start a process that does some work and reports through a pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    code = 1
    try:
        os.close(reading)
        write_stacks_on_signal(writing)
        work(writing)
        code = 0
    except BaseException:
        Reporter(writing)(Violation("broken", traceback.format_exc()))
    os._exit(code)


def start(one: Workload) -> Child:
    """Start a workload in a new process."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "benchmarks.torture.workload", msgspec.json.encode(one).decode()]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    return Child(pid, reading)


def until_end(child: Child) -> End:
    """Read the events of a process until it ends."""
    return until_ends({"": (child, None)})[""]


class Watched:
    """A process that is listened to, and when it is to be killed."""

    def __init__(self, child: Child, kill: Kill | None) -> None:
        self.child = child
        self.data = bytearray()
        self.hung = False
        self.awaited = kill.seconds if kill is not None and kill.way == "moment" else None
        self.planned = time.monotonic() + kill.seconds if kill is not None and kill.way == "opening" else None
        self.patience = time.monotonic() + 2 * TOO_LONG

    @property
    def due(self) -> float:
        """When it is to be killed: as planned, or because it takes too long."""
        return self.patience if self.planned is None else self.planned

    def kill(self) -> None:
        """Kill it; let one that hangs write its stacks first."""
        if self.planned is None and not self.hung:
            self.hung = True
            os.kill(self.child.pid, signal.SIGUSR1)
            self.planned = time.monotonic() + STACKS_SECONDS
            return
        os.kill(self.child.pid, signal.SIGKILL)
        self.planned, self.patience = None, time.monotonic() + 2 * TOO_LONG

    def poll(self) -> bool:
        """Process what it reported; return whether more may come."""
        data = os.read(self.child.pipe, 1 << 20)
        self.data += data
        if data and self.awaited is not None:  # the first event starts the clock
            self.planned, self.awaited = time.monotonic() + self.awaited, None
        return bool(data)

    def end(self) -> End:
        """Wait for its end, and say how it was."""
        os.close(self.child.pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self.child.pid, 0)[1])
        odd = None if code in (0, -signal.SIGKILL) else f"it ended with {code}"
        if self.hung:
            odd = f"it hung\n{stacks_in(bytes(self.data))}"
        return End(events_in(bytes(self.data)), code == -signal.SIGKILL, odd)


def until_ends(children: Mapping[str, tuple[Child, Kill | None]]) -> dict[str, End]:
    """Read the events of processes until all have ended; kill each at its time."""
    watched = {child.pipe: Watched(child, kill) for child, kill in children.values()}
    ends: dict[int, End] = {}
    while watched:
        due = min(each.due for each in watched.values())
        ready, _, _ = select.select(list(watched), [], [], max(due - time.monotonic(), 0))
        for each in watched.values() if not ready else ():
            if each.due <= time.monotonic():
                each.kill()
        for pipe in ready:
            if not watched[pipe].poll():
                ends[pipe] = watched.pop(pipe).end()
    return {who: ends[child.pipe] for who, (child, _) in children.items()}


def _process_end(end: End, observed: Observations, who: str) -> bool:
    for event in end.facts:
        observed.add(event, who)
    if end.odd is not None:
        observed.add(Violation("broken", f"{who}: {end.odd}"))
    return end.killed
