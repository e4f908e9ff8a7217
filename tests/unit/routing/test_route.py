"""Which model answers, why, and who answers when it fails."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from contextinfinity.domain.plan import Route
from contextinfinity.domain.prompt import Abilities, Prices
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.errors import InvalidInput
from contextinfinity.providers.failures import KINDS
from contextinfinity.routing.router import ModelFacts, RouteQuery, next_after, route
from contextinfinity.settings import Preference, Router, Rule
from tests.cases import each

pytestmark = pytest.mark.req("PROVIDER-6")


def model(name: str, window: int = 100_000, *, unavailable: str = "", **more: Any) -> ModelFacts:
    abilities = Abilities(context_limit=window, **more)
    return ModelFacts(
        name=name, abilities=abilities, input_limit=window - 1000, answer_tokens=1000, unavailable=unavailable
    )


MODELS = (
    model("gpt", images=True, prices=Prices(input=10, output=50)),
    model("small", 8000, prices=Prices(input=0.1, output=0.5)),
    model("sonar", tools=False, images=True, prices=Prices(input=1, output=1)),
    model("huge", 1_000_000, images=True),
    model("built-in", 4000, tools=False),
)
FACTUAL = Rule(model="sonar", intent="factual")


def ask(text: str = "Tell me a story.", **more: Any) -> RouteQuery:
    given = {"default_model": "gpt", "message_tokens": 10, "context_tokens": 500, **more}
    return RouteQuery(text=text, **given)


def by_rule(rule: Rule, **more: Any) -> bool:
    """Whether the rule sends the request elsewhere than to the default model."""
    found = route(ask(**more), MODELS, Router(rules=(rule,)))
    assert found.model in ("gpt", rule.model)
    return found.model == rule.model


def test_the_conversation_of_document_c_goes_to_perplexity_by_one_rule() -> None:
    router = Router(rules=(FACTUAL,))
    first = route(ask("Who is Donald Trump?"), MODELS, router)
    assert first.model == "sonar"
    assert first.intent == "factual"
    assert first.reason == "sonar answers by rule 1: the message is about a fact: it asks who, when, where or how many."
    explicit = ask("who are his children", contextualised="Who are Donald Trump's children?", branch_model=first.home)
    assert route(explicit, MODELS, router).model == "sonar"
    story = route(ask(branch_model=first.home), MODELS, router)
    assert story.model == "gpt", "a rule chooses for one request"


def test_without_a_rule_a_factual_question_stays_where_it_is() -> None:
    found = route(ask("Who is Donald Trump?", branch_model="small"), MODELS, Router())
    assert (found.model, found.reason) == ("small", "small answers: it is the branch's model.")


def test_who_answers_is_asked_for_ruled_kept_preferred_or_the_default_in_this_order() -> None:
    router = Router(
        rules=(FACTUAL,), users={"anna": Preference(model="huge")}, orgs={"acme": Preference(model="small")}
    )
    who: dict[str, Any] = {"user": "anna", "org": "acme", "branch_model": "gpt"}
    fact = "Who is Donald Trump?"
    asked = route(ask(fact, asked_for="small", **who), MODELS, router)
    assert (asked.model, asked.home, asked.reason) == ("small", "small", "small was asked for by name.")
    assert route(ask(fact, **who), MODELS, router).model == "sonar"
    assert route(ask(**who), MODELS, router).model == "gpt"
    preferred = route(ask(user="anna", org="acme"), MODELS, router)
    assert (preferred.model, preferred.reason) == ("huge", "huge answers: it is what the user prefers.")
    assert route(ask(org="acme"), MODELS, router).model == "small"
    assert route(ask(), MODELS, router).reason == "gpt answers: it is the default model."


def test_switched_off_only_the_caller_and_the_branch_have_a_say() -> None:
    router = Router(enabled=False, rules=(FACTUAL,), users={"local": Preference(model="huge")}, fallbacks=("small",))
    fact = "Who is Donald Trump?"
    assert route(ask(fact), MODELS, router).model == "gpt"
    assert route(ask(fact, branch_model="built-in", images=True), MODELS, router).model == "built-in"
    assert route(ask(fact, asked_for="small"), MODELS, router).model == "small"
    assert route(ask(fact), MODELS, router).fallbacks == ()


@each(
    ("rule", "yes", "no"),
    [
        (Rule(model="huge", intent="code"), {"text": "refactor parse_line()"}, {"text": "Tell me a story."}),
        (Rule(model="huge", needs="images"), {"images": True}, {}),
        (Rule(model="huge", needs="tools"), {"tools": True}, {}),
        (Rule(model="huge", needs="context"), {"context_tokens": 99_001}, {"context_tokens": 99_000}),
        (Rule(model="huge", min_tokens=11), {"message_tokens": 11}, {"message_tokens": 10}),
        (Rule(model="huge", max_tokens=9), {"message_tokens": 9}, {"message_tokens": 10}),
        (Rule(model="huge", min_context_tokens=501), {"context_tokens": 501}, {"context_tokens": 500}),
        (Rule(model="huge", max_context_tokens=499), {"context_tokens": 499}, {"context_tokens": 500}),
        (Rule(model="huge", user="anna"), {"user": "anna"}, {"user": "bo"}),
        (Rule(model="huge", org="acme"), {"org": "acme"}, {"org": ""}),
        (Rule(model="small", max_price=0.001), {"context_tokens": 5000}, {"context_tokens": 5001}),
        (Rule(model="huge", user="a", org="b"), {"user": "a", "org": "b"}, {"user": "a"}),
    ],
)
def test_a_rule_holds_when_all_it_says_does(rule: Rule, yes: dict[str, Any], no: dict[str, Any]) -> None:
    assert by_rule(rule, **yes)
    assert not by_rule(rule, **no)


def test_a_rule_with_a_price_does_not_hold_where_the_price_is_not_known() -> None:
    assert not by_rule(Rule(model="huge", max_price=1000))


def test_the_first_rule_that_holds_counts_and_its_own_words_are_the_reason() -> None:
    rules = (Rule(model="huge", user="bo"), Rule(model="sonar", user="anna", reason="Anna asked."), FACTUAL)
    found = route(ask("Who is Donald Trump?", user="anna"), MODELS, Router(rules=rules))
    assert found.reason == "sonar answers by rule 2: Anna asked."
    assert [(seen.by, seen.against) for seen in found.considered] == [("rule 1", "another user asks"), ("rule 2", "")]


@pytest.mark.parametrize(
    ("needed", "why"),
    [
        ({"images": True}, "it does not support images"),
        ({"tools": True}, "it does not support tools"),
        ({"message_tokens": 3001}, "the message alone is too long for it"),
    ],
)
def test_a_model_that_cannot_take_the_request_is_passed_over(needed: dict[str, Any], why: str) -> None:
    router = Router(rules=(Rule(model="built-in", user="local"),), fallbacks=("built-in", "gpt"))
    found = route(ask(branch_model="built-in", **needed), MODELS, router)
    assert found.model == "gpt"
    assert found.home == "built-in", "the branch goes on with its own model"
    assert found.reason == f"Not built-in: {why}. gpt answers: it is the default model."
    assert found.considered[0].against == why
    assert "built-in" not in [fallback.model for fallback in found.fallbacks]


def test_a_model_that_cannot_be_asked_now_is_passed_over() -> None:
    models = (model("gpt", unavailable="its key is not set"), *MODELS[1:])
    found = route(ask(), models, Router(fallbacks=("small",)))
    assert found.model == "small"
    assert found.reason == "Not gpt: it is not available now: its key is not set. small answers: it is a fallback."


def test_a_long_conversation_is_shortened_rather_than_moved() -> None:
    assert (
        route(ask(branch_model="small", context_tokens=500_000), MODELS, Router(fallbacks=("huge",))).model == "small"
    )


def test_a_branch_whose_model_is_gone_goes_on_with_the_next() -> None:
    found = route(ask(branch_model="gone"), MODELS, Router(rules=(Rule(model="gone", user="local"),)))
    assert (found.model, found.home) == ("gpt", "gpt")
    assert "Not gone: the model no longer exists." in found.reason


def test_when_no_model_can_nobody_is_chosen_and_each_is_told_of() -> None:
    found = route(ask(branch_model="built-in", images=True, default_model="small"), MODELS, Router())
    assert found.model is None
    assert found.home == "built-in"
    assert found.reason == (
        "No model can answer this request. Not built-in: it does not support images. Not small: it does not "
        "support images."
    )


def test_an_explicit_choice_wins_though_the_model_cannot_and_nobody_replaces_it() -> None:
    found = route(ask(asked_for="built-in", images=True), MODELS, Router(fallbacks=("gpt",)))
    assert found.model == "built-in"
    assert found.reason == "built-in was asked for by name, though it does not support images."
    assert next_after(found, "built-in", "overloaded") is None


def test_asking_for_a_model_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidInput, match="no model 'gpt-9'; there are: built-in, gpt, huge, small, sonar"):
        route(ask(asked_for="gpt-9"), MODELS, Router())


def test_a_failure_falls_over_to_the_branch_s_model_and_then_down_the_list() -> None:
    first = route(ask("Who is Donald Trump?"), MODELS, Router(rules=(FACTUAL,), fallbacks=("small", "sonar", "huge")))
    assert [fallback.model for fallback in first.fallbacks] == ["gpt", "small", "huge"]
    second = next_after(first, "sonar", "overloaded")
    assert second is not None
    assert (second.model, second.home) == ("gpt", "gpt")
    assert second.reason == "sonar could not answer: it is overloaded; gpt answers instead."
    third = next_after(second, "gpt", "authentication")
    assert third is not None
    assert third.model == "small"
    last = next_after(third, "small", "connection")
    assert last is not None
    assert last.reason.endswith("small could not answer: the connection failed; huge answers instead.")
    assert next_after(last, "huge", "server") is None


@each("kind", sorted(KINDS))
def test_every_failure_of_a_provider_but_a_refusal_falls_over(kind: str) -> None:
    first = route(ask(), MODELS, Router(fallbacks=("huge",)))
    assert (next_after(first, "gpt", kind) is None) == (kind == "filter")


@pytest.mark.parametrize("kind", ["cancelled", "interrupted", "ledger_full", "internal", ""])
def test_what_is_no_failure_of_a_provider_does_not_fall_over(kind: str) -> None:
    assert next_after(route(ask(), MODELS, Router(fallbacks=("huge",))), "gpt", kind) is None


def test_what_was_too_long_goes_to_a_larger_window_only() -> None:
    first = route(ask(), MODELS, Router(fallbacks=("small", "sonar", "huge")))
    second = next_after(first, "gpt", "size")
    assert second is not None
    assert second.model == "huge"
    assert next_after(second, "huge", "size") is None
    assert next_after(second, "huge", "overloaded") is None, "it is too long for those that were passed over"


def test_a_route_can_be_kept_and_read_again() -> None:
    found = route(ask("Who is Donald Trump?"), MODELS, Router(rules=(FACTUAL,), fallbacks=("small",)))
    assert loads(Route, dumps(found).decode()) == found
    kept = msgspec.json.encode(msgspec.structs.replace(found, considered=()))
    assert len(kept) < 400, "it is part of every plan"
