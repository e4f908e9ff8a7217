"""Modules that are slow to import because of word lists and patterns: loaded in a thread, never on the event loop.

Code that needs one awaits ``loaded`` before its import statement, which is then instant. A process that outlives a
short command preloads all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module

from contextinfinity.text.tokens import counter_of

log = logging.getLogger(__name__)

FOR_A_TURN = (
    "contextinfinity.routing.router",
    "contextinfinity.rewriting.clarification",
    "contextinfinity.rewriting",
    "contextinfinity.engine.other_conversations",
    "contextinfinity.engine.memory_jobs",
)
FOR_MEMORIES = ("contextinfinity.retrieval.dates", "contextinfinity.memory.extraction")
FOR_FOLDS = ("contextinfinity.compaction.boundary", "contextinfinity.librarian.offline_librarian")
FOR_THE_INDEX = ("contextinfinity.engine.indexing",)
ALL = (*FOR_A_TURN, *FOR_THE_INDEX, *FOR_MEMORIES, *FOR_FOLDS)
PRELOAD_SECONDS = 0.3
"""The delay of preloading after the start; a short command ends before that."""

_done: set[str] = set()


async def loaded(*names: str) -> None:
    """Import modules in a thread, so that the event loop is not blocked."""
    for name in names:
        if name not in _done:
            await asyncio.to_thread(import_module, name)
            _done.add(name)


def load_all() -> None:
    """Import all modules and load the tokenizer now, for a process that will fork."""
    counter_of("scripted", "scripted").count("a")
    for name in ALL:
        import_module(name)
        _done.add(name)


async def preload(count: Callable[[str], int]) -> None:
    """Load the tokenizer, which ``count`` uses, and all slow modules shortly after the start."""
    await asyncio.sleep(PRELOAD_SECONDS)
    try:
        await asyncio.to_thread(count, "a")
        await loaded(*ALL)
    except Exception as error:  # the code that needs the module raises it again
        log.warning("preloading modules failed: %s: %s", type(error).__name__, error)
