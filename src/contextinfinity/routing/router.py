"""Choose the model that answers a request, and give the reason.

    requested by name  >  the first matching rule  >  the branch's model  >  the user's  >  the organisation's
    >  the default  >  the fallbacks, in order

An explicit choice is neither overruled nor replaced when it fails. Any other model is chosen only if it can take the
request. The choice is deterministic. Rules and failures change the model for one request; ``Route.home`` is the
branch's model. There are no built-in rules: a change of model hands the conversation to another model and loses the
prompt cache, so it must be configured.

The input is the request and the available models. A rule of ``[router]`` matches if all its conditions hold.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.plan import Considered, Fallback, Route
from contextinfinity.domain.prompt import Abilities, cost
from contextinfinity.domain.turn import Usage
from contextinfinity.errors import InvalidInput
from contextinfinity.providers.failures import KINDS
from contextinfinity.routing.intent import UNKNOWN, Purpose, intent_of
from contextinfinity.settings import Router, Rule


class RouteQuery(Struct, frozen=True, kw_only=True):
    """A request to route: its text, size, requirements and user.

    Tokens are counted as by the model that would answer without a router.
    """

    text: str
    """The user's own text."""
    default_model: str
    contextualised: str | None = None
    """The contextualised text, if it was rewritten."""
    earlier: tuple[str, ...] = ()
    """The user's earlier messages, newest last; a few are enough."""
    message_tokens: int = 0
    front_tokens: int = 0
    """The tokens of the parts that cannot be shortened: the system text and the pinned facts."""
    context_tokens: int = 0
    """The tokens of the message and everything shown with it."""
    images: bool = False
    """Whether the message contains images."""
    tools: bool = False
    """Whether it contains tool results, or cannot be answered without tool calls."""
    user: str = "local"
    org: str = ""
    asked_for: str | None = None
    """The model that the caller names."""
    labelled: bool = False
    """Whether to detect its intent even if no rule needs it."""
    branch_model: str | None = None
    """The ``home`` of the last turn's route; None if the branch has no turn yet."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The properties of a model that matter for routing."""

    name: str
    abilities: Abilities
    input_limit: int
    """The maximum number of input tokens."""
    answer_tokens: int = 0
    """The maximum number of answer tokens."""
    unavailable: str = ""
    """Why it is unavailable, as the end of a sentence: "its key is not set"; empty if it is available."""


def cannot(model: ModelFacts, query: RouteQuery) -> str:
    """Return why a model cannot take a request, or an empty string.

    Earlier turns are no reason, because they are shortened. A rule with ``needs = "context"`` avoids that.
    """
    if query.images and not model.abilities.images:
        return "it does not support images"
    if query.tools and not model.abilities.tools:
        return "it does not support tools"
    least = query.message_tokens + query.front_tokens
    return "the message alone is too long for it" if least > model.input_limit else ""


def is_away(model: ModelFacts) -> str:
    """Return why a model is unavailable now, or an empty string."""
    return f"it is not available now: {model.unavailable}" if model.unavailable else ""


def price_of(model: ModelFacts, query: RouteQuery) -> float | None:
    """Return the maximum cost of a request in US dollars, or None if the prices are unknown."""
    most = Usage(input_tokens=query.context_tokens, output_tokens=model.answer_tokens)
    return cost(model.abilities.prices, most)


NAMES = {
    "code": "code",
    "factual": "a fact",
    "long_document": "a long document",
    "small_talk": "small talk",
    "other": "something else",
}
"""The intents in words."""


def mismatch(rule: Rule, query: RouteQuery, purpose: Purpose, model: ModelFacts | None, home: ModelFacts | None) -> str:
    """Return why a rule does not match, or an empty string.

    ``model`` is the rule's, ``home`` the one that would answer without rules; None means that there is no such model.
    """
    if rule.intent is not None and rule.intent != purpose.intent:
        return f"the message is about {NAMES[purpose.intent]}, not {NAMES[rule.intent]}"
    missing = _unneeded(rule, query, home) or _length_mismatch(rule, query) or _user_mismatch(rule, query)
    return missing or _price_mismatch(rule, query, model)


def in_words(rule: Rule, purpose: Purpose) -> str:
    """Return why a rule matched: its own reason if it has one."""
    return rule.reason or "; ".join(_matched_conditions(rule, purpose))


