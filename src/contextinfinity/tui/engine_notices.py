"""Notices of the engine: warnings in its log, and folds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from textual.app import App

from contextinfinity.domain.events import CompactionCompleted, CompactionEvent, CompactionFailed
from contextinfinity.errors import ContextInfinityError
from contextinfinity.telemetry.repeats import RepeatLimit
from contextinfinity.tui.client_thread import ClientThread

FOLLOW_AGAIN_SECONDS = 10.0
"""How long to wait before following again a server that was away or cannot report folds."""


class _Forward(logging.Handler):
    """Hands warnings of any thread to the screen's event loop."""

    def __init__(self, app: App[Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._app, self._loop = app, loop
        self.addFilter(RepeatLimit())

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record as a notice."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._app.notify(record.getMessage(), severity="warning"))


async def log_notices(app: App[Any]) -> None:
    """Show the engine's warnings as notices until the app ends."""
    logger = logging.getLogger("contextinfinity")
    handler = _Forward(app, asyncio.get_running_loop())
    logger.addHandler(handler)
    try:
        await asyncio.Event().wait()
    finally:
        logger.removeHandler(handler)


async def follow_folds(app: App[Any], thread: ClientThread) -> None:
    """Report folds as they end until the app ends, also those after a server was away."""
    while True:
        with suppress(ContextInfinityError):
            async for batch in thread.stream(thread.client.folds.follow()):
                for event in batch:
                    _report(app, event)
        await asyncio.sleep(FOLLOW_AGAIN_SECONDS)


def _report(app: App[Any], event: CompactionEvent) -> None:
    if isinstance(event, CompactionFailed):
        app.notify(f"Folding failed and is tried again: {event.message}", severity="warning")
    elif isinstance(event, CompactionCompleted) and event.case != "none":
        figures = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
        app.notify(
            f"The summary covers the turns up to {event.covers_turn_seq} now, {figures}. "
            f"Ctrl+O f shows it and undoes it. {event.notice}".rstrip()
        )
