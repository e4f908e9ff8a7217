"""Where the time of a test run goes: the total per folder, printed beside pytest's list of the slowest tests."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest


class FolderTimes:
    """Adds up how long tests took, per folder of ``tests``; with xdist in the process that collects the reports."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        parts = report.nodeid.split("::")[0].split("/")
        folder = "/".join(parts[: min(len(parts) - 1, 2)])
        self.seconds[folder] += report.duration
        self.tests[folder] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the folders, the slowest first."""
        terminalreporter.section("time per folder, all workers")
        for folder, seconds in sorted(self.seconds.items(), key=lambda total: -total[1]):
            terminalreporter.write_line(f"{seconds:8.1f} s  {self.tests[folder]:6} tests  {folder}")
