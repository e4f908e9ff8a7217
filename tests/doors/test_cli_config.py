"""The command line as a person meets it: the real command, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.forked import run


def cix(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return run(*arguments, environ=environ)


@pytest.mark.req("CONFIG-1", "CLI-1")
def test_config_shows_every_value_and_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[models.'gpt-5.2']\nprovider = 'openai'\n[server]\nport = 1\n")
    done = cix("config", "--data-dir", str(tmp_path), CONTEXTINFINITY_SERVER__HOST="::1")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["file:", f'"{tmp_path / "config.toml"}"']
    assert ["[server]"] in rows
    assert ["host", '"::1"', "CONTEXTINFINITY_SERVER__HOST"] in rows
    assert ["port", "1", "config.toml:4"] in rows
    assert ["top_k", "6", "default"] in rows
    assert ['[models."gpt-5.2"]'] in rows
    assert ["data_dir", f'"{tmp_path}"', "--data-dir"] in rows


@pytest.mark.req("CONFIG-1", "CLI-1", "SAFE-1")
def test_config_as_json_has_the_agreed_shape_and_no_password(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[storage]\nurl = 'postgresql://me:secret@h/db'\nredis_url = 'redis://:secret@h'\n")
    done = cix("config", "--json", "--config", str(file), "--data-dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "secret" not in done.stdout
    shape = json.loads(done.stdout)
    assert shape.keys() == {"data_dir", "file", "values"}
    assert (shape["data_dir"], shape["file"]) == (str(tmp_path), str(file))
    assert shape["values"]["storage.url"] == {"value": "postgresql://me:***@h/db", "source": "mine.toml:2"}
    assert shape["values"]["storage.redis_url"] == {"value": "redis://:***@h", "source": "mine.toml:3"}
    assert shape["values"]["budget.safety_margin_tokens"] == {"value": 1500, "source": "default"}


@pytest.mark.req("CONFIG-1", "CLI-1")
def test_rules_of_the_router_are_shown_to_people_and_programs(tmp_path: Path) -> None:
    rule = "[[router.rules]]\nmodel = 'built-in'\nintent = 'small_talk'\n"
    (tmp_path / "config.toml").write_text(rule)
    assert "config.toml:1" in cix("config", "--data-dir", str(tmp_path)).stdout
    shape = json.loads(cix("config", "--json", "--data-dir", str(tmp_path)).stdout)
    assert shape["values"]["router.rules"]["value"] == [{"model": "built-in", "intent": "small_talk"}]


@pytest.mark.req("CLI-1", "SAFE-1")
def test_the_table_has_no_password_either(tmp_path: Path) -> None:
    done = cix(
        "config",
        "--data-dir",
        str(tmp_path),
        CONTEXTINFINITY_STORAGE__URL="postgresql://me:secret@h/db?password=secret",
    )
    assert done.returncode == 0
    assert '"postgresql://me:***@h/db?password=***"' in done.stdout


@pytest.mark.req("CONFIG-1", "CLI-1")
def test_a_file_with_mistakes_ends_with_1_and_all_of_them_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[server]\nport = 'a'\nhots = 'b'\n")
    done = cix("config", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f'{file}:2: server.port is "a"; it must be an integer from 0 to 65,535.',
        f"{file}:3: server.hots is not a setting; did you mean server.host?",
    ]


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize("arguments", [["nonsense"], ["config", "--nonsense"], ["config", "--data-dir"]])
def test_wrong_usage_ends_with_2_and_a_message(arguments: list[str]) -> None:
    done = cix(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.req("CLI-1")
def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    done = cix("--help")
    assert done.returncode == 0
    assert ["config", "Show", "every", "setting,"] in [line.split()[:4] for line in done.stdout.splitlines()]
    # What takes long to load is the cause of a slow --help; a clock would depend on the machine.
    command = [sys.executable, "-X", "importtime", "-m", "contextinfinity", "--help"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "contextinfinity.cli.main" in loaded
    for heavy in ("rich", "msgspec", "apsw", "contextinfinity.settings"):
        assert f" {heavy}\n" not in loaded


@pytest.mark.req("CLI-1")
def test_the_version_is_the_one_of_the_package() -> None:
    from contextinfinity import __version__

    assert cix("--version").stdout == f"cix {__version__}\n"
