"""The models that an engine may ask: under the names people use for them, with what was learned of each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from msgspec.structs import replace

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.plan import Budget, Plan
from contextinfinity.domain.prompt import SENT, Finished, RequestOptions
from contextinfinity.domain.turn import Step, Turn
from contextinfinity.engine.running_turn import Terms
from contextinfinity.errors import InvalidInput
from contextinfinity.prompt.budget import SMALLEST_WINDOW
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.failures import KINDS
from contextinfinity.providers.options import joined
from contextinfinity.text.tokens import Counter

log = logging.getLogger(__name__)

THINKING_TOKENS = 25_000
"""The least a model that thinks gets for its answer: its thinking counts, and must not eat all of it."""
AWAY_SECONDS = 60.0
"""How long a model that failed is passed over, where another may answer."""
LASTING = frozenset({"rate_limit", "overloaded", "server", "time_out", "connection", "authentication", "quota"})
"""Failures that are no matter of what was asked."""
LARGEST_COUNTING_ERROR = 4
"""A request that we count this many times smaller than the window it was rejected for was rejected for another reason.
"""


class UnavailableModel:
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


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model under the name people use for it."""

    name: str
    provider: Provider
    model_id: str
    reserve: int = 4000
    """Tokens that are kept free for its answer."""
    options: Json = None
    """What is passed on to the provider as it is."""
    window: LearnedWindow = field(default_factory=LearnedWindow)

    @property
    def abilities(self) -> Abilities:
        """What it can do; its context window is the real one, as far as size rejections have shown it."""
        abilities = self.provider.abilities(self.model_id)
        limit = self.window.limit(abilities.context_limit)
        return abilities if limit == abilities.context_limit else replace(abilities, context_limit=limit)

    @property
    def configured_window(self) -> int:
        """The context window according to the settings or the catalogue."""
        return self.provider.context_limit(self.model_id)

    @property
    def max_output_tokens(self) -> int:
        """How long its answer may be: as long as was reserved, as far as its window and its vendor allow."""
        abilities = self.abilities
        wanted = max(self.reserve, THINKING_TOKENS if abilities.reasoning else 1)
        return min(wanted, abilities.context_limit // 4, abilities.max_output_tokens)

    @property
    def form(self) -> str:
        """The wire form whose clients are passed through as they are; empty for a provider without one."""
        return str(getattr(self.provider, "form", ""))

    def options_for(self, terms: Terms) -> Json:
        """Put what a caller sent or wishes for over what is configured."""
        if terms.form and terms.form == self.form:
            return {**(self.options or {}), SENT: terms.params}
        return self.options_with(terms.wishes)

    def options_with(self, wishes: RequestOptions) -> Json:
        """Put what a caller wishes for over what is configured."""
        wished = self.provider.options_for(wishes, self.model_id).options
        return joined(self.options, wished) if wished else self.options

    def answered(self, turn: Turn) -> bool:
        """Tell whether it was this model that answered a turn."""
        return (self.provider.name, self.model_id) == (turn.provider, turn.model)

    def answers_in(self, step: Step) -> bool:
        """Tell whether it is this model that is asked in a step."""
        return (self.provider.name, self.model_id) == (step.provider, step.model_id)

    @property
    def counter(self) -> Counter:
        """What counts tokens as this model does."""
        return self.provider.counter(self.model_id)

    def learn(self, plan: Plan, finished: Finished | None) -> None:
        """Compare what we counted with what the provider says it was."""
        if finished is not None and finished.usage.input_tokens:
            self.counter.learn(plan.tokens, finished.usage.input_tokens)

    def learn_window(self, tokens: int, answer: int, named: int) -> None:
        """Learn from a rejected request with room for an answer of that many tokens; see ``LearnedWindow``.

        An answer that is longer than what we reserve is counted: the vendor may have rejected the sum.
        """
        tokens += max(0, answer - self.max_output_tokens) if tokens else 0
        self.window.rejected(self.configured_window, tokens, named)


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models there are, and the one that answers where none is named."""

    by_name: Mapping[str, Model]
    default: str
    away: UnavailableModel = field(default_factory=UnavailableModel)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, the default's first."""
        return (self.default, *sorted(name for name in self.by_name if name != self.default))

    def named(self, name: str | None) -> Model:
        """Give a model by its name; None: the default."""
        wanted = self.default if name is None else name
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise InvalidInput(f"There is no model {wanted!r}; there are: {known}.", hint="Name it under [models].")
        return self.by_name[wanted]

    def recall_window(self, plan: Plan) -> None:
        """Take over the window that a request of an earlier process was planned with."""
        model = None if plan.route is None else self.by_name.get(plan.route.model or "")
        if model is not None:
            model.window.recall(model.configured_window, plan.budget)

    async def close(self) -> None:
        """Let go of what their providers hold."""
        for model in self.by_name.values():
            try:
                await model.provider.close()
            except Exception:  # one that cannot be closed must not keep the others open
                log.warning("%s could not be closed", model.provider.name, exc_info=True)
