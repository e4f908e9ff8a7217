"""Doing without what fails: a request never fails for want of what only makes it better."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from contextinfinity.domain.plan import LeftOut
from contextinfinity.telemetry.counters import count

log = logging.getLogger(__name__)
T = TypeVar("T")


def in_words(error: Exception) -> str:
    """Say what went wrong, also where the error itself says nothing."""
    return "it took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"


async def spared(stage: str, missing: list[LeftOut], work: Callable[[], Awaitable[T]]) -> T | None:
    """Do without a stage that fails, and say so."""
    try:
        return await work()
    except Exception as error:  # whatever it is, the question is answered without it
        log.warning("%s failed, the request goes on without it: %s", stage, in_words(error), exc_info=True)
        count("stages_left_out")
        missing.append(LeftOut(what=stage, reason=f"it failed: {in_words(error)}"[:200]))
        return None
