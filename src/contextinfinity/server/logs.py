"""Logs for machines: one JSON object a line, on stderr.

A request's line says where it went: thread, branch, whether the thread was found, how many turns were loaded. What
people said, and what their tokens are, is never in one.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from contextinfinity.telemetry.repeats import RepeatLimit

LOGGER = "contextinfinity"
OF_A_FAILURE = ("operation", "session_id", "user_id", "error")
"""What records say of work on the ledger that did not succeed."""


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON; its ``fields`` are fields of that."""

    def format(self, record: logging.LogRecord) -> str:
        """Write it."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = {"time": moment, "level": record.levelname.lower(), "logger": record.name}
        told["message"] = record.getMessage()
        told |= getattr(record, "fields", {})
        told |= {name: getattr(record, name) for name in OF_A_FAILURE if hasattr(record, name)}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)


def log_as_json() -> None:
    """Write such lines from now on; of uvicorn and asyncio warnings and errors only, and no flood of repeated ones."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(RepeatLimit())
    for name, level in ((LOGGER, logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
