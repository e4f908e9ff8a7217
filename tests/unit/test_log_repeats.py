"""Log lines that repeat are limited."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from contextinfinity.telemetry.repeat_limit import MOST_REPEATS, PERIOD_SECONDS, RepeatLimit


class Lines(logging.Handler):
    """Keeps what passes the limit; time passes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.lines: list[str] = []
        self.addFilter(RepeatLimit(lambda: self.time))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


@pytest.fixture
def log() -> tuple[logging.Logger, Lines]:
    logger, lines = logging.Logger("trouble"), Lines()
    logger.addHandler(lines)
    return logger, lines


def test_an_error_that_repeats_is_written_a_few_times_and_then_counted(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    for number in range(10_000):
        logger.error("no descriptors are left for connection %d", number)
    assert len(lines.lines) == MOST_REPEATS
    assert lines.lines[0] == "no descriptors are left for connection 0"
    assert lines.lines[-1].endswith("(more like this are left out for up to 10 seconds)")
    logger.error("something else")
    assert lines.lines[-1] == "something else", "other errors are not held back"
    lines.time += PERIOD_SECONDS
    logger.error("no descriptors are left for connection %d", 0)
    assert lines.lines[-1].endswith(f"({10_000 - MOST_REPEATS} similar messages were suppressed)")


def test_lines_that_are_no_trouble_all_pass(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    for _ in range(1000):
        logger.info("GET /healthz 200")
    assert len(lines.lines) == 1000


def test_a_server_without_descriptors_does_not_fill_the_disk_with_its_log() -> None:
    program = (
        'import logging; from contextinfinity.server.serving import log_as; log_as("json")\n'
        "for _ in range(10_000): logging.getLogger('asyncio').error('socket.accept() out of system resource')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["logger"] for line in lines] == ["asyncio"] * MOST_REPEATS
