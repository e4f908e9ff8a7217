"""What this process observed of its models while they answered: failures a moment ago, and real context windows."""

from __future__ import annotations

from time import monotonic

from contextinfinity.domain.plan import Budget
from contextinfinity.prompt.budget import SMALLEST_WINDOW
from contextinfinity.providers.failures import KINDS

AWAY_SECONDS = 60.0
"""How long a model that failed is passed over, where another may answer."""
LASTING = frozenset({"rate_limit", "overloaded", "server", "time_out", "connection", "authentication", "quota"})
"""Failures that are no matter of what was asked."""
LARGEST_COUNTING_ERROR = 4
"""A request that we count this many times smaller than the window it was rejected for was rejected for another reason.
"""


class Away:
    """Models that failed a moment ago, and how."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, str]] = {}

    def note(self, name: str, kind: str) -> None:
        """Record that a model failed, if the next request would fail for the same reason."""
        if kind in LASTING:
            self._until[name] = (monotonic() + AWAY_SECONDS, KINDS[kind].what)

    def forget(self, name: str) -> None:
        """Record that a model answers."""
        self._until.pop(name, None)

    def why(self, name: str) -> str:
        """Say why a model is not asked for now; empty if nothing is known against it."""
        until, what = self._until.get(name, (0.0, ""))
        return f"a moment ago {what}" if monotonic() < until else ""


class LearnedWindow:
    """The real context window of one model, learned from size rejections; it is never larger than the configured one.

    Every plan keeps it (``Budget.configured_limit``), so the next process reads it from the newest request of a
    branch. It is valid as long as the configured window stays the same: a new setting starts over.
    """

    def __init__(self) -> None:
        self._configured = 0
        self._limit = 0

    def limit(self, configured: int) -> int:
        """Return the window to work with."""
        return min(configured, self._limit) if self._configured == configured else configured

    def rejected(self, configured: int, tokens: int, named: int) -> None:
        """Learn from a request of ``tokens`` that was rejected; ``named`` is the limit that the vendor gave, or 0.

        ``tokens`` is 0 if the size is not known. A named limit is the window, unless that does not explain the
        rejection: then our count is too low, and the window is smaller than the request by our count.
        """
        explains = 0 < named < self.limit(configured)
        if explains or (tokens and tokens * LARGEST_COUNTING_ERROR > named):
            self._learn(configured, named if explains else tokens)

    def recall(self, configured: int, budget: Budget | None) -> None:
        """Take over what an earlier request was planned with."""
        if budget is not None and budget.configured_limit == configured:
            self._learn(configured, budget.model_limit)

    def _learn(self, configured: int, limit: int) -> None:
        self._limit = max(SMALLEST_WINDOW, min(limit, self.limit(configured)))
        self._configured = configured