def _matched_conditions(rule: Rule, purpose: Purpose) -> Iterator[str]:
    if rule.intent is not None:
        yield f"the message is about {NAMES[rule.intent]}: {purpose.reason}"
    if rule.needs is not None:
        yield {"images": "the message has images", "tools": "tools are needed", "context": "a larger window is needed"}[
            rule.needs
        ]
    if (rule.min_tokens, rule.max_tokens) != (None, None):
        yield "the length of the message"
    if (rule.min_context_tokens, rule.max_context_tokens) != (None, None):
        yield "the length of the conversation"
    if rule.user is not None:
        yield f"the user is {rule.user}"
    if rule.org is not None:
        yield f"the organisation is {rule.org}"
    if rule.max_price is not None:
        yield f"it costs no more than ${rule.max_price:g}"


def _unneeded(rule: Rule, query: RouteQuery, home: ModelFacts | None) -> str:
    if rule.needs == "images" and not query.images:
        return "there are no images"
    if rule.needs == "tools" and not query.tools:
        return "no tools are needed"
    if rule.needs == "context" and home is not None and query.context_tokens <= home.input_limit:
        return f"{home.name} has a large enough window"
    return ""


def _length_mismatch(rule: Rule, query: RouteQuery) -> str:
    if not _between(rule.min_tokens, query.message_tokens, rule.max_tokens):
        return f"the message has {query.message_tokens} tokens"
    if not _between(rule.min_context_tokens, query.context_tokens, rule.max_context_tokens):
        return f"the conversation has {query.context_tokens} tokens"
    return ""


