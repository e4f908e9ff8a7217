"""Whatever is asked, and whatever models and rules there are: who is chosen can answer, and was meant."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.domain.prompt import Abilities, Prices
from contextinfinity.providers.failures import KINDS
from contextinfinity.routing.router import ModelFacts, RouteQuery, cannot, is_away, next_after, route
from contextinfinity.settings import Preference, Router, Rule

pytestmark = pytest.mark.req("PROVIDER-6")

NAMES = ("a", "b", "c", "d")
ONE = st.sampled_from([*NAMES, "gone"])
USERS = st.sampled_from(["local", "anna"])
SIZES = st.integers(0, 4000)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["hi", "Who is Donald Trump?", "and then?", "fix parse_line()", "word " * 2000]),
)


@st.composite
def facts(draw: st.DrawFn, name: str) -> ModelFacts:
    prices = st.builds(Prices, input=st.floats(0, 100), output=st.floats(0, 100))
    abilities = Abilities(
        context_limit=draw(st.integers(1000, 5000)),
        tools=draw(st.booleans()),
        images=draw(st.booleans()),
        prices=draw(st.none() | prices),
    )
    unavailable = draw(st.sampled_from(["", "", "its key is not set"]))
    return ModelFacts(name=name, abilities=abilities, input_limit=draw(SIZES), unavailable=unavailable)


MODELS = st.tuples(*(facts(name) for name in NAMES))
RULES = st.builds(
    Rule,
    model=ONE,
    intent=st.sampled_from([None, "factual", "code", "other"]),
    needs=st.sampled_from([None, None, "images", "tools", "context"]),
    min_tokens=st.none() | SIZES,
    user=st.none() | USERS,
    max_price=st.none() | st.floats(0, 0.5),
)
ROUTERS = st.builds(
    Router,
    enabled=st.just(True),
    fallbacks=st.lists(ONE, max_size=4).map(tuple),
    rules=st.lists(RULES, max_size=4).map(tuple),
    users=st.dictionaries(USERS, st.builds(Preference, model=ONE)),
)
QUERIES = st.builds(
    RouteQuery,
    text=TEXTS,
    default_model=st.sampled_from(NAMES),
    earlier=st.lists(TEXTS, max_size=2).map(tuple),
    message_tokens=SIZES,
    context_tokens=SIZES,
    images=st.booleans(),
    tools=st.booleans(),
    user=USERS,
    branch_model=st.none() | ONE,
)


@given(QUERIES, MODELS, ROUTERS)
def test_a_model_that_cannot_take_the_request_is_never_chosen(
    query: RouteQuery, models: tuple[ModelFacts, ...], router: Router
) -> None:
    there = {model.name: model for model in models}
    found = route(query, models, router)
    meant = {query.branch_model, query.default_model, *router.fallbacks, *(rule.model for rule in router.rules)}
    meant |= {preference.model for preference in router.users.values()}
    if found.model is None:
        last = (query.branch_model, query.default_model, *router.fallbacks)
        assert all(cannot(there[name], query) for name in last if name in there)
    for name in filter(None, (found.model, *(fallback.model for fallback in found.fallbacks))):
        assert cannot(there[name], query) == ""
        assert name in meant, "nobody answers whom nobody named"


@given(QUERIES, MODELS, ROUTERS, st.sampled_from(NAMES), st.booleans())
def test_an_explicit_choice_always_wins(
    query: RouteQuery, models: tuple[ModelFacts, ...], router: Router, name: str, enabled: bool
) -> None:
    asked = msgspec.structs.replace(query, asked_for=name)
    found = route(asked, models, msgspec.structs.replace(router, enabled=enabled))
    assert (found.model, found.home, found.fallbacks) == (name, name, ())


@given(QUERIES, MODELS, ROUTERS)
def test_the_same_request_gets_the_same_route(
    query: RouteQuery, models: tuple[ModelFacts, ...], router: Router
) -> None:
    found = route(query, models, router)
    assert route(query, models, router) == found
    assert route(query, models[::-1], router) == found, "the order of the models says nothing"


@given(QUERIES, MODELS, ROUTERS)
def test_without_a_rule_the_branch_keeps_its_model_as_long_as_that_can(
    query: RouteQuery, models: tuple[ModelFacts, ...], router: Router
) -> None:
    there = {model.name: model for model in models}
    found = route(query, models, msgspec.structs.replace(router, rules=()))
    own = there.get(query.branch_model or "")
    if own is not None and not is_away(own) and not cannot(own, query):
        assert found.model == query.branch_model


@given(QUERIES, MODELS, ROUTERS, st.lists(st.sampled_from(sorted(KINDS)), min_size=6, max_size=6))
def test_falling_over_asks_nobody_twice_and_ends(
    query: RouteQuery, models: tuple[ModelFacts, ...], router: Router, kinds: list[str]
) -> None:
    there = {model.name: model for model in models}
    at, asked = route(query, models, router), []
    for kind in kinds:
        if at.model is None:
            break
        assert cannot(there[at.model], query) == ""
        asked.append(at.model)
        following = next_after(at, at.model, kind)
        if following is None:
            break
        assert following.home == at.home
        at = following
    assert len(set(asked)) == len(asked) <= len(NAMES)
