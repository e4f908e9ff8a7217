"""Notices around the answers: cost, hints, and folds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from contextinfinity.cli.output import print_notice
from contextinfinity.domain.events import (
    CompactionCompleted,
    CompactionEvent,
    CompactionFailed,
    CompactionStarted,
    FinishedTurn,
)
from contextinfinity.text.plurals import span

if TYPE_CHECKING:
    from contextinfinity.client.results import ShownTurn
    from contextinfinity.domain.turn import Usage

SOON = 1.0
"""The seconds after which a running fold is announced."""


def account(turn: FinishedTurn, seconds: float) -> str | None:
    """Return the cost line of an answer; empty without one."""
    if turn.outcome == "clarification" or (turn.outcome == "failed" and not turn.usage.input_tokens):
        return None
    return ", ".join([*_tokens(turn.usage), turn.model, f"{seconds:.1f} s"])


def _tokens(usage: Usage) -> list[str]:
    """Return tokens read and written and the cost, as far as known."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    read = [f"{usage.input_tokens:,} tokens in{cached}"] if usage.input_tokens else []
    parts = [f"{usage.output_tokens:,} out" if read else f"{usage.output_tokens:,} tokens out"]
    cost = [] if usage.cost is None else [f"${usage.cost:.4f}" if usage.cost >= 0.0001 else f"${usage.cost:.6f}"]
    return [*read, *(parts if usage.output_tokens else []), *cost]


def offer(turn: FinishedTurn | ShownTurn) -> str | None:
    """Return what the user can do about a failed or incomplete answer."""
    if turn.outcome is None:
        return "The last question is still being answered, by another process."
    if turn.outcome == "failed" or turn.error is not None:
        return "/retry asks again."
    if turn.outcome == "incomplete":
        return "/retry asks again."
    if turn.outcome == "cancelled":
        return "[stopped]"
    return "The model waits for its tools." if turn.outcome == "paused" else None


async def print_fold_notices(events: AsyncIterator[CompactionEvent]) -> None:
    """Print notices of folds as they happen; a quick one is printed once."""
    begun: dict[str, asyncio.TimerHandle] = {}
    async for event in events:
        if (earlier := begun.pop(event.branch_id, None)) is not None:
            earlier.cancel()
        if isinstance(event, CompactionStarted):
            begin = asyncio.get_running_loop().call_later
            begun[event.branch_id] = begin(
                SOON, print_notice, "(Older turns are being folded into the summary; go on.)"
            )
        elif (notice := _notice(event)) is not None:
            print_notice(notice)


def _notice(event: CompactionEvent) -> str | None:
    """Return the notice of a fold; None for one without effect."""
    if isinstance(event, CompactionFailed):
        return f"(Folding failed and is tried again: {event.message})"
    if isinstance(event, CompactionCompleted) and event.case != "none":
        tokens = f"{event.tokens_before} → {event.tokens_after} tokens"
        verb = "is" if event.covers_turn_seq == 1 else "are"
        notice = f" {event.notice}" if event.notice else ""
        folded = f"{span(1, event.covers_turn_seq, 'Turn')} {verb} in the summary now, {tokens}"
        return f"({folded}; /fold undo undoes it.{notice})"
    return None