def _between(least: int | None, count: int, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def _user_mismatch(rule: Rule, query: RouteQuery) -> str:
    if rule.user is not None and rule.user != query.user:
        return "another user asks"
    return "another organisation asks" if rule.org is not None and rule.org != query.org else ""


def _price_mismatch(rule: Rule, query: RouteQuery, model: ModelFacts | None) -> str:
    if rule.max_price is None or model is None:
        return ""
    price = price_of(model, query)
    if price is None:
        return "its price is not known"
    return f"it may cost ${price:.4f}" if price > rule.max_price else ""


NOT_THERE = "the model no longer exists"
FINAL = frozenset({"filter"})
"""Failures after which no fallback is tried: a vendor's refusal is an answer, not an outage."""


def route(query: RouteQuery, models: Sequence[ModelFacts], router: Router) -> Route:
    """Choose the model that answers a request; raise ``InvalidInput`` if an unknown model is requested by name."""
    by_name = {model.name: model for model in models}
    purpose = _purpose(query, router)
    if query.asked_for is not None:
        return _requested_route(query, query.asked_for, by_name, purpose)
    named, home = tuple(_default_candidates(query, router)), home_of(query, by_name, router)
    if not router.enabled:
        return Route(model=home, reason="The router is switched off.", home=home, **labels(purpose))
    considered: list[Considered] = []
    chosen = _by_rule(query, by_name, router, purpose, by_name.get(home), considered)
    others = (*named, *_fallback_candidates(router))
    chosen = (
        chosen
        or _first_usable(others, query, by_name, considered)
        or _first_recently_failed(others, query, by_name, considered)
    )
    if chosen is None:
        reason = f"No model can answer this request. {_reasons_against(considered)}".strip()
        return Route(model=None, reason=reason, home=home, **labels(purpose), considered=tuple(considered))
    model, reason = chosen
    stand_ins = [name for name in dict.fromkeys((home, *router.fallbacks)) if name != model]
    return Route(
        model=model,
        reason=reason,
        home=home,
        **labels(purpose),
        window=by_name[model].abilities.context_limit,
        fallbacks=tuple(_usable_fallbacks(stand_ins, query, by_name)),
        considered=tuple(considered),
    )


def labels(purpose: Purpose) -> dict[str, Any]:
    """Return the intent fields of a route."""
    return {"intent": purpose.intent, "confidence": purpose.confidence}


def _purpose(query: RouteQuery, router: Router) -> Purpose:
    """Detect the intent of the contextualised message, if it is needed."""
    wanted = query.labelled or router.rules
    return intent_of(query.contextualised or query.text, query.earlier) if wanted else UNKNOWN


def home_of(query: RouteQuery, available: Container[str], router: Router) -> str:
    """Return the model that answers if no rule matches; ``there`` are the available models."""
    if query.asked_for is not None:
        return query.asked_for
    return next((name for name, _ in _default_candidates(query, router) if name in available), query.default_model)


def next_after(route: Route, failed: str, error_kind: str) -> Route | None:
    """Return the route after a model failed, or None if there is no fallback.

    ``error_kind`` is that of the ``ProviderError``. The new route has the remaining fallbacks. A request that was too
    large goes only to a model with a larger window.
    """
    if error_kind not in KINDS or error_kind in FINAL:
        return None
    least = route.window + 1 if error_kind == "size" else 0
    remaining = [fallback for fallback in route.fallbacks if fallback.model != failed]
    place = next((place for place, fallback in enumerate(remaining) if fallback.window >= least), None)
    if place is None:
        return None
    successor = remaining[place]
    return replace(
        route,
        model=successor.model,
        window=successor.window,
        reason=f"{failed} could not answer: {KINDS[error_kind].what}; {successor.model} answers instead.",
        fallbacks=tuple(remaining[place + 1 :]),
    )


def _requested_route(query: RouteQuery, name: str, available: Mapping[str, ModelFacts], purpose: Purpose) -> Route:
    if name not in available:
        known = ", ".join(sorted(available))
        raise InvalidInput(f"There is no model {name!r}; there are: {known}.", hint="Name it under [models].")
    objection = cannot(available[name], query)
    reason = f"{name} was asked for by name" + (f", though {objection}." if objection else ".")
    considered = Considered(model=name, by="asked for by name", against=objection)
    window = available[name].abilities.context_limit
    return Route(model=name, reason=reason, home=name, **labels(purpose), window=window, considered=(considered,))


def _default_candidates(query: RouteQuery, router: Router) -> Iterator[tuple[str, str]]:
    """Yield the models that may answer if no rule matches, in order of precedence."""
    if query.branch_model is not None:
        yield query.branch_model, "the branch's model"
    if router.enabled and query.user in router.users:
        yield router.users[query.user].model, "what the user prefers"
    if router.enabled and query.org in router.orgs:
        yield router.orgs[query.org].model, "what the organisation prefers"
    yield query.default_model, "the default model"


def _fallback_candidates(router: Router) -> Iterator[tuple[str, str]]:
    yield from ((name, "a fallback") for name in router.fallbacks)


def _by_rule(
    query: RouteQuery,
    available: Mapping[str, ModelFacts],
    router: Router,
    purpose: Purpose,
    home: ModelFacts | None,
    considered: list[Considered],
) -> tuple[str, str] | None:
    """Return the first matching rule whose model can take the request."""
    for number, rule in enumerate(router.rules, 1):
        model = available.get(rule.model)
        objection = mismatch(rule, query, purpose, model, home)
        objection = objection or (_reason_against(model, query) if model else NOT_THERE)
        considered.append(Considered(model=rule.model, by=f"rule {number}", against=objection))
        if not objection:
            return rule.model, f"{rule.model} answers by rule {number}: {in_words(rule, purpose).rstrip('.')}."
    return None


def _first_usable(
    named: Iterable[tuple[str, str]],
    query: RouteQuery,
    available: Mapping[str, ModelFacts],
    considered: list[Considered],
) -> tuple[str, str] | None:
    """Return the first of these models that can take the request."""
    passed: list[Considered] = []
    for name, by in _without_duplicates(named):
        objection = _reason_against(available[name], query) if name in available else NOT_THERE
        seen = Considered(model=name, by=by, against=objection)
        considered.append(seen)
        if not objection:
            return name, f"{_reasons_against(passed)} {name} answers: it is {by}.".strip()
        passed.append(seen)
    return None


def _first_recently_failed(
    named: Iterable[tuple[str, str]],
    query: RouteQuery,
    available: Mapping[str, ModelFacts],
    considered: Sequence[Considered],
) -> tuple[str, str] | None:
    """Return the first model that is able but failed recently; it is tried anyway."""
    for name, _ in _without_duplicates(named):
        if name in available and not cannot(available[name], query):
            return name, f"{_reasons_against(considered)} {name} is used anyway.".strip()
    return None


def _without_duplicates(named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name, by in named:
        if name not in seen:
            seen.add(name)
            yield name, by


def _usable_fallbacks(
    names: Iterable[str], query: RouteQuery, available: Mapping[str, ModelFacts]
) -> Iterator[Fallback]:
    """Yield the models that can take the request; those that failed recently come last."""
    able = [available[name] for name in names if name in available and not cannot(available[name], query)]
    for model in sorted(able, key=lambda model: bool(is_away(model))):
        yield Fallback(model=model.name, window=model.abilities.context_limit)


def _reason_against(model: ModelFacts, query: RouteQuery) -> str:
    return is_away(model) or cannot(model, query)


def _reasons_against(considered: Iterable[Considered]) -> str:
    return " ".join(f"Not {seen.model}: {seen.against}." for seen in considered if not seen.by.startswith("rule"))
