"""A lane runs one generation after the other, each in a fresh data_dir; lanes run beside each other.

Three generations of four live in memory, where a machine has such a place: a killed process loses nothing that it
gave to the system, so the disk is not what is tested, and there are more trials in an hour. The fourth is on the
disk, where commits are slow and other moments are hit.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.torture.observations import Observations, Violation
from benchmarks.torture.plans import Plan
from benchmarks.torture.trial import Child, fork, run_repair, run_trial
from contextinfinity.storage.encryption.header import HEADER, create_header, new_data_key, write_header
from contextinfinity.storage.encryption.key_sources import VARIABLE, KeySource

GENERATION = 20
"""Trials on one data_dir."""
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only a folder of our own inside it is used


class Job(Struct, frozen=True, kw_only=True):
    """What all lanes share."""

    seed: int
    plans: Sequence[Plan]
    folder: Path | None = None
    """Where data_dirs are made; None: in memory and on the disk by turns."""
    encrypted: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """How a trial went."""

    number: int
    label: str
    killed: bool
    violations: tuple[Violation, ...]
    generation: int
    seconds: float
    fresh_process: bool = False
    recovery_seconds: float = 0.0
    acknowledged: int = 0
    kept: str | None = None
    """The data_dir, where it was kept to be looked at."""


def run_lanes(job: Job, lanes: int, only: int | None = None) -> Iterator[Result]:
    """Run all generations, so many at once, and return the results as they come."""
    generations = list(range((len(job.plans) + GENERATION - 1) // GENERATION)) if only is None else [only]
    decoder = msgspec.json.Decoder(Result)
    children = {child.pipe: child for child in (_start(job, generations[lane::lanes]) for lane in range(lanes))}
    rests = dict.fromkeys(children, b"")
    try:
        while children:
            for pipe in select.select(list(children), [], [])[0]:
                data = os.read(pipe, 1 << 16)
                *lines, rests[pipe] = (rests[pipe] + data).split(b"\n")
                yield from map(decoder.decode, lines)
                if not data:
                    os.close(pipe)
                    os.waitpid(children.pop(pipe).pid, 0)
    finally:
        for child in children.values():  # the run was stopped
            os.kill(child.pid, signal.SIGTERM)


def _start(job: Job, generations: list[int]) -> Child:
    def work(pipe: int) -> None:
        for generation in generations:
            for result in run_generation(job, generation):
                os.write(pipe, msgspec.json.encode(result) + b"\n")

    return fork(work)


def run_generation(job: Job, generation: int) -> Iterator[Result]:
    """Run the trials of one data_dir; keep it if anything was wrong, and go no further with it."""
    plans = job.plans[generation * GENERATION : (generation + 1) * GENERATION]
    folder = Path(tempfile.mkdtemp(prefix=f"torture-{job.seed}-{generation}-", dir=_place(job, generation)))
    observed = Observations()
    if job.encrypted:  # the data_dirs below it are, too
        source = KeySource(kind="environment", name=VARIABLE)
        write_header(folder / HEADER, create_header(new_data_key(), os.environ[VARIABLE], source))
    for plan in plans:
        began, before = time.monotonic(), len(observed.accepted)
        killed = run_trial(plan, folder / "data", job.seed, observed)
        if plan is plans[-1] and not observed.violations:
            run_repair(folder / "data", observed)
        yield Result(
            number=plan.number,
            label=plan.label,
            killed=killed,
            violations=tuple(observed.violations),
            generation=generation,
            seconds=time.monotonic() - began,
            fresh_process=plan.fresh_process,
            recovery_seconds=observed.recovered[-1].seconds if observed.recovered else 0.0,
            acknowledged=len(observed.accepted) - before,
            kept=str(folder) if observed.violations else None,
        )
        if observed.violations:
            return
    shutil.rmtree(folder)


def _place(job: Job, generation: int) -> Path | None:
    if job.folder is not None:
        return job.folder
    return IN_MEMORY if IN_MEMORY.is_dir() and generation % 4 != 3 else None
