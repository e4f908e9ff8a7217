"""Stages that improve a prompt: a request is sent even if one of them fails, and its plan says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from contextinfinity.domain.plan import LeftOut
from contextinfinity.telemetry.counters import count

T = TypeVar("T")
log = logging.getLogger(__name__)


async def run_if_enabled(is_so: bool, stage: str, missing: list[LeftOut], work: Callable[[], Awaitable[T]]) -> T | None:
    """Run an optional stage, unless the caller disabled it; either way ``missing`` records an omission."""
    if is_so:
        return await run_optional(stage, missing, work)
    missing.append(LeftOut(what=stage, reason="it was not requested"))
    return None


async def run_optional(stage: str, missing: list[LeftOut], work: Callable[[], Awaitable[T]]) -> T | None:
    """Run an optional stage; on failure return None and record it in ``missing``."""
    try:
        return await work()
    except Exception as error:  # any failure: the request is sent without the stage
        log.warning("%s failed, the request goes on without it: %s", stage, describe_error(error), exc_info=True)
        count("stages_left_out")
        missing.append(LeftOut(what=stage, reason=f"it failed: {describe_error(error)}"[:200]))
        return None


def describe_error(error: Exception) -> str:
    """Describe an error, including those without a message."""
    return "it took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
