"""What models can do, and how config.toml changes that."""

from __future__ import annotations

import logging
from typing import Any, get_args

import pytest
from anthropic.types import Model
from openai.types import ChatModel

from contextinfinity.domain.prompt import Abilities, Prices
from contextinfinity.errors import SettingsError
from contextinfinity.providers.catalogue import abilities_of, models_of
from contextinfinity.vendors import VENDORS
from tests.cases import each

CLAUDES: tuple[str, ...] = get_args(get_args(Model)[0])


@pytest.mark.req("PROVIDER-1")
@pytest.mark.parametrize("provider", sorted(VENDORS))
def test_every_row_makes_sense(provider: str) -> None:
    for name, able in models_of(provider).items():
        assert able.known
        assert 0 < able.max_output_tokens <= able.context_limit, name
        if able.prices is not None:
            assert 0 < able.prices.input <= able.prices.output, name
            assert able.prices.cached is None or able.prices.cached < able.prices.input, name


@pytest.mark.req("PROVIDER-1")
@each("model", CLAUDES)
def test_every_model_that_the_sdk_of_anthropic_names_is_known(model: str) -> None:
    able = abilities_of("anthropic", model)
    assert able.known
    assert able.context_limit >= 200_000
    assert able.images


@pytest.mark.req("PROVIDER-1")
@each("model", [m for m in get_args(ChatModel) if m.startswith(("gpt-4.1", "gpt-5", "gpt-6", "o"))])
def test_every_current_model_that_the_sdk_of_openai_names_is_known(model: str) -> None:
    able = abilities_of("openai", model)
    assert able.known
    assert able.context_limit >= 128_000
    assert able.encoding == "o200k_base"


@pytest.mark.req("PROVIDER-1")
@each(
    ("provider", "model", "limit"),
    [
        ("openai", "gpt-4", 8_192),
        ("openai", "gpt-4-0613", 8_192),
        ("openai", "gpt-4-turbo-2024-04-09", 128_000),
        ("openai", "gpt-4o-2024-11-20", 128_000),
        ("openai", "gpt-4.1-mini", 1_047_576),
        ("openai", "ft:gpt-4o-mini:acme::1", 128_000),
        ("anthropic", "claude-opus-4-5-20251101", 200_000),
        ("anthropic", "claude-opus-4-6", 1_000_000),
        ("perplexity", "sonar", 128_000),
        ("perplexity", "sonar-pro", 200_000),
        ("openai_chat", "openai/gpt-4.1", 1_047_576),
        ("openai_chat", "anthropic/claude-opus-4.6:beta", 1_000_000),
        ("openai_chat", "perplexity/sonar-pro", 200_000),
    ],
)
def test_a_model_is_found_by_the_longest_beginning_of_its_name(provider: str, model: str, limit: int) -> None:
    able = abilities_of(provider, model)
    assert (able.known, able.context_limit) == (True, limit)


def test_a_beginning_ends_where_a_part_of_the_name_ends() -> None:
    assert not abilities_of("openai", "o1000").known
    assert not abilities_of("openai", "gpt-50").known


def test_a_new_model_of_a_family_has_no_price_of_its_elders() -> None:
    assert abilities_of("openai", "gpt-5").prices is not None
    assert abilities_of("openai", "gpt-5.9-sol").prices is None
    assert abilities_of("openai", "ft:gpt-4o:acme").prices is None


@pytest.mark.req("PROVIDER-1")
def test_an_unknown_model_gets_safe_defaults_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="contextinfinity"):
        first = abilities_of("openai_chat", "nobody/knows-me:7b")
        assert abilities_of("openai_chat", "nobody/knows-me:7b") == first
        abilities_of("openai_chat", "known-to-the-user", {"context_limit": 32_768})
    assert first == Abilities(one_system=True)
    assert len(caplog.records) == 1
    assert "nobody/knows-me:7b" in caplog.text
    assert "context_limit" in caplog.text


@pytest.mark.req("PROVIDER-1")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context_limit", 1_000),
        ("max_output_tokens", 100),
        ("tools", False),
        ("images", False),
        ("reasoning", False),
        ("one_system", True),
        ("min_cache_tokens", 1),
    ],
)
def test_what_the_config_says_wins_field_by_field(key: str, value: Any) -> None:
    usual, made = abilities_of("openai", "gpt-5"), abilities_of("openai", "gpt-5", {key: value})
    changed = {name for name in usual.__struct_fields__ if getattr(usual, name) != getattr(made, name)}
    assert changed == {key}
    assert getattr(made, key) == value
    assert abilities_of("openai", "gpt-5", {key: None, "something": "else"}) == usual


def test_prices_of_the_config_win_one_by_one() -> None:
    usual = abilities_of("openai", "gpt-5").prices
    assert usual is not None
    made = abilities_of("openai", "gpt-5", {"price_cached": 0, "price_cache_write": 2}).prices
    assert made == Prices(input=usual.input, output=usual.output, cached=0, cache_write=2)
    own = abilities_of("openai_chat", "mine", {"context_limit": 9, "price_input": 1, "price_output": 2.5}).prices
    assert own == Prices(input=1, output=2.5)


def test_a_price_without_the_other_leaves_the_cost_unknown() -> None:
    for half in ({"price_input": 1}, {"price_output": 1}, {"price_cached": 1}):
        assert abilities_of("openai_chat", "mine", {"context_limit": 9, **half}).prices is None
    assert abilities_of("openai", "gpt-5", {"price_input": 7}).prices is not None, "the other is in its row"


def test_a_cache_without_a_least_size_can_be_configured() -> None:
    assert abilities_of("anthropic", "claude-opus-5", {"min_cache_tokens": 0}).min_cache_tokens == 0
    with pytest.raises(SettingsError, match="min_cache_tokens"):
        abilities_of("anthropic", "claude-opus-5", {"min_cache_tokens": -1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_limit": "much"},
        {"context_limit": 0},
        {"context_limit": True},
        {"max_output_tokens": 1.5},
        {"tools": 1},
        {"price_input": -1},
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="mine") as caught:
        abilities_of("openai_chat", "mine", {"context_limit": 100, **wrong})
    assert caught.value.hint
