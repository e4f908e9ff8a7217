"""One ``ask``: the CPU it takes with a short and with a long verbatim part, and how much code it runs through.

All stages are on, with the built-in embedder; the model is a script that answers at once. The turns are short, so
that hundreds of them stay verbatim in the prompt. Measured is the CPU of the whole process, once until the model
is called, once until the answer is final; the background work of the turn before is done by then.

The tracer counts what a reader has to follow: files, functions, and calls that go from one file to another.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import contextinfinity
from benchmarks.answering import SETTINGS
from benchmarks.harness import Bench, Row, Series
from contextinfinity.engine.engine import Engine
from contextinfinity.providers.contract import EncodedRequest
from contextinfinity.settings import load_settings
from contextinfinity.wiring import open_engine
from contextinfinity_testing.builders import exchange

SHORT, LONG = 10, 250
"""Turns that stay verbatim in the prompt."""
CPU_MS = 6.0
FILES = 45
DRAIN_SECONDS = 30.0
SOURCE = str(Path(contextinfinity.__file__).parent)


@dataclass
class Tracer:
    """Counts calls of the package's functions, in threads that are started while it is installed, and in this one."""

    functions: set[tuple[str, str, int]] = field(default_factory=set)
    changes: int = 0
    is_on: bool = False
    _last: str = ""

    @property
    def files(self) -> set[str]:
        """The files whose functions were called."""
        return {file for file, _, _ in self.functions}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take an event of the profiler."""
        code = frame.f_code
        if not self.is_on or event != "call" or not code.co_filename.startswith(SOURCE):
            return
        self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        self.changes += code.co_filename != self._last
        self._last = code.co_filename

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Take events until the block ends; they are counted while ``is_on``."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


@dataclass(frozen=True)
class Cpu:
    """CPU of asks, in seconds: until the model is called, and until the answer is final."""

    prepared: Series = field(default_factory=Series)
    answered: Series = field(default_factory=Series)


async def run(bench: Bench) -> list[Row]:
    """Measure short and long conversations by turns, then trace one ask."""
    asks = max(3, bench.scale.reads)
    with bench.scratch() as folder:
        (folder / "config.toml").write_text(SETTINGS, encoding="utf-8")
        async with open_engine(load_settings(data_dir=folder).settings) as engine:
            threads = {SHORT: await conversation(engine, SHORT), LONG: await conversation(engine, LONG)}
            cpu = {count: Cpu() for count in threads}
            for _ in range(asks):
                for count, thread in threads.items():
                    await ask(engine, thread, count, cpu[count])
        tracer = await traced(folder)
    return [*(_cpu_row(count, each) for count, each in cpu.items()), _trace_row(tracer)]


async def traced(folder: Path) -> Tracer:
    """Trace one ask of a conversation that is under way, until its answer is final."""
    tracer = Tracer()
    with tracer.installed():
        async with open_engine(load_settings(data_dir=folder).settings) as engine:
            thread = await conversation(engine, SHORT)
            tracer.is_on = True
            await engine.ask(thread, question(0))
            tracer.is_on = False
    return tracer


def question(number: int) -> str:
    """Write a short message that is like no other."""
    return f"And what does ferry {number} cost for two people and a bicycle?"


async def conversation(engine: Engine, turns: int) -> str:
    """Record so many short turns, and answer a question after them; return the conversation's id."""
    first = await engine.ask("new", question(0))
    await engine.job_runner.drain(DRAIN_SECONDS)
    said = [exchange(question(n), f"Ferry {n} costs {n + 4} euros each way.") for n in range(1, turns)]
    await engine.store.turns.record(first.branch_id, said)
    for number in range(2):
        await engine.ask(first.thread_id, question(number))
        await engine.complete_index()
        await engine.job_runner.drain(DRAIN_SECONDS)
    return first.thread_id


async def ask(engine: Engine, thread: str, turns: int, cpu: Cpu) -> None:
    """Ask once, note the CPU, and wait for the background work."""
    provider = engine.models.named(None).provider
    write, called = provider.write, 0.0

    def noting(request: object) -> EncodedRequest:
        nonlocal called
        called = time.process_time()
        return write(request)  # type: ignore[arg-type]

    provider.write = noting  # type: ignore[method-assign]
    began = time.process_time()
    await engine.ask(thread, question(turns))
    ended = time.process_time()
    del provider.write
    cpu.prepared.seconds.append(called - began)
    cpu.answered.seconds.append(ended - began)
    await engine.job_runner.drain(DRAIN_SECONDS)


def _cpu_row(turns: int, cpu: Cpu) -> Row:
    return Row(
        what=f"CPU of one ask, all stages, {turns} short verbatim turns",
        target=f"≤ {CPU_MS:g} ms",
        result=f"{cpu.answered.p50:.2f} ms, of which {cpu.prepared.p50:.2f} ms before the model is called",
        met=cpu.answered.p50 <= CPU_MS,
        values={"cpu_ms": cpu.answered.p50, "prepared_ms": cpu.prepared.p50},
    )


def _trace_row(tracer: Tracer) -> Row:
    return Row(
        what="code that runs for one ask until its answer is final",
        target=f"≤ {FILES} files",
        result=f"{len(tracer.files)} files, {len(tracer.functions)} functions, {tracer.changes:,} changes of file",
        met=len(tracer.files) <= FILES,
        values={"files": len(tracer.files), "functions": len(tracer.functions), "changes": tracer.changes},
    )
