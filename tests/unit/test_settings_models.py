"""Settings of models that are tables: what is passed on to providers, from the file and the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.errors import SettingsError
from contextinfinity.settings import ModelSettings, load_settings
from contextinfinity.settings.keys import model_keys, shown

MODEL = "[models.x]\nprovider = 'openai'\n"
OPTIONS = "CONTEXTINFINITY_MODELS__X__OPTIONS"
PROVIDER_TOOLS = "CONTEXTINFINITY_MODELS__X__PROVIDER_TOOLS"
REFUSED = (
    "is refused: keys are not allowed in the settings; name the environment variable that holds it with api_key_env."
)


def load(folder: Path, text: str = "", **environ: str) -> ModelSettings:
    """Load a config.toml that says this of the model x, with these variables and no others."""
    (folder / "config.toml").write_text(MODEL + text, encoding="utf-8")
    return load_settings(data_dir=folder, environ=environ).settings.models["x"]


def problem(folder: Path, text: str = "", **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(folder, text, **environ)
    said = str(caught.value).replace(f"{folder}{os.sep}", "")
    assert "\n" not in said
    return said


@pytest.mark.req("CONFIG-1")
def test_a_model_has_the_documented_figures(tmp_path: Path) -> None:
    said = load(tmp_path)
    assert (said.timeout_seconds, said.attempts, said.api_key_keyring) == (600.0, 4, False)
    told = ("provider", "timeout_seconds", "attempts", "api_key_keyring")
    others = [key.name for key in model_keys() if key.name not in told]
    assert {name: getattr(said, name) for name in others} == dict.fromkeys(others)


@pytest.mark.req("CONFIG-1", "PROVIDER-1")
@pytest.mark.parametrize(
    "text",
    [
        "options = {temperature = 0.5, reasoning = {effort = 'low'}, stop = ['a', 'b']}",
        "[models.x.options]\ntemperature = 0.5\nstop = ['a', 'b']\n[models.x.options.reasoning]\neffort = 'low'",
        "options.temperature = 0.5\noptions.reasoning.effort = 'low'\noptions.stop = ['a', 'b']",
    ],
    ids=["inline", "section", "dotted"],
)
def test_options_are_kept_as_they_are_written(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).options == {"temperature": 0.5, "reasoning": {"effort": "low"}, "stop": ["a", "b"]}


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    "text",
    [
        "provider_tools = [{type = 'web_search'}, {type = 'other', n = 1}]",
        "[[models.x.provider_tools]]\ntype = 'web_search'\n[[models.x.provider_tools]]\ntype = 'other'\nn = 1",
    ],
    ids=["inline", "sections"],
)
def test_a_providers_own_tools_are_kept_as_they_are_written(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).provider_tools == ({"type": "web_search"}, {"type": "other", "n": 1})


@pytest.mark.req("CONFIG-1")
def test_the_environment_says_tables_in_json(tmp_path: Path) -> None:
    options = {"temperature": 0.5, "reasoning": {"effort": "low"}, "name": "Zoë", "stop": [1, None, True]}
    tools = [{"type": "web_search"}, {"type": "other"}]
    environ = {OPTIONS: f"  {json.dumps(options, indent=2)}\n", PROVIDER_TOOLS: json.dumps(tools)}
    said = load(tmp_path, "options = {temperature = 1}", **environ)
    assert said.options == options, "they replace those of the file"
    assert said.provider_tools == tuple(tools)


@pytest.mark.req("CONFIG-1")
def test_a_text_may_begin_as_json_does(tmp_path: Path) -> None:
    environ = {"CONTEXTINFINITY_SERVER__HOST": "[::1]", "CONTEXTINFINITY_MODELS__X__MODEL_ID": "{base}-large"}
    (tmp_path / "config.toml").write_text(MODEL)
    settings = load_settings(data_dir=tmp_path, environ=environ).settings
    assert (settings.server.host, settings.models["x"].model_id) == ("[::1]", "{base}-large")


@pytest.mark.req("CONFIG-1", "SAFE-1")
@pytest.mark.parametrize(
    "value",
    ["{oops", '{"a": "sk-secret"', "[1, 2]", "sk-secret", '"sk-secret"', "[" * 99_999, '{"a": "\udce9"}', "{} {}", "1"],
    ids=["no json", "cut", "list", "text", "quoted", "deep", "no text", "two", "number"],
)
def test_what_is_no_table_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    what = "models.x.options has a value that is not repeated here; it must be a table."
    assert problem(tmp_path, **{OPTIONS: value}) == f"{OPTIONS}: {what}"


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize("value", ["\udce9", "[\udce9", "{"])
def test_bytes_that_are_no_text_are_no_number(tmp_path: Path, value: str) -> None:
    said = problem(tmp_path, CONTEXTINFINITY_SERVER__PORT=value)
    assert said.startswith("CONTEXTINFINITY_SERVER__PORT: server.port is ")


@pytest.mark.req("CONFIG-1", "SAFE-1")
@pytest.mark.parametrize(
    ("text", "key", "must"),
    [
        ("options = 'sk-secret'", "options", "a table"),
        ("options = [{a = 'sk-secret'}]", "options", "a table"),
        ("provider_tools = {type = 'sk-secret'}", "provider_tools", "a list of tables"),
        ("provider_tools = ['sk-secret']", "provider_tools", "a list of tables"),
    ],
)
def test_a_value_of_the_wrong_form_is_named_with_its_line(tmp_path: Path, text: str, key: str, must: str) -> None:
    what = f"models.x.{key} has a value that is not repeated here; it must be {must}."
    assert problem(tmp_path, text) == f"config.toml:3: {what}"


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("options = {api_key = 'sk-secret'}", "models.x.options.api_key"),
        ("options = {deep = {er = [{apiKey = 'sk-secret'}]}}", "models.x.options.apiKey"),
        ("options = {'X-API-Key' = {a = 1}}", "models.x.options.X-API-Key"),
        ("provider_tools = [{type = 'mcp'}, {server = {API_KEY = 'sk-secret'}}]", "models.x.provider_tools.API_KEY"),
    ],
)
def test_a_key_inside_a_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert problem(tmp_path, text) == f"config.toml:3: {said} {REFUSED}"


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (OPTIONS, {"api_key": "sk-secret"}, "models.x.options.api_key"),
        (OPTIONS, {"deep": [{"er": {"api-key": "sk-secret"}}]}, "models.x.options.api-key"),
        (PROVIDER_TOOLS, [{"type": "mcp", "server": {"api_key": "sk-secret"}}], "models.x.provider_tools.api_key"),
    ],
)
def test_a_key_inside_json_of_the_environment_is_refused(tmp_path: Path, variable: str, value: Any, said: str) -> None:
    assert problem(tmp_path, **{variable: json.dumps(value)}) == f"{variable}: {said} {REFUSED}"


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("text", "must"),
    [
        ("timeout_seconds = 0", "a number above 0 and up to 86,400"),
        ("attempts = 0", "an integer from 1 to 20"),
        ("attempts = 21", "an integer from 1 to 20"),
        ("max_output_tokens = 0", "an integer from 1 to 10,000,000"),
        ("images = 'yes'", "true or false"),
        ("price_input = -1", "a number from 0 to 1,000,000"),
        ("min_cache_tokens = 0", "an integer from 1 to 1,000,000"),
    ],
)
def test_figures_of_a_model_have_bounds(tmp_path: Path, text: str, must: str) -> None:
    said = problem(tmp_path, text)
    assert said.startswith(f"config.toml:3: models.x.{text.partition(' ')[0]} is ")
    assert said.endswith(f"; it must be {must}.")


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("text", "must"),
    [
        ("[tools]\ntimeout_seconds = 0", "a number above 0 and up to 86,400"),
        ("[tools]\nmax_rounds = 0", "an integer from 1 to 10,000"),
        ("[openai]\nprovider_conversations = 1", "true or false"),
    ],
)
def test_figures_of_tools_have_bounds(tmp_path: Path, text: str, must: str) -> None:
    assert problem(tmp_path, text).endswith(f"; it must be {must}.")


@pytest.mark.req("SAFE-1")
def test_tables_are_shown_as_what_they_are() -> None:
    assert shown({"a": "sk-secret"}) == "a table"
    assert shown(({"a": "sk-secret"},)) == "an array"
