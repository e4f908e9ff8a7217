"""Settings of the router: rules and preferences are tables inside a section, and are judged like sections."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contextinfinity.errors import SettingsError
from contextinfinity.settings import Preference, Router, Rule, load_settings

MODELS = "[models.small]\nprovider = 'scripted'\n[models.sonar]\nprovider = 'perplexity'\n"
LINES = MODELS.count("\n")
NAMES = '"built-in", "small" or "sonar", or a [models.NAME] that you add.'
ROUTER = """\
[router]
fallbacks = ["small", "built-in"]

[[router.rules]]
intent = "factual"
max_price = 0.5
model = "sonar"
reason = "It can look things up."

[[router.rules]]
needs = "context"
min_context_tokens = 1000
model = "sonar"

[router.users.anna]
model = "small"

[router.orgs."Ärzte & Co"]
model = "sonar"
"""


def load(folder: Path, text: str, **environ: str) -> Router:
    (folder / "config.toml").write_text(MODELS + text, encoding="utf-8")
    return load_settings(data_dir=folder, environ=environ).settings.router


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    """What is said about a config.toml of this text, its lines counted from 1."""
    with pytest.raises(SettingsError) as caught:
        load(folder, text, **environ)
    said = []
    for line in str(caught.value).replace(f"{folder}{os.sep}config.toml:", "").split("\n"):
        place, _, words = line.partition(": ")
        said.append(f"{int(place) - LINES if place.isdecimal() else place}: {words}")
    return said


@pytest.mark.req("CONFIG-1", "PROVIDER-6")
def test_rules_preferences_and_fallbacks_are_read(tmp_path: Path) -> None:
    assert load(tmp_path, ROUTER) == Router(
        fallbacks=("small", "built-in"),
        rules=(
            Rule(model="sonar", intent="factual", max_price=0.5, reason="It can look things up."),
            Rule(model="sonar", needs="context", min_context_tokens=1000),
        ),
        users={"anna": Preference(model="small")},
        orgs={"Ärzte & Co": Preference(model="sonar")},
    )


@pytest.mark.req("CONFIG-1")
def test_without_a_word_about_it_the_router_has_nothing_to_go_by(tmp_path: Path) -> None:
    router = load(tmp_path, "")
    assert router == Router()
    assert (router.enabled, router.fallbacks, router.rules, router.users, router.orgs) == (True, (), (), {}, {})


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[router.rules]]\nintent = 'code'\nmodel = 'small'\n[[router.rules]]\nmodel = 'sonar'\nintent = 'fact'",
            '6: router.rules[2].intent is "fact"; it must be "code", "factual", "long_document", "other" or'
            ' "small_talk".',
        ),
        (
            "[[router.rules]]\nintnet = 'code'\nmodel = 'small'",
            "2: router.rules[1].intnet is not a setting; did you mean intent?",
        ),
        (
            "[[router.rules]]\nintent = 'code'\nmodel = 'small'\nzzz = 1",
            "4: router.rules[1].zzz is not a setting; there are model, reason, intent, needs, min_tokens,",
        ),
        ("[[router.rules]]\nintent = 'code'", '1: router.rules[1] has no model; it must be "built-in" or the NAME of'),
        ("[[router.rules]]\nuser = 'a'\nmodel = 'smal'", f'3: router.rules[1].model is "smal"; it must be {NAMES}'),
        (
            "[[router.rules]]\nmodel = 'small'",
            "1: router.rules[1] has no condition; name one, or set general.default_model.",
        ),
        (
            "[[router.rules]]\nmodel = 'small'\nmin_tokens = 9\nmax_tokens = 8",
            "1: router.rules[1] never holds: min_tokens is 9 and max_tokens is 8.",
        ),
        (
            "[[router.rules]]\nmodel = 'small'\nmin_tokens = -1",
            "3: router.rules[1].min_tokens is -1; it must be an integer from 0 to 1,000,000.",
        ),
        (
            "[[router.rules]]\nmodel = 'small'\nneeds = ['tools']",
            '3: router.rules[1].needs is an array; it must be "context", "images" or "tools".',
        ),
        (
            "[[router.rules]]\nmodel = 'small'\nuser = ''",
            '3: router.rules[1].user is ""; it must be a string that is not empty.',
        ),
        (
            "[[router.rules]]\nmodel = 'small'\nuser = 'a'\napi_key = 'sk-1'",
            "4: router.rules[1].api_key is refused: keys are not allowed in the settings;",
        ),
        (
            "[router]\nrules = [\n  {model = 'small', user = 'a'},\n  {model = 'x', user = 'b'}]",
            f'4: router.rules[2].model is "x"; it must be {NAMES}',
        ),
        ("[router]\nrules = [1]", "2: router.rules[1] is 1; it must be a table."),
        ("[router]\nrules = 1", "2: router.rules is 1; it must be tables, each written as [[router.rules]]."),
        (
            "[router.rules]\nmodel = 'small'",
            "1: router.rules is a table; it must be tables, each written as [[router.ru",
        ),
        (
            "[router]\nusers = []",
            "2: router.users is an array; it must be tables, each written as [router.users.NAME].",
        ),
        ("[router.users.anna]\nmodel = 1", '2: router.users.anna.model is 1; it must be "built-in" or the NAME'),
        ("[router.users]\nanna = 'small'", '2: router.users.anna is "small"; it must be a table.'),
        ("[router.orgs.'a b']\nmodle = 'x'", '2: router.orgs."a b".modle is not a setting; did you mean model?'),
        ("[router.orgs.acme]\nmodel = 'x'", f'2: router.orgs.acme.model is "x"; it must be {NAMES}'),
        ("[router]\nfallbacks = ['small', 'y']", f'2: router.fallbacks is "y"; it must be {NAMES}'),
        ("[router]\nfallbacks = 'small'", '2: router.fallbacks is "small"; it must be a list of the NAMEs of'),
        ("[router]\nenabled = 'no'", '2: router.enabled is "no"; it must be true or false.'),
    ],
)
def test_a_mistake_in_a_rule_is_named_with_its_line_and_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    assert any(problem.startswith(said) for problem in problems(tmp_path, text))


@pytest.mark.req("CONFIG-1")
def test_all_mistakes_of_all_rules_are_named_at_once(tmp_path: Path) -> None:
    text = "[[router.rules]]\nmodel = 1\nneeds = 'x'\n[[router.rules]]\nuser = 'a'\n[router.users.b]\nx = 1\n"
    assert [line.partition(":")[0] for line in problems(tmp_path, text)] == ["2", "3", "4", "6", "7"]


@pytest.mark.req("CONFIG-1")
def test_the_environment_says_rules_and_preferences_in_json(tmp_path: Path) -> None:
    rules = [{"model": "sonar", "intent": "factual"}, {"model": "small", "user": "anna"}]
    environ = {
        "CONTEXTINFINITY_ROUTER__RULES": json.dumps(rules),
        "CONTEXTINFINITY_ROUTER__USERS": '{"bo": {"model": "small"}}',
        "CONTEXTINFINITY_ROUTER__FALLBACKS": '["sonar"]',
    }
    router = load(tmp_path, ROUTER, **environ)
    assert router.rules == (Rule(model="sonar", intent="factual"), Rule(model="small", user="anna"))
    assert router.users == {"bo": Preference(model="small")}
    assert router.fallbacks == ("sonar",)


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('[{"model": "zzz", "user": "a"}]', 'router.rules[1].model is "zzz"; it must be "built-in"'),
        ('[{"model": "small", "usr": "a"}]', "router.rules[1].usr is not a setting; did you mean user?"),
        ("[{]", 'router.rules is "[{]"; it must be tables, each written as [[router.rules]].'),
        ("small", 'router.rules is "small"; it must be tables, each written as [[router.rules]].'),
    ],
)
def test_a_variable_of_rules_that_cannot_be_followed_is_named(tmp_path: Path, value: str, said: str) -> None:
    (problem,) = problems(tmp_path, "", CONTEXTINFINITY_ROUTER__RULES=value)
    assert problem.startswith(f"CONTEXTINFINITY_ROUTER__RULES: {said}")
