"""The report: how many trials of each kind, what was wrong, how long it took, on which machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness import Row, host
from benchmarks.torture.lane import Result
from benchmarks.torture.plans import labels


class Tally:
    """Adds up results."""

    def __init__(self, seed: int, planned: int) -> None:
        self._seed = seed
        self._planned = planned
        self._began = datetime.now(UTC)
        self._results: list[Result] = []

    def add(self, result: Result) -> None:
        """Note a trial."""
        self._results.append(result)

    @property
    def wrong(self) -> list[Result]:
        """The trials after which something was not as it has to be."""
        return [result for result in self._results if result.violations]

    @property
    def unreached(self) -> list[str]:
        """The boundaries at which no process died."""
        return sorted(labels() - {result.label for result in self._results if result.killed})

    def count(self, fault: str) -> int:
        """Count the offences of a kind."""
        return sum(offence.fault == fault for result in self._results for offence in result.violations)

    def as_json(self) -> dict[str, Any]:
        """Return all results, for programs."""
        seconds = (datetime.now(UTC) - self._began).total_seconds()
        recoveries = sorted(result.recovery_seconds for result in self._results) or [0.0]
        return {
            "date": self._began.isoformat(timespec="seconds"),
            "machine": host(),
            "seed": self._seed,
            "trials": len(self._results),
            "killed": sum(result.killed for result in self._results),
            "process_starts": sum(result.fresh_process for result in self._results),
            "acknowledged": sum(result.acknowledged for result in self._results),
            "lost": self.count("lost"),
            "doubled": self.count("doubled"),
            "broken": self.count("broken"),
            "seconds": round(seconds, 1),
            "recovery_ms": {
                "median": round(statistics.median(recoveries) * 1000, 1),
                "longest": round(recoveries[-1] * 1000, 1),
            },
            "by_plan": {label: {"trials": trials, "killed": killed} for label, trials, killed in self._by_plan()},
            "unreached": self.unreached,
        }

    def _by_plan(self) -> Iterator[tuple[str, int, int]]:
        for label in sorted({result.label for result in self._results}):
            of_it = [result.killed for result in self._results if result.label == label]
            yield label, len(of_it), sum(of_it)

    def row(self) -> Row:
        """Return the row of docs/proof.md."""
        found, recovery = self.as_json(), self.as_json()["recovery_ms"]
        faults = ("lost", "doubled", "broken")
        return Row(
            what=f"{found['trials']:,} trials, seed {self._seed}",
            target="nothing lost, doubled or broken",
            result=f"{found['killed']:,} killed, {found['acknowledged']:,} messages acknowledged: "
            f"{', '.join(f'{found[fault]} {fault}' for fault in faults)}; recovery {recovery['median']:.0f} ms at the "
            f"median, {recovery['longest'] / 1000:.1f} s at the longest",
            values={name: found[name] for name in ("trials", "killed", "acknowledged", *faults)},
        )

    def page(self) -> str:
        """Return all results, for people."""
        all_of_it = self.as_json()
        lines = [
            f"{all_of_it['trials']} trials, {all_of_it['killed']} killed, {all_of_it['process_starts']} of them whole "
            f"process starts; {all_of_it['acknowledged']} messages acknowledged.",
            f"lost {all_of_it['lost']}, doubled {all_of_it['doubled']}, broken {all_of_it['broken']}.",
            f"{all_of_it['seconds']} s; recovery: median {all_of_it['recovery_ms']['median']} ms, longest "
            f"{all_of_it['recovery_ms']['longest']} ms.",
            f"Seed {self._seed}; {all_of_it['machine']}; {all_of_it['date']}.",
            "",
            "| killed | trials | of them died there |",
            "| --- | ---: | ---: |",
            *(f"| {label} | {trials} | {killed} |" for label, trials, killed in self._by_plan()),
        ]
        return "\n".join([*lines, *map(self.describe, self.wrong)])

    def describe(self, result: Result) -> str:
        """Describe what was wrong after a trial, where its data_dir is, and how to run it again."""
        found = "\n".join(f"  {offence.fault}: {offence.what}" for offence in result.violations)
        again = f"--seed {self._seed} --trials {self._planned} --only {result.generation}"
        return f"\ntrial {result.number} ({result.label}), {result.kept}; again with: {again}\n{found}"
