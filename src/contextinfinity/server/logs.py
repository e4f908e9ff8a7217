"""Logs on stderr: one JSON object a line for machines, or a short line of text for a person at a terminal.

The line of a request names its thread and branch, whether the thread was found, and how many turns were loaded. It
never contains messages or tokens.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from contextinfinity.telemetry.repeats import RepeatLimit

LogFormat: TypeAlias = Literal["json", "text"]
LOGGER = "contextinfinity"
FAILURE_FIELDS = ("operation", "session_id", "user_id", "error")
"""The fields of records about failed operations on the ledger."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with its ``fields`` as keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = {"time": moment, "level": record.levelname.lower(), "logger": record.name}
        parts["message"] = record.getMessage()
        parts |= getattr(record, "fields", {})
        parts |= {name: getattr(record, name) for name in FAILURE_FIELDS if hasattr(record, name)}
        if record.exc_info:
            parts["trace"] = self.formatException(record.exc_info)
        return json.dumps(parts)


class TextLines(logging.Formatter):
    """Formats a record for people: local time, event, duration, and thread."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; control characters are replaced."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        parts = [f"{level}{record.getMessage()}"]
        parts += [f"{fields['ms']:.0f} ms"] if "ms" in fields else []
        parts += [f"thread {fields['thread_id']}"] if "thread_id" in fields else []
        parts += [f"turn {fields['turn_seq']}"] if "turn_seq" in fields else []
        parts += [f"{name} {getattr(record, name)}" for name in FAILURE_FIELDS if hasattr(record, name)]
        lines = [f"{datetime.fromtimestamp(record.created):%H:%M:%S} {', '.join(parts)}"]
        lines += self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)


def log_as(form: LogFormat) -> None:
    """Configure logging; uvicorn and asyncio log only warnings and errors, and repeated ones are rate-limited."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(RepeatLimit())
    for name, level in ((LOGGER, logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
