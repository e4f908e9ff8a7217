"""Choose the model that answers: build the router's input and apply its result.

The router itself works on plain values (``routing``). A model that failed recently is skipped for a while if another
one can answer.

``Models`` holds the models that an engine may call, by their configured names, with their learned context windows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, ImageBlock, Json, Message, ToolResultBlock
from contextinfinity.domain.plan import Budget, Plan, Route
from contextinfinity.domain.prompt import SENT, Abilities, Finished, RequestOptions
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Step, Turn
from contextinfinity.engine.running_turn import Terms
from contextinfinity.errors import InvalidInput
from contextinfinity.prompt.measure import SMALLEST_WINDOW, Ceilings, Measure, divide_resent_window, divide_window
from contextinfinity.prompt.prompt_sections import shown_turns
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.failures import KINDS
from contextinfinity.providers.request_options import joined
from contextinfinity.providers.wire_values import unread
from contextinfinity.settings import Router
from contextinfinity.telemetry.counters import count
from contextinfinity.text.tokens import Counter

if TYPE_CHECKING:
    from contextinfinity.domain.session import Session
    from contextinfinity.domain.turn import Problem
    from contextinfinity.engine.prompt_material import PromptMaterial
    from contextinfinity.engine.recall import PriorContext
    from contextinfinity.engine.running_turn import SendOptions
    from contextinfinity.routing.router import ModelFacts, RouteQuery

THINKING_TOKENS = 25_000
"""The minimum output limit of a reasoning model: reasoning tokens count towards it."""
AWAY_SECONDS = 60.0
"""How long a failed model is skipped if another one can answer."""
LASTING = frozenset({"rate_limit", "overloaded", "server", "time_out", "connection", "authentication", "quota"})
"""Failures that do not depend on the content of the request."""
LARGEST_COUNTING_ERROR = 4
"""The largest factor by which our token count may be too low; beyond it, size was not the reason for a rejection."""


class UnavailableModel:
    """A circuit breaker per model: models that failed recently, and why."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, str]] = {}

    def note(self, name: str, kind: str) -> None:
        """Record a failure, if the next request would fail for the same reason."""
        if kind in LASTING:
            self._until[name] = (monotonic() + AWAY_SECONDS, KINDS[kind].what)

    def forget(self, name: str) -> None:
        """Record that a model answers again."""
        self._until.pop(name, None)

    def why(self, name: str) -> str:
        """Return why a model is skipped for now; empty if it is not."""
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
        """Adopt the window that an earlier request was planned with, if the configured window is still the same."""
        if budget is not None and budget.configured_limit == configured:
            self._learn(configured, budget.model_limit)

    def _learn(self, configured: int, limit: int) -> None:
        self._limit = max(SMALLEST_WINDOW, min(limit, self.limit(configured)))
        self._configured = configured


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model and its provider, under its configured name."""

    name: str
    provider: Provider
    model_id: str
    reserve: int = 4000
    """Tokens reserved for the answer."""
    options: Json = None
    """Options passed to the provider unchanged."""
    window: LearnedWindow = field(default_factory=LearnedWindow)

    @property
    def abilities(self) -> Abilities:
        """The model's abilities, with the learned context window."""
        abilities = self.provider.abilities(self.model_id)
        limit = self.window.limit(abilities.context_limit)
        return abilities if limit == abilities.context_limit else replace(abilities, context_limit=limit)

    @property
    def configured_window(self) -> int:
        """The context window from the settings or the catalogue."""
        return self.provider.context_limit(self.model_id)

    @property
    def max_output_tokens(self) -> int:
        """The output limit of a request: the reserve, limited by the window and by the vendor."""
        abilities = self.abilities
        wanted = max(self.reserve, THINKING_TOKENS if abilities.reasoning else 1)
        return min(wanted, abilities.context_limit // 4, abilities.max_output_tokens)

    @property
    def form(self) -> str:
        """The wire format whose requests can be passed through unchanged; empty if the provider has none."""
        return str(getattr(self.provider, "form", ""))

    def budget(self, ceilings: Ceilings, terms: Terms | None = None) -> Budget:
        """Divide the window among the parts of a prompt; ``terms``: those of a client that resends the conversation."""
        limit, configured = self.abilities.context_limit, self.configured_window
        ceilings = replace(ceilings, reserve=self.max_output_tokens)
        if terms is None:
            budget = divide_window(limit, ceilings)
        else:
            budget = divide_resent_window(limit, ceilings, terms.request_options.max_output_tokens)
        return budget if limit == configured else replace(budget, configured_limit=configured)

    def options_for(self, terms: Terms) -> Json:
        """Merge the caller's parameters or options into the configured options."""
        if terms.form and terms.form == self.form:
            return {**(self.options or {}), SENT: terms.params}
        return self.options_with(terms.request_options)

    def options_with(self, request_options: RequestOptions) -> Json:
        """Merge the caller's options into the configured options."""
        requested = self.provider.options_for(request_options, self.model_id).options
        return joined(self.options, requested) if requested else self.options

    def unread(self, messages: Iterable[Message]) -> tuple[str, ...]:
        """Return the types of a client's parts, such as files, that this model cannot be sent."""
        return unread(messages, self.provider.name, self.form, self.provider.abilities(self.model_id))

    def answered(self, turn: Turn) -> bool:
        """Return whether this model answered the turn."""
        return (self.provider.name, self.model_id) == (turn.provider, turn.model)

    def answers_in(self, step: Step) -> bool:
        """Return whether this model is called in the step."""
        return (self.provider.name, self.model_id) == (step.provider, step.model_id)

    @property
    def counter(self) -> Counter:
        """The token counter of this model."""
        return self.provider.counter(self.model_id)

    def learn(self, plan: Plan, finished: Finished | None) -> None:
        """Calibrate the token counter with the input tokens that the provider reported."""
        if finished is not None and finished.usage.input_tokens:
            self.counter.learn(plan.tokens, finished.usage.input_tokens)

    def learn_window(self, tokens: int, answer: int, named: int) -> None:
        """Learn the window from a rejected request of ``tokens`` with ``answer`` output tokens; see
        ``LearnedWindow``.

        Output tokens beyond our own reserve are added: the vendor may have rejected the sum.
        """
        tokens += max(0, answer - self.max_output_tokens) if tokens else 0
        self.window.rejected(self.configured_window, tokens, named)


@dataclass(frozen=True, kw_only=True)
class Models:
    """The configured models and the name of the default one."""

    by_name: Mapping[str, Model]
    default: str
    away: UnavailableModel = field(default_factory=UnavailableModel)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the models, the default first."""
        return (self.default, *sorted(name for name in self.by_name if name != self.default))

    def named(self, name: str | None) -> Model:
        """Return the model of that name (None: the default); raise ``InvalidInput`` if there is none."""
        wanted = self.default if name is None else name
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise InvalidInput(f"There is no model {wanted!r}; there are: {known}.", hint="Name it under [models].")
        return self.by_name[wanted]

    def that_answered(self, turn: Turn) -> Model | None:
        """Return the model that answered a turn, or None."""
        return next((model for model in self.by_name.values() if model.answered(turn)), None)

    def recall_window(self, plan: Plan) -> None:
        """Adopt the context window that an earlier request was planned with."""
        model = None if plan.route is None else self.by_name.get(plan.route.model or "")
        if model is not None:
            model.window.recall(model.configured_window, plan.budget)

    async def close(self) -> None:
        """Close the providers; a failure is logged and does not affect the others."""
        for model in self.by_name.values():
            try:
                await model.provider.close()
            except Exception:
                log.warning("%s could not be closed", model.provider.name, exc_info=True)


log = logging.getLogger(__name__)

EARLIER = 3
"""The number of the user's previous messages used to classify a new one."""


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Chooses a model for each message by the rules of the settings."""

    models: Models
    router: Router
    ceilings: Ceilings

    def home_of(self, asked: SendOptions, owner: Owner, branch_model: str | None) -> Model:
        """Return the model that answers if no rule matches."""
        from contextinfinity.routing.router import home_of  # slow to import: word lists

        query = self._query(asked, owner, branch_model, text="")
        return self.models.by_name[home_of(query, self.models.by_name, self.router)]

    def choose(self, turn: Turn, asked: SendOptions, material: PromptMaterial) -> Route:
        """Return the router's choice; if no model can take the request, return the branch's own model.

        Results of tool calls go to the model that made the calls.
        """
        from contextinfinity.routing.router import route

        home = material.recalled.home
        if asked.model is None and (caller := self._caller(turn, material.recalled.earlier)) is not None:
            return Route(model=caller.name, reason=f"{caller.name} called the tools, so it answers.", home=home.name)
        models = [self._facts(model, home) for model in self.models.by_name.values()]
        chosen = route(self._described(turn, asked, material), models, self.router)
        if chosen.model is None:
            chosen = replace(chosen, model=home.name, reason=f"{chosen.reason} {home.name} is used anyway.")
        log.info("turn %s: %s", turn.id, chosen.reason)
        return chosen

    def next_fallback(self, route: Route, failed: Model, problem: Problem) -> Route | None:
        """Return the fallback route after a failure, or None; the failed model is skipped for a while."""
        from contextinfinity.routing.router import next_after

        kind = problem.code if problem.code in KINDS else "provider"
        self.models.away.note(failed.name, kind)
        chosen = next_after(route, failed.name, kind)
        if chosen is not None:
            count("models_replaced")
            log.info("%s failed (%s): %s", failed.name, problem.code, problem.message)
        return chosen

    def _caller(self, turn: Turn, earlier: Sequence[Turn]) -> Model | None:
        """Return the model whose tool calls this message answers, or None."""
        if not (earlier and earlier[-1].outcome == "paused" and has(turn.user_message.blocks, ToolResultBlock)):
            return None
        return self.models.that_answered(earlier[-1])

    def _described(self, turn: Turn, asked: SendOptions, material: PromptMaterial) -> RouteQuery:
        """Describe the request to the router; the whole context is counted only if a rule depends on it."""
        recalled, message = material.recalled, turn.user_message
        measure = Measure(recalled.home.counter, cache=recalled.rendered)
        alone, front = (
            measure.message(message),
            measure.text("\n".join((recalled.system, *recalled.state.pinned_facts))),
        )
        shown = alone + front
        if any(rule.depends_on_prompt_size for rule in self.router.rules):
            shown += measure.turns(shown_turns(recalled.earlier, turn, cache=recalled.rendered))
            shown += measure.text(recalled.state.summary) + measure.text(recalled.memories)
            shown += sum(artifact.tokens for artifact in material.artifacts)
        return self._query(
            asked,
            recalled.session.owner,
            recalled.branch_model,
            text=message.rendered_text,
            contextualised=material.explicit,
            earlier=_said_before(recalled),
            message_tokens=alone,
            front_tokens=front,
            context_tokens=shown,
            labelled=recalled.session.kind == "chat",
            images=has(message.blocks, ImageBlock),
            tools=has(message.blocks, ToolResultBlock) or _has_to_call(asked),
        )

    def _query(self, asked: SendOptions, owner: Owner, branch_model: str | None, **more: object) -> RouteQuery:
        from contextinfinity.routing.router import RouteQuery

        return RouteQuery(
            default_model=self.models.default,
            user=owner.user_id,
            org=owner.org_id,
            asked_for=asked.model,
            branch_model=branch_model,
            **more,  # type: ignore[arg-type]
        )

    def _facts(self, model: Model, home: Model) -> ModelFacts:
        """Describe a model to the router; the branch's model is marked unavailable only if fallbacks are configured."""
        from contextinfinity.routing.router import ModelFacts

        may_go = model.name != home.name or self.router.fallbacks
        why_not = model.provider.missing or self.models.away.why(model.name)
        return ModelFacts(
            name=model.name,
            abilities=model.abilities,
            input_limit=model.budget(self.ceilings).input_limit,
            answer_tokens=model.max_output_tokens,
            unavailable=why_not if may_go else "",
        )


def asked_back(turn: Turn, recalled: PriorContext) -> Route:
    """Return the route of a clarification; in a chat it has an intent label as well."""
    from contextinfinity.routing.intent import UNKNOWN, intent_of
    from contextinfinity.routing.router import labels

    is_chat, text = recalled.session.kind == "chat", turn.user_message.rendered_text
    purpose = intent_of(text, _said_before(recalled)) if is_chat else UNKNOWN
    return Route(model=None, reason="A clarifying question was asked.", home=recalled.home.name, **labels(purpose))


def chat_notes(session: Session, route: Route, artifacts: int) -> dict[str, Json]:
    """Return the metadata of a chat turn: its intent label and the number of retrieved passages."""
    if session.kind != "chat":
        return {}
    return {"intent": route.intent, "confidence": route.confidence, "result_count": artifacts}


def _said_before(recalled: PriorContext) -> tuple[str, ...]:
    return tuple(one.user_message.rendered_text for one in recalled.earlier[-EARLIER:])


def _has_to_call(asked: SendOptions) -> bool:
    """Return whether the caller requires a tool call."""
    choice = None if asked.terms is None else asked.terms.request_options.tool_choice
    return choice is not None and (choice == "required" or choice.startswith(":"))


def has(blocks: tuple[ContentBlock, ...], kind: type[ContentBlock]) -> bool:
    """Return whether the blocks, including those inside tool results, contain a block of that type."""
    return any(
        isinstance(block, kind) or (isinstance(block, ToolResultBlock) and has(block.content, kind)) for block in blocks
    )
