"""Choose the model that answers a request, and give the reason.

    requested by name  >  the first matching rule  >  the branch's model  >  the user's  >  the organisation's
    >  the default  >  the fallbacks, in order

An explicit choice is neither overruled nor replaced when it fails. Any other model is chosen only if it can take the
request. The choice is deterministic. Rules and failures change the model for one request; ``Route.home`` is the
branch's model. There are no built-in rules: a change of model hands the conversation to another model and loses the
prompt cache, so it must be configured.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from contextinfinity.domain.route import Considered, Fallback, Route
from contextinfinity.errors import InvalidInput
from contextinfinity.providers.failures import KINDS
from contextinfinity.routing.intent import UNKNOWN, Purpose, intent_of
from contextinfinity.routing.router_inputs import ModelFacts, RouteQuery, cannot, is_away
from contextinfinity.routing.rule_matching import against, in_words
from contextinfinity.settings import Router

NOT_THERE = "the model no longer exists"
FINAL = frozenset({"filter"})
"""Failures after which no fallback is tried: a vendor's refusal is an answer, not an outage."""


def route(query: RouteQuery, models: Sequence[ModelFacts], router: Router) -> Route:
    """Choose the model that answers a request; raise ``InvalidInput`` if an unknown model is requested by name."""
    by_name = {model.name: model for model in models}
    purpose = _purpose(query, router)
    if query.asked_for is not None:
        return _as_asked(query, query.asked_for, by_name, purpose)
    named, home = tuple(_named(query, router)), home_of(query, by_name, router)
    if not router.enabled:
        return Route(model=home, reason="The router is switched off.", home=home, **labels(purpose))
    considered: list[Considered] = []
    chosen = _by_rule(query, by_name, router, purpose, by_name.get(home), considered)
    others = (*named, *_fallbacks(router))
    chosen = chosen or _by_name(others, query, by_name, considered) or _in_spite_of(others, query, by_name, considered)
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
        fallbacks=tuple(_able(stand_ins, query, by_name)),
        considered=tuple(considered),
    )


def labels(purpose: Purpose) -> dict[str, Any]:
    """Return the intent fields of a route."""
    return {"intent": purpose.intent, "confidence": purpose.confidence}


def _purpose(query: RouteQuery, router: Router) -> Purpose:
    """Detect the intent of the contextualised message, if it is needed."""
    wanted = query.labelled or router.rules
    return intent_of(query.contextualised or query.text, query.earlier) if wanted else UNKNOWN


def home_of(query: RouteQuery, there: Container[str], router: Router) -> str:
    """Return the model that answers if no rule matches; ``there`` are the available models."""
    if query.asked_for is not None:
        return query.asked_for
    return next((name for name, _ in _named(query, router) if name in there), query.default_model)


def next_after(route: Route, failed: str, error_kind: str) -> Route | None:
    """Return the route after a model failed, or None if there is no fallback.

    ``error_kind`` is that of the ``ProviderError``. The new route has the remaining fallbacks. A request that was too
    large goes only to a model with a larger window.
    """
    if error_kind not in KINDS or error_kind in FINAL:
        return None
    least = route.window + 1 if error_kind == "size" else 0
    left = [fallback for fallback in route.fallbacks if fallback.model != failed]
    place = next((place for place, fallback in enumerate(left) if fallback.window >= least), None)
    if place is None:
        return None
    instead = left[place]
    return replace(
        route,
        model=instead.model,
        window=instead.window,
        reason=f"{failed} could not answer: {KINDS[error_kind].what}; {instead.model} answers instead.",
        fallbacks=tuple(left[place + 1 :]),
    )


def _as_asked(query: RouteQuery, name: str, there: Mapping[str, ModelFacts], purpose: Purpose) -> Route:
    if name not in there:
        known = ", ".join(sorted(there))
        raise InvalidInput(f"There is no model {name!r}; there are: {known}.", hint="Name it under [models].")
    wrong = cannot(there[name], query)
    reason = f"{name} was asked for by name" + (f", though {wrong}." if wrong else ".")
    considered = Considered(model=name, by="asked for by name", against=wrong)
    window = there[name].abilities.context_limit
    return Route(model=name, reason=reason, home=name, **labels(purpose), window=window, considered=(considered,))


def _named(query: RouteQuery, router: Router) -> Iterator[tuple[str, str]]:
    """Yield the models that may answer if no rule matches, in order of precedence."""
    if query.branch_model is not None:
        yield query.branch_model, "the branch's model"
    if router.enabled and query.user in router.users:
        yield router.users[query.user].model, "what the user prefers"
    if router.enabled and query.org in router.orgs:
        yield router.orgs[query.org].model, "what the organisation prefers"
    yield query.default_model, "the default model"


def _fallbacks(router: Router) -> Iterator[tuple[str, str]]:
    yield from ((name, "a fallback") for name in router.fallbacks)


def _by_rule(
    query: RouteQuery,
    there: Mapping[str, ModelFacts],
    router: Router,
    purpose: Purpose,
    home: ModelFacts | None,
    considered: list[Considered],
) -> tuple[str, str] | None:
    """Return the first matching rule whose model can take the request."""
    for number, rule in enumerate(router.rules, 1):
        model = there.get(rule.model)
        wrong = against(rule, query, purpose, model, home)
        wrong = wrong or (_against(model, query) if model else NOT_THERE)
        considered.append(Considered(model=rule.model, by=f"rule {number}", against=wrong))
        if not wrong:
            return rule.model, f"{rule.model} answers by rule {number}: {in_words(rule, purpose).rstrip('.')}."
    return None


def _by_name(
    named: Iterable[tuple[str, str]],
    query: RouteQuery,
    there: Mapping[str, ModelFacts],
    considered: list[Considered],
) -> tuple[str, str] | None:
    """Return the first of these models that can take the request."""
    passed: list[Considered] = []
    for name, by in _each_once(named):
        wrong = _against(there[name], query) if name in there else NOT_THERE
        seen = Considered(model=name, by=by, against=wrong)
        considered.append(seen)
        if not wrong:
            return name, f"{_reasons_against(passed)} {name} answers: it is {by}.".strip()
        passed.append(seen)
    return None


def _in_spite_of(
    named: Iterable[tuple[str, str]],
    query: RouteQuery,
    there: Mapping[str, ModelFacts],
    considered: Sequence[Considered],
) -> tuple[str, str] | None:
    """Return the first model that is able but failed recently; it is tried anyway."""
    for name, _ in _each_once(named):
        if name in there and not cannot(there[name], query):
            return name, f"{_reasons_against(considered)} {name} is used anyway.".strip()
    return None


def _each_once(named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name, by in named:
        if name not in seen:
            seen.add(name)
            yield name, by


def _able(names: Iterable[str], query: RouteQuery, there: Mapping[str, ModelFacts]) -> Iterator[Fallback]:
    """Yield the models that can take the request; those that failed recently come last."""
    able = [there[name] for name in names if name in there and not cannot(there[name], query)]
    for model in sorted(able, key=lambda model: bool(is_away(model))):
        yield Fallback(model=model.name, window=model.abilities.context_limit)


def _against(model: ModelFacts, query: RouteQuery) -> str:
    return is_away(model) or cannot(model, query)


def _reasons_against(considered: Iterable[Considered]) -> str:
    return " ".join(f"Not {seen.model}: {seen.against}." for seen in considered if not seen.by.startswith("rule"))
