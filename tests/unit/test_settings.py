"""Settings: where values come from, what is refused, and in which words."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.errors import SettingsError
from contextinfinity.settings import LoadedSettings, Settings, load_settings
from contextinfinity.settings.keys import masked, model_keys, sections, variable
from tests.house.settings_page import reference

ROOT = Path(__file__).parents[2]


def load(folder: Path, text: str = "", **environ: str) -> LoadedSettings:
    """Load a config.toml of this text, with these variables and no others."""
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return load_settings(data_dir=folder, environ=environ)


def problems(folder: Path, text: str = "", **environ: str) -> list[str]:
    """What is said about a config.toml of this text, without the folder."""
    with pytest.raises(SettingsError) as caught:
        load(folder, text, **environ)
    return [line.replace(f"{folder}{os.sep}", "") for line in str(caught.value).split("\n")]


# --- what there is

FIGURES = {
    "general.default_model": "built-in",
    "budget.response_reserve_tokens": 4000,
    "budget.safety_margin_tokens": 1500,
    "budget.max_retrieval_tokens": 6000,
    "budget.memory_snippet_chars": 2000,
    "stream.flush_ms": 250,
    "stream.flush_bytes": 8192,
    "stream.fsync_ms": 2000,
    "stream.keep_journal_minutes": 60,
    "tools.mode": "disabled",
    "tools.allow_parallel": False,
    "retrieval.embedding_model": "built-in",
    "retrieval.top_k": 6,
    "retrieval.overfetch_k": 16,
    "retrieval.similarity_threshold": 0.72,
    "retrieval.recency_boost": 0.10,
    "retrieval.enable_mmr": True,
    "retrieval.packing_target_tokens": "auto",
    "compaction.enabled": True,
    "compaction.compaction_trigger_tokens": 24000,
    "compaction.verbatim_window_tokens": 4000,
    "compaction.summary_budget_tokens": "auto",
    "compaction.min_verbatim_exchanges": 2,
    "compaction.detector_model": "offline",
    "librarian.model": "auto",
    "librarian.max_tokens_per_day": 2_000_000,
    "rewriter.model": "offline",
    "memory.model": "offline",
    "memory.expiry_days": 90,
    "retention.conversation_ttl_hours": 24,
    "retention.cleanup_interval_hours": 6,
    "retention.history_limit": 20,
    "storage.threads": "in_process",
    "server.host": "127.0.0.1",
    "server.port": 8765,
    "openai.truncation": "disabled",
    "openai.store": False,
    "openai.client_store": True,
    "openai.parallel_tool_calls": False,
    "anthropic.disable_parallel_tool_use": True,
    "local.threads": 1,
    "local.unload_minutes": 15,
    "local.models_dir": None,
}


@pytest.mark.req("CONFIG-1")
def test_without_a_file_every_figure_is_the_documented_one(tmp_path: Path) -> None:
    loaded = load_settings(data_dir=tmp_path, environ={})
    values = {key: value for key, value, _ in loaded.effective()}
    assert {key: values[key] for key in FIGURES} == FIGURES
    assert values["storage.url"] == f"sqlite:///{tmp_path}/ledger.db"
    assert loaded.file is None
    assert loaded.settings == msgspec.structs.replace(Settings(), general=loaded.settings.general)


@pytest.mark.req("CONFIG-1")
def test_every_default_obeys_its_own_rule() -> None:
    for keys in sections().values():
        for key in keys:
            assert key.read(key.default) == key.default
    assert [key.name for key in model_keys() if key.required] == ["provider"]


@pytest.mark.req("CONFIG-1")
def test_the_file_of_document_e_is_followed_in_full(tmp_path: Path) -> None:
    loaded = load(tmp_path, DOCUMENT_E)
    settings = loaded.settings
    assert settings.general.default_model == "sonnet"
    assert settings.models["gpt"].context_limit == 400_000
    assert settings.models["sonnet"].api_key_env == "ANTHROPIC_API_KEY"
    assert settings.retrieval.embedding_model == "text-embedding-3-small"
    assert loaded.sources["stream.fsync_ms"] == "config.toml:13"


DOCUMENT_E = """\
[general]
default_model = "sonnet"
data_dir = "~/.contextinfinity"

