"""Divide a model's context window.

The settings are upper limits; small windows get less, so that every window from 2,048 tokens works and folding starts
before shrinking. The same figures decide when turns are folded and what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.plan import Budget
from contextinfinity.errors import Refused
from contextinfinity.text.tokens import Counter

SMALLEST_WINDOW = 2048


class Ceilings(Struct, frozen=True, kw_only=True):
    """The limits from the settings, in tokens."""

    reserve: int = 4000
    safety: int = 1500
    retrieval: int = 6000
    summary: int | None = None
    """None: 2% of the window, between 400 and 4,000 tokens."""
    memories: int = 500
    pins: int = 2000
    fold_trigger: int = 24_000
    verbatim_window: int = 4000


@lru_cache(maxsize=64)
def divide_window(limit: int, ceilings: Ceilings, *, base_tokens: int = 0) -> Budget:
    """Divide a window of ``limit`` tokens."""
    reserve = min(ceilings.reserve, limit // 4)
    safety = min(ceilings.safety, limit // 16)
    retrieval = min(ceilings.retrieval, limit // 4)
    rest = limit - reserve - safety - retrieval
    trigger = min(ceilings.fold_trigger, rest * 3 // 4)
    return Budget(
        model_limit=limit,
        base_tokens=base_tokens,
        retrieval_budget=retrieval,
        response_reserve=reserve,
        safety_margin=safety,
        summary=min(_summary(limit) if ceilings.summary is None else ceilings.summary, rest // 8),
        memories=min(ceilings.memories, rest // 8),
        pins=min(ceilings.pins, rest // 8),
        fold_trigger=trigger,
        verbatim_window=min(ceilings.verbatim_window, trigger // 4),
    )


def divide_resent_window(limit: int, ceilings: Ceilings, answer: int | None) -> Budget:
    """Divide a window for a client that sends the whole conversation with every request.

    Its messages and an answer of ``answer`` tokens (at most a quarter of the window) are sent unchanged while they fit;
    only then are turns folded, and half of the input limit stays verbatim.
    """
    reserve = ceilings.reserve if answer is None else answer
    budget = divide_window(limit, replace(ceilings, reserve=reserve))
    return replace(budget, fold_trigger=budget.input_limit, verbatim_window=budget.input_limit // 2, resent=True)


def least_rejected(budget: Budget, answer: int | None) -> int:
    """Return the size of a prompt that a vendor rejects: the answer that was asked for does not fit behind it."""
    return budget.model_limit if answer is None else budget.model_limit - budget.response_reserve + 1


def _summary(limit: int) -> int:
    return max(400, min(limit // 50, 4000))


def check_pins_limit(pinned: Sequence[str], fact: str, counter: Counter, limit: int) -> None:
    """Raise ``Refused`` if a new fact would exceed the token limit of pinned facts."""
    pinned_tokens, more = sum(map(counter.count, pinned)), counter.count(fact)
    if fact not in pinned and pinned_tokens + more > limit:
        raise Refused(
            f"Pinned facts may use {limit} tokens; the existing ones use {pinned_tokens}, this one {more}.",
            hint="Unpin a fact, shorten this one, or raise budget.pins_limit_tokens.",
        )


class BudgetReport(Struct, frozen=True, kw_only=True):
    """The token use of a conversation."""

    history_tokens: int
    max_history_tokens: int
    max_input_tokens: int
    max_output_tokens: int
    remaining: int
    needs_summary: bool


def report(history_tokens: int, budget: Budget, max_output_tokens: int) -> BudgetReport:
    """Report how many tokens a history takes, and whether it needs to be folded."""
    largest = budget.model_limit
    remaining = largest - history_tokens - budget.response_reserve - budget.safety_margin
    return BudgetReport(
        history_tokens=history_tokens,
        max_history_tokens=largest // 16,
        max_input_tokens=largest,
        max_output_tokens=max_output_tokens,
        remaining=max(0, remaining),
        needs_summary=history_tokens > budget.fold_trigger,
    )
