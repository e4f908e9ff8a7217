"""Codex, told nothing but the address: a tool loop, reasoning, and a session that is gone on with.

Its package is large, so this runs in ``make proof`` and ``make clients``.
"""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.npm import installed
from tests.doors.v1.upstream import WIRES, Desk

pytestmark = [pytest.mark.req("API-16"), pytest.mark.proof, pytest.mark.xdist_group("v1"), pytest.mark.timeout(600)]

PACKAGE = json.dumps({"private": True, "dependencies": {"@openai/codex": "0.166.0"}}).encode()
CONFIG = """
model = "{model}"
model_provider = "cix"
[model_providers.cix]
name = "cix"
base_url = "{url}"
wire_api = "responses"
"""


@pytest.fixture(scope="session")
def codex() -> Path:
    return installed(PACKAGE) / "node_modules" / ".bin" / "codex"


@pytest.mark.parametrize("model", WIRES)
def test_codex_runs_a_tool_and_goes_on_with_its_session(desk: Desk, codex: Path, model: str, tmp_path: Path) -> None:
    call = Call(name="exec_command", arguments={"cmd": "echo heron"})
    desk.say(
        Answer(text="Let me look.", reasoning="I run echo.", tool_calls=(call,)), "It says heron.", "You saw heron."
    )
    (tmp_path / "config.toml").write_text(CONFIG.format(model=model, url=desk.openai_url), encoding="utf-8")
    before = len(desk.vendors.requests)

    def run(*arguments: str) -> list[str]:
        command = [str(codex), "exec", "--skip-git-repo-check", "--json", "-s", "danger-full-access", *arguments]
        environment = {**os.environ, "CODEX_HOME": str(tmp_path)}
        given: Any = {"cwd": tmp_path, "env": environment, "stdin": subprocess.DEVNULL, "timeout": 180}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
        assert done.returncode == 0, done.stdout + done.stderr
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [one["item"]["text"] for one in told if one.get("item", {}).get("type") == "agent_message"]

    assert run(f"Run echo heron with {model}") == ["Let me look.", "It says heron."]
    assert run("resume", "--last", "What did you see?")[-1] == "You saw heron."
    requests = [request.body for request in desk.vendors.requests[before:]]
    assert len(requests) == 3
    assert all(f"Run echo heron with {model}" in json.dumps(body) for body in requests)
    said = [body.get("input") or body["messages"] for body in requests]
    for earlier, later in pairwise(said):
        repeated = [one for one, _ in takewhile(lambda both: both[0] == both[1], zip(earlier, later, strict=False))]
        assert repeated == earlier
    threads = desk.server.http.get("/threads").json()["threads"]
    assert [thread["turns"] for thread in threads if f"with {model}" in thread["opening"]] == [3]