[budget]
response_reserve_tokens = 4000
safety_margin_tokens = 1500
max_retrieval_tokens = 6000

[stream]
flush_ms = 250
flush_bytes = 8192
fsync_ms = 2000

[tools]
mode = "disabled"        # disabled | parse_only | enabled
allow_parallel = false

[retrieval]
embedding_model = "text-embedding-3-small"
top_k = 6
overfetch_k = 16
similarity_threshold = 0.72
enable_mmr = true

[models.sonnet]
provider = "anthropic"
model_id = "claude-sonnet-4-20250514"
context_limit = 200000
api_key_env = "ANTHROPIC_API_KEY"

[models.gpt]
provider = "openai"
model_id = "gpt-5.2"
context_limit = 400000
api_key_env = "OPENAI_API_KEY"

[openai]
truncation = "disabled"
store = false
parallel_tool_calls = false

[anthropic]
disable_parallel_tool_use = true
"""


# --- where values come from


@pytest.mark.req("CONFIG-1")
def test_the_environment_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    text = "[server]\nport = 1\nhost = 'a'\n"
    loaded = load(tmp_path, text, CONTEXTINFINITY_SERVER__PORT="2", CONTEXTINFINITY_STREAM__FLUSH_MS="")
    assert (loaded.settings.server.port, loaded.settings.server.host) == (2, "a")
    assert loaded.sources["server.port"] == "CONTEXTINFINITY_SERVER__PORT"
    assert loaded.sources["server.host"] == "config.toml:3"
    assert loaded.sources["stream.flush_ms"] == "default"
    assert loaded.sources["general.data_dir"] == "--data-dir"


@pytest.mark.req("CONFIG-1")
def test_every_key_can_be_set_from_the_environment(tmp_path: Path) -> None:
    new: dict[str, object] = {}
    for section, keys in sections().items():
        for key in keys:
            if key.model_or is None and not key.is_path and not key.tables:
                new[f"{section}.{key.name}"] = _another(key.default)
    new |= {"storage.url": "postgresql://h/db", "storage.threads": "ledger", "storage.threads_shadow": "redis"}
    new |= {"storage.serving_url": "postgresql://h/db"}
    new |= {"storage.redis_url": "redis://h", "tools.mode": "enabled", "openai.truncation": "auto"}
    new |= {"retrieval.packing_target_tokens": 700}
    new |= {"server.workers": 2, "server.allowed_hosts": ("a.org", "b.org"), "server.cors_origins": ("https://a.org",)}
    new |= {"compaction.summary_budget_tokens": 700, "retention.backups_kept": 5, "retention.hours": 12.0}
    new |= {"retention.raw_response_hours": 6.0}
    new |= {"general.redact": ("emails", "api_keys"), "general.max_dollars_per_day": 2.5}
    new |= {"general.max_dollars_per_month": 30.0}
    new |= {"local.threads": 2, "general.redact_with": "my_module:hide", "general.redact_patterns": ("[0-9]{4}", "ann")}
    written = {key: json.dumps(value) if isinstance(value, tuple) else str(value) for key, value in new.items()}
    environ = {variable(*key.split(".")): value for key, value in written.items()}
    loaded = load_settings(data_dir=tmp_path, environ=environ)
    values = {key: value for key, value, _ in loaded.effective()}
    assert {key: values[key] for key in new} == new
    assert {loaded.sources[key] for key in new} == set(environ)


def _another(default: object) -> object:
    match default:
        case bool():
            return not default
        case int() | float():
            return default / 2 if isinstance(default, float) else default - 1
        case _:
            return "other"


@pytest.mark.req("CONFIG-1", "CHATMEM-4", "CHATMEM-5", "CHATMEM-8")
def test_the_older_names_work_and_our_own_go_before_them(tmp_path: Path) -> None:
    older = {"CONVERSATION_HISTORY_LIMIT": "7", "CONVERSATION_TTL_HOURS": "48", "CLEANUP_INTERVAL_HOURS": "0.5"}
    loaded = load(tmp_path, "[retention]\nhistory_limit = 9\n", **older)
    assert loaded.settings.retention.history_limit == 7
    assert loaded.settings.retention.conversation_ttl_hours == 48
    assert loaded.settings.retention.cleanup_interval_hours == 0.5
    assert loaded.sources["retention.history_limit"] == "CONVERSATION_HISTORY_LIMIT"
    both = load(tmp_path, CONTEXTINFINITY_RETENTION__HISTORY_LIMIT="3", **older)
    assert both.settings.retention.history_limit == 3


@pytest.mark.req("CONFIG-1")
def test_the_environment_changes_a_model_of_the_file_and_adds_new_ones(tmp_path: Path) -> None:
    environ = {
        "CONTEXTINFINITY_MODELS__GPT_5_2__CONTEXT_LIMIT": "9000",
        "CONTEXTINFINITY_MODELS__FAST__PROVIDER": "local",
    }
    loaded = load(tmp_path, '[models."gpt-5.2"]\nprovider = "openai"\n', **environ)
    assert loaded.settings.models["gpt-5.2"].context_limit == 9000
    assert loaded.settings.models["fast"].provider == "local"
    assert loaded.sources['models."gpt-5.2".provider'] == "config.toml:2"


@pytest.mark.req("CONFIG-1")
def test_the_file_is_the_named_one_then_the_one_of_the_environment_then_the_one_in_data_dir(tmp_path: Path) -> None:
    for name, port in (("a.toml", 1), ("b.toml", 2), ("config.toml", 3)):
        (tmp_path / name).write_text(f"[server]\nport = {port}\n")
    environ = {"CONTEXTINFINITY_CONFIG": str(tmp_path / "b.toml")}
    assert load_settings(tmp_path / "a.toml", tmp_path, environ).settings.server.port == 1
    assert load_settings(None, tmp_path, environ).settings.server.port == 2
    assert load_settings(None, tmp_path, {}).settings.server.port == 3
    in_variable = load_settings(environ={"CONTEXTINFINITY_GENERAL__DATA_DIR": str(tmp_path)})
    assert in_variable.file == tmp_path / "config.toml"


@pytest.mark.req("CONFIG-1")
def test_data_dir_is_the_argument_then_the_environment_then_the_file_then_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "config.toml"
    file.write_text("[general]\ndata_dir = 'in_file'\n")
    environ = {"CONTEXTINFINITY_GENERAL__DATA_DIR": "~/in_variable"}
    assert load_settings(file, Path("/in/argument"), environ).settings.data_dir == Path("/in/argument")
    assert load_settings(file, None, environ).settings.data_dir == tmp_path / "home" / "in_variable"
    assert load_settings(file, None, {}).settings.data_dir == tmp_path / "in_file"
    assert load_settings(environ={}).settings.data_dir == tmp_path / "home" / ".contextinfinity"


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("url", "path", "whole"),
    [
        (None, "ledger.db", "sqlite:///{}/ledger.db"),
        ("sqlite:///work.db", "work.db", "sqlite:///{}/work.db"),
        ("sqlite:////srv/work.db", "/srv/work.db", "sqlite:////srv/work.db"),
        ("postgresql://h/db", None, "postgresql://h/db"),
    ],
)
def test_the_ledger_is_in_data_dir_unless_said_otherwise(
    tmp_path: Path, url: str | None, path: str | None, whole: str
) -> None:
    settings = load(tmp_path, f"[storage]\nurl = '{url}'\n" if url else "").settings
    assert settings.ledger_path == (None if path is None else tmp_path / path)
    assert settings.ledger_url == whole.format(tmp_path)


# --- what is refused, and in which words


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[budget]\nsafety_margin_tokens = "lots"',
            'config.toml:2: budget.safety_margin_tokens is "lots"; it must be an integer from 0 to 1,000,000.',
        ),
        ("[server]\nport = 65536", "config.toml:2: server.port is 65536; it must be an integer from 0 to 65,535."),
        ("[server]\nport = true", "config.toml:2: server.port is true; it must be an integer from 0 to 65,535."),
        ("[server]\nport = 1.0", "config.toml:2: server.port is 1.0; it must be an integer from 0 to 65,535."),
        ("[tools]\nallow_parallel = 1", "config.toml:2: tools.allow_parallel is 1; it must be true or false."),
        (
            "[tools]\nmode = 'on'",
            'config.toml:2: tools.mode is "on"; it must be "disabled", "enabled" or "parse_only".',
        ),
        ("[retrieval]\nrecency_boost = nan", "config.toml:2: retrieval.recency_boost is nan; it must be a number"),
        ("[retrieval]\nrecency_boost = inf", "config.toml:2: retrieval.recency_boost is inf; it must be a number"),
        ("[retrieval]\ntop_k = []", "config.toml:2: retrieval.top_k is an array; it must be an integer"),
        ("[server]\nhost = {a = 1}", "config.toml:2: server.host is a table; it must be a string"),
        (
            "[retention]\ncleanup_interval_hours = 0",
            "config.toml:2: retention.cleanup_interval_hours is 0; it must be a number above 0 and up to 87,600.",
        ),
        (
            "[storage]\nurl = 'mysql://h/db'",
            'config.toml:2: storage.url is "mysql://h/db"; it must be an address that begins with sqlite:/// or',
        ),
        (
            "[storage]\nthreads = 'ledger'\nthreads_shadow = 'ledger'",
            'config.toml:3: storage.threads_shadow is "ledger", and so is storage.threads.',
        ),
        ("[storage]\nthreads_shadow = 'in_process'", 'config.toml:2: storage.threads_shadow is "in_process", and so'),
        (
            "[budget]\nsafty_margin = 1",
            "config.toml:2: budget.safty_margin is not a setting; did you mean budget.safety_margin_tokens?",
        ),
        ("[budget]\ntop_k = 1", "config.toml:2: budget.top_k is not a setting; did you mean retrieval.top_k?"),
        (
            "[memory]\nzzz = 1",
            "config.toml:2: memory.zzz is not a setting; [memory] takes enabled, model, expiry_days, other_branches.",
        ),
        ('[general]\ndata_dir = "a\\u0000b"', 'config.toml:2: general.data_dir is "a\\u0000b"; it must be a path.'),
        (
            "[rewriter]\nzzz = 1",
            "config.toml:2: rewriter.zzz is not a setting; [rewriter] takes model, timeout_seconds, clarification.",
        ),
        ("\n[budgets]\nzzz = 1", "config.toml:2: there is no section [budgets]; did you mean [budget]?"),
        ("[zzz]", "config.toml:1: there is no section [zzz]; there are general, budget, stream,"),
        ("top_k = 1", "config.toml:1: top_k is outside of every section; did you mean retrieval.top_k?"),
        ("zzz = 1", "config.toml:1: zzz is outside of every section; every key belongs to a section."),
        ("budget = 1", "config.toml:1: budget must be a section, written as [budget]."),
        ("models = 1", "config.toml:1: models must be a section, written as [models.NAME]."),
        ("[models]\nx = 1", "config.toml:2: models.x must be a section, written as [models.x]."),
        ("[[models]]\nx = 1", "config.toml:1: models must be a section, written as [models.NAME]."),
        (
            "[models.x]\nmodel_id = 'a'",
            'config.toml:1: models.x has no provider; it must be "anthropic", "gemini", "local", "openai",',
        ),
        ("models.x = {provider = 'ollama'}", 'config.toml:1: models.x.provider is "ollama"; it must be "anthropic"'),
        ("[models.x]\nprovider = 'local'\ncontext_limit = 9", "config.toml:3: models.x.context_limit is 9; it must"),
        ("[models.offline]\nprovider = 'local'", 'config.toml:1: a model cannot be called "offline", which is'),
        ("[models.'a b']\nprovider = 'local'", 'config.toml:1: a model cannot be called "a b"; up to 64 letters'),
        ("[budget\n", "config.toml:1: this is not TOML: Expected ']' at the end of a table declaration at column 8."),
        ("[budget]\nx = '''", "config.toml:2: this is not TOML: Expected \"'''\" at the end of the file."),
        ("x = " + "[" * 9999, "config.toml: this is nested too deeply."),
        ("x = " + "1" * 9999, "config.toml: this is not TOML: Exceeds the limit"),
        ("[server]\nport = 0x" + "f" * 9999, "config.toml:2: server.port is a number of more than 70 digits; it must"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(said)


@pytest.mark.req("CONFIG-1")
def test_all_mistakes_of_a_file_are_named_at_once_from_top_to_bottom(tmp_path: Path) -> None:
    text = "[models.x]\n\n[librarian]\nmodel = 'y'\n\n[server]\nport = 'a'\nhots = 'b'\n"
    lines = problems(tmp_path, text, CONTEXTINFINITY_SERVER__PORT="c")
    assert [line.partition(": ")[0] for line in lines] == [
        "config.toml:1",
        "config.toml:4",
        "config.toml:7",
        "config.toml:8",
        "CONTEXTINFINITY_SERVER__PORT",
    ]


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CONTEXTINFINITY_SERVER__PORT", "x", 'server.port is "x"; it must be an integer from 0 to 65,535.'),
        (
            "CONVERSATION_HISTORY_LIMIT",
            "51",
            'retention.history_limit is "51"; it must be an integer from 1 to 50.',
        ),
        ("CONTEXTINFINITY_SERVER__PROT", "1", "there is no such setting; did you mean CONTEXTINFINITY_SERVER__PORT?"),
        ("CONTEXTINFINITY_SERVER__PROT", "", "there is no such setting; did you mean CONTEXTINFINITY_SERVER__PORT?"),
        ("CONTEXTINFINITY_BUDGET__NOPE", "1", "there is no such setting."),
        ("CONTEXTINFINITY_SERVER_PORT", "1", "there is no such setting; did you mean CONTEXTINFINITY_SERVER__PORT?"),
        ("CONTEXTINFINITY_DATA_DIR", "1", "there is no such setting; did you mean CONTEXTINFINITY_GENERAL__DATA_DIR?"),
        (
            "CONTEXTINFINITY_MODELS__X__PATH",
            "p",
            'models.x has no provider; it must be "anthropic", "gemini", "local",',
        ),
        ("CONTEXTINFINITY_MODELS__OFFLINE__PATH", "p", 'a model cannot be called "offline", which is reserved'),
        (
            "CONTEXTINFINITY_GENERAL__DEFAULT_MODEL",
            "\udcff",
            'general.default_model is "\\udcff"; it must be "built-in",',
        ),
    ],
)
def test_a_variable_that_cannot_be_followed_is_named(tmp_path: Path, name: str, value: str, said: str) -> None:
    (problem,) = problems(tmp_path, **{name: value})
    assert problem.replace("\\\\", "\\").startswith(f"{name}: {said}")


@pytest.mark.req("CONFIG-1")
def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    others = ["CONTEXTINFINITY_BENCH_DATA", "CONTEXTINFINITY_SERVICE_HOST", "CONTEXTINFINITY_PORT", "SERVER__PORT"]
    assert load(tmp_path, **dict.fromkeys(others, "tcp://10.0.0.1:1")).settings.server.port == 8765


@pytest.mark.req("CONFIG-1")
def test_a_variable_that_could_mean_two_models_is_refused(tmp_path: Path) -> None:
    text = "[models.a-b]\nprovider = 'local'\n[models.a_b]\nprovider = 'local'\n"
    (problem,) = problems(tmp_path, text, CONTEXTINFINITY_MODELS__A_B__MODEL_ID="x")
    assert problem.endswith("this could mean any of the models a-b, a_b; set it in the file.")


@pytest.mark.req("CONFIG-2")
@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ("compaction", "detector_model", ("auto", "offline")),
        ("librarian", "model", ("auto", "offline")),
        ("rewriter", "model", ("auto", "offline")),
        ("memory", "model", ("auto", "offline")),
        ("general", "default_model", ("built-in",)),
    ],
)
def test_a_model_must_be_one_that_exists(tmp_path: Path, section: str, key: str, words: tuple[str, ...]) -> None:
    def text(name: str) -> str:
        return f"[models.small]\nprovider = 'local'\n[{section}]\n{key} = '{name}'\n"

    for name in (*words, "small"):
        loaded = load(tmp_path, text(name))
        assert getattr(getattr(loaded.settings, section), key) == name
    allowed = ", ".join(f'"{word}"' for word in words)
    assert problems(tmp_path, text("samll")) == [
        f'config.toml:4: {section}.{key} is "samll"; it must be {allowed} or "small", or a [models.NAME] that you add.'
    ]


@pytest.mark.req("CONFIG-2")
@pytest.mark.parametrize("key", ["compaction.detector_model", "librarian.model", "rewriter.model", "memory.model"])
def test_the_built_in_model_neither_summarises_nor_remembers_nor_rewrites(tmp_path: Path, key: str) -> None:
    (problem,) = problems(tmp_path, f"{key} = 'built-in'")
    assert problem == (
        f'config.toml:1: {key} is "built-in"; it must be "auto" or "offline", or a [models.NAME] that you add.'
    )


@pytest.mark.req("CONFIG-1", "SAFE-1")
@pytest.mark.parametrize(
    "text",
    [
        "[models.x]\nprovider = 'openai'\napi_key = 'sk-secret'",
        "[openai]\nOPENAI-API-KEY = 'sk-secret'",
        "[models]\napi_key = 'sk-secret'",
        "api_key = 'sk-secret'",
        "openai = 'sk-secret'",
        "[models.x]\nprovider = 'openai'\napi_key_env = 'sk-secret'",
        "[storage]\nurl = 'mysql://me:sk-secret@h/db'",
        "[storage]\nredis_url = 'x://:sk-secret@h'",
        "[models.x]\nprovider = 'openai'\napi_key = 'sk-secret",
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_repeated(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert "secret" not in problem


@pytest.mark.req("CONFIG-1", "SAFE-1")
@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("[models.x]\nprovider = 'openai'\napi_key = 'sk'", {}, "config.toml:3: models.x.api_key is refused"),
        ("[openai]\nAPI-KEY = 'sk'", {}, "config.toml:2: openai.API-KEY is refused"),
        ("[models]\napi_key = 'sk'", {}, "config.toml:2: models.api_key is refused"),
        ("api_key = 'sk'", {}, "config.toml:1: api_key is refused"),
        ("", {"CONTEXTINFINITY_OPENAI__API_KEY": "sk"}, "CONTEXTINFINITY_OPENAI__API_KEY: this is refused"),
    ],
)
def test_a_key_in_the_settings_is_answered_with_the_right_way(
    tmp_path: Path, text: str, environ: dict[str, str], said: str
) -> None:
    way = "keys are not allowed in the settings; name the environment variable that holds it with api_key_env."
    assert problems(tmp_path, text, **environ) == [f"{said}: {way}"]


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{}@h/db",
        "postgresql://me:x@y:{}/@h/db",
        "redis://:{}@h",
        "postgresql://h/db?user=me&password={}&x=1",
        "postgresql://h/db?sslpassword={}",
    ],
)
def test_the_password_of_an_address_is_masked(url: str) -> None:
    assert "secret" not in masked(url.format("secret"))
    assert "***" in masked(url.format("secret"))


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize("url", ["redis://localhost:6379/0", "postgresql://me@h:5432/db?sslmode=require"])
def test_an_address_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert masked(url) == url


# --- files that are no good


@pytest.mark.req("CONFIG-1")
def test_a_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(SettingsError, match=r"There is no file .*missing\.toml\. It was named by --config\."):
        load_settings(config=missing, environ={})
    with pytest.raises(SettingsError, match=r"It was named by CONTEXTINFINITY_CONFIG\."):
        load_settings(environ={"CONTEXTINFINITY_CONFIG": str(missing)})


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize("named", ["folder", "file/config.toml", "nul\0"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, named: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"cannot be read: .+\."):
        load_settings(config=tmp_path / named, environ={})


@pytest.mark.req("CONFIG-1")
def test_an_unknown_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="~nobody-of-this-name/x means is unknown"):
        load_settings(data_dir=Path("~nobody-of-this-name/x"), environ={})
    (problem,) = problems(tmp_path, "[general]\ndata_dir = '~nobody-of-this-name'")
    assert problem.startswith('config.toml:2: general.data_dir is "~nobody-of-this-name"; it must be a path')


@pytest.mark.req("CONFIG-1")
def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"[server]\nhost = 'caf\xe9'\n")
    with pytest.raises(SettingsError, match=r"config\.toml:2: this is not UTF-8 text\. Save the file as UTF-8\."):
        load_settings(data_dir=tmp_path, environ={})


@pytest.mark.req("CONFIG-1")
def test_the_mark_that_windows_editors_write_is_passed_over(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeff[server]\r\nport = 1\r\n").settings.server.port == 1


KNOWN = [f"{section}.{key.name}" for section, keys in sections().items() for key in keys]
KNOWN += [f"models.m.{key.name}" for key in model_keys()]
SCALARS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.text().map(json.dumps),
    st.sampled_from(["true", "[]", "{}", "1979-05-27", "[{a = 1}]", "'local'", "'sqlite:///~x'", "'~'", "'redis://'"]),
)


@pytest.mark.req("CONFIG-1")
@given(st.lists(st.tuples(st.sampled_from(KNOWN), SCALARS), unique_by=lambda entry: entry[0], max_size=8))
def test_no_value_of_any_key_leads_to_anything_but_settings_or_a_settings_error(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str]]
) -> None:
    _never_breaks(tmp_path_factory, "\n".join(f"{key} = {value}" for key, value in entries).encode("utf-8", "replace"))


@pytest.mark.req("CONFIG-1")
@given(st.one_of(st.binary(), st.text(alphabet="[]{}.=\"'#\n ab1-modelsrvp").map(str.encode)))
def test_no_file_leads_to_anything_but_settings_or_a_settings_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    _never_breaks(tmp_path_factory, content)


def _never_breaks(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / f"random-{os.getpid()}.toml"
    file.write_bytes(content)
    with suppress(SettingsError):
        loaded = load_settings(config=file, environ={})
        assert all(source for _, _, source in loaded.effective())


# --- the manual


@pytest.mark.req("CONFIG-1")
def test_the_page_of_the_manual_is_what_the_declarations_say() -> None:
    page = ROOT / "docs" / "reference" / "configuration.md"
    remedy = "run: python -m tests.house.pages"
    assert page.read_text(encoding="utf-8") == reference(), remedy
