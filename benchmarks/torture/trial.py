"""One trial: lives and their ends, then the check. Also the plumbing: forks, pipes, kills.

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

from benchmarks.torture import check, life, old_ledger
from benchmarks.torture.account import Account, Fact, Offence, Teller, facts_in, stacks_in, write_stacks_on_signal
from benchmarks.torture.life import TOO_LONG, Life
from benchmarks.torture.plans import Kill, Plan

STACKS_SECONDS = 2.0
"""How long a process that hangs may take to write its stacks."""


class Child(NamedTuple):
    """A process and the pipe it tells through."""

    pid: int
    pipe: int


class End(NamedTuple):
    """What came out of a process: what it told, and what was odd about its end."""

    facts: list[Fact]
    killed: bool
    odd: str | None


def run_trial(plan: Plan, folder: Path, seed: int, account: Account) -> bool:
    """Live, die, and be looked over; tell whether the last life died as planned."""
    if plan.work == "migrate":
        return _run_migration(plan, folder.with_name(f"old-{plan.number}"), seed, account)
    return _live_and_look(plan, folder, seed, account)


def _live_and_look(plan: Plan, folder: Path, seed: int, account: Account) -> bool:
    killed = False
    for number, kill in enumerate(plan.kills):
        name = f"{plan.number}.{number}"
        one = Life(folder=str(folder), name=name, seed=f"{seed} {name}", kill=kill, away=plan.away, work=plan.work)
        child = start(one) if plan.fresh_process else fork(partial(life.run, one))
        children: dict[str, tuple[Child, Kill | None]] = {f"life {name}": (child, kill)}
        if plan.beside and number == len(plan.kills) - 1:
            other = Life(folder=str(folder), name=f"{name}b", seed=f"{seed} {name}b")
            children[f"life {name}b"] = fork(partial(life.run, other)), None
        ends = until_ends(children)
        killed = ends[f"life {name}"].killed
        for who, end in ends.items():
            _take_in(end, account, who)
    checker = fork(partial(check.run, folder, account, str(plan.number)))
    _take_in(until_end(checker), account, "the check")
    account.see()
    return killed


def _run_migration(plan: Plan, folder: Path, seed: int, account: Account) -> bool:
    """Make a ledger of an older release, and kill the process that migrates it."""
    own = Account()
    name = f"{plan.number}.0"
    _take_in(until_end(fork(partial(old_ledger.make, folder, name, f"{seed} {name}"))), own, "making an old ledger")
    killed = _live_and_look(plan, folder, seed, own)
    account.violations += own.violations
    account.recovered += own.recovered
    if not own.violations:
        shutil.rmtree(folder)
    return killed


def tidy(folder: Path, account: Account) -> None:
    """Run the doctor's repair on what crashes left."""
    _take_in(until_end(fork(partial(check.tidy, folder))), account, "the repair")


def fork(work: Callable[[int], None]) -> Child:
    """Start a process that does some work and tells through a pipe."""
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
        Teller(writing)(Offence("broken", traceback.format_exc()))
    os._exit(code)


def start(one: Life) -> Child:
    """Start a life in a process of its own, from nothing."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "benchmarks.torture.life", msgspec.json.encode(one).decode()]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    return Child(pid, reading)


def until_end(child: Child) -> End:
    """Take in what a process tells until it is gone."""
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

    def hear(self) -> bool:
        """Process what it reported; return whether more may come."""
        told = os.read(self.child.pipe, 1 << 20)
        self.data += told
        if told and self.awaited is not None:  # the first it told: its moment is so long from now
            self.planned, self.awaited = time.monotonic() + self.awaited, None
        return bool(told)

    def end(self) -> End:
        """Wait for its end, and say how it was."""
        os.close(self.child.pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self.child.pid, 0)[1])
        odd = None if code in (0, -signal.SIGKILL) else f"it ended with {code}"
        if self.hung:
            odd = f"it hung\n{stacks_in(bytes(self.data))}"
        return End(facts_in(bytes(self.data)), code == -signal.SIGKILL, odd)


def until_ends(children: Mapping[str, tuple[Child, Kill | None]]) -> dict[str, End]:
    """Take in what processes tell until all are gone; kill each when its moment has come."""
    watched = {child.pipe: Watched(child, kill) for child, kill in children.values()}
    ends: dict[int, End] = {}
    while watched:
        due = min(each.due for each in watched.values())
        ready, _, _ = select.select(list(watched), [], [], max(due - time.monotonic(), 0))
        for each in watched.values() if not ready else ():
            if each.due <= time.monotonic():
                each.kill()
        for pipe in ready:
            if not watched[pipe].hear():
                ends[pipe] = watched.pop(pipe).end()
    return {who: ends[child.pipe] for who, (child, _) in children.items()}


def _take_in(end: End, account: Account, who: str) -> bool:
    for fact in end.facts:
        account.add(fact, who)
    if end.odd is not None:
        account.add(Offence("broken", f"{who}: {end.odd}"))
    return end.killed
