"""``python -m benchmarks.fuzz [--seconds N] [--seed N] [--save] [NAME…]``: damage valid inputs, and see what happens.

Each parser and each door of a server gets damaged inputs for some seconds. Findings are exceptions that are no errors
of the package, answers of status 500 and above, tracebacks in the log, and what takes longer than a few seconds. An
input that made a finding is kept in the folder ``fuzz-findings``, and the command fails.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import random
import signal
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report
from benchmarks.endurance import resident
from benchmarks.fuzz.fuzzed_doors import DOORS, fuzz_doors
from benchmarks.fuzz.fuzzed_parsers import EXPECTED, FuzzTarget, targets
from benchmarks.fuzz.mutation import mutated
from benchmarks.harness import Row
from contextinfinity.text.plurals import counted

KEPT = Path("fuzz-findings")
HANG_SECONDS = 10
GROWTH_MB = 64
"""More memory than this, kept between the first quarter of the inputs and the last, is a finding."""


@dataclass(kw_only=True)
class Fuzzed:
    """What was seen of one target."""

    name: str
    tried: int = 0
    accepted: int = 0
    longest: float = 0.0
    grown: float = 0.0
    """Megabytes."""
    findings: dict[str, bytes] = field(default_factory=dict)
    """The first input that led to each finding."""

    def row(self) -> Row:
        """Return the row of docs/proof.md."""
        return Row(
            what=self.name,
            result=f"{counted(self.tried, 'input')}, the longest took {1000 * self.longest:,.0f} ms, "
            f"memory {self.grown:+.0f} MB, {counted(len(self.findings), 'finding')}",
            values={"inputs": self.tried, "longest_ms": 1000 * self.longest, "grown_mb": self.grown},
        )

    def __str__(self) -> str:
        return (
            f"| {self.name} | {self.tried:,} | {self.accepted:,} | {1000 * self.longest:,.0f} | {self.grown:+.0f} "
            f"| {len(self.findings)} |"
        )


class _Hang(BaseException):
    """Raised by the alarm, past every handler of exceptions."""


def fuzz(target: FuzzTarget, seconds: float, rng: random.Random) -> Fuzzed:
    """Give a target damaged inputs for so many seconds."""
    seen = Fuzzed(name=target.name)
    end, memory = time.monotonic() + seconds, 0
    quarter = time.monotonic() + seconds / 4
    for seed in target.seeds:
        _try(target, seed, seen)
    while (now := time.monotonic()) < end:
        if not memory and now > quarter:
            gc.collect()
            memory = resident()
        _try(target, mutated(rng, rng.choice(target.seeds), target.seeds), seen)
    gc.collect()
    seen.grown = (resident() - (memory or resident())) / 1024
    if seen.grown > GROWTH_MB:
        seen.findings["memory grew"] = b""
    return seen


def _try(target: FuzzTarget, data: bytes, seen: Fuzzed) -> None:
    began = time.process_time()
    signal.alarm(HANG_SECONDS)
    try:
        target.read(data)
        seen.accepted += 1
    except EXPECTED:
        pass
    except (_Hang, Exception) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
        if place not in seen.findings:
            print(f"{target.name}: {place}: {str(error)[:120]!r}", file=sys.stderr)
            seen.findings[place] = data
    finally:
        signal.alarm(0)
    seen.tried += 1
    seen.longest = max(seen.longest, time.process_time() - began)


def _ring(*_: object) -> None:
    raise _Hang(f"longer than {HANG_SECONDS} seconds")


def main() -> None:
    """Fuzz the named targets, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description="Send damaged inputs to everything.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only targets whose name holds this text")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results, for docs/proof.md")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    print(f"seed {arguments.seed}, {arguments.seconds:g} s a target\n")
    print(
        "| target | inputs | accepted | longest (ms) | memory (MB) | findings |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    signal.signal(signal.SIGALRM, _ring)
    found: list[Fuzzed] = []

    def is_named(name: str) -> bool:
        return not arguments.names or any(part in name for part in arguments.names)

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner, ExitStack() as stack:
        for target in targets(Path(folder), runner.get_loop(), stack):
            if is_named(target.name):
                found.append(fuzz(target, arguments.seconds, rng))
                print(found[-1], flush=True)
    if any(map(is_named, DOORS)):
        for tried, longest, grown, findings, name in fuzz_doors(arguments.seconds, rng, is_named):
            found.append(Fuzzed(name=name, tried=tried, accepted=0, longest=longest, grown=grown, findings=findings))
            print(found[-1], flush=True)
    for seen in found:
        for finding, data in seen.findings.items():
            KEPT.mkdir(exist_ok=True)
            path = KEPT / hashlib.sha256(data).hexdigest()[:12]
            path.write_bytes(data)
            print(f"{seen.name}: {finding}: {path}")
    if arguments.save:
        report.save_proof("fuzz", [seen.row() for seen in found])
    sys.exit(any(seen.findings for seen in found))


if __name__ == "__main__":
    main()
