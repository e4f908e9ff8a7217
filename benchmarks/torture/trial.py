"""One trial: lives and their ends, then the check. Also the plumbing: forks, pipes, kills.

Whoever forks here has no threads, no loop and no connection, or the child would get half of each.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.torture import check, life
from benchmarks.torture.account import Account, Fact, Offence, Teller, facts_in
from benchmarks.torture.life import TOO_LONG, Life
from benchmarks.torture.plans import Kill, Plan


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
    killed = False
    for number, kill in enumerate(plan.kills):
        name = f"{plan.number}.{number}"
        one = Life(folder=str(folder), name=name, seed=f"{seed} {name}", kill=kill, away=plan.away)
        child = start(one) if plan.fresh_process else fork(partial(life.run, one))
        killed = _take_in(until_end(child, kill), account, f"life {name}")
    checker = fork(partial(check.run, folder, account, str(plan.number)))
    _take_in(until_end(checker), account, "the check")
    account.see()
    return killed


def tidy(folder: Path, account: Account) -> None:
    """Have the doctor repair what crashes left."""
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


def until_end(child: Child, kill: Kill | None = None) -> End:
    """Take in what a process tells until it is gone; kill it when its moment has come."""
    data, hung = bytearray(), False
    awaited = kill.seconds if kill is not None and kill.way == "moment" else None
    planned = time.monotonic() + kill.seconds if kill is not None and kill.way == "opening" else None
    patience = time.monotonic() + 2 * TOO_LONG
    while True:
        due = patience if planned is None else planned
        ready, _, _ = select.select([child.pipe], [], [], max(due - time.monotonic(), 0))
        if not ready:
            hung = planned is None
            os.kill(child.pid, signal.SIGKILL)
            planned, patience = None, time.monotonic() + 2 * TOO_LONG
            continue
        told = os.read(child.pipe, 1 << 20)
        if not told:
            break
        data += told
        if awaited is not None:  # the first it told: its moment is so long from now
            planned, awaited = time.monotonic() + awaited, None
    os.close(child.pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    odd = "it hung" if hung else None if code in (0, -signal.SIGKILL) else f"it ended with {code}"
    return End(facts_in(bytes(data)), code == -signal.SIGKILL, odd)


def _take_in(end: End, account: Account, who: str) -> bool:
    for fact in end.facts:
        account.add(fact)
    if end.odd is not None:
        account.add(Offence("broken", f"{who}: {end.odd}"))
    return end.killed
