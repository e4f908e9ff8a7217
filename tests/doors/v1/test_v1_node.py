"""The vendors' own SDKs for JavaScript, where node is there: told nothing but the address."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.npm import installed
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1"), pytest.mark.timeout(300)]
wires = pytest.mark.parametrize("model", WIRES)

HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the SDKs in it."""
    return installed((HERE / "package.json").read_bytes())


def run(folder: Path, script: str, *arguments: str) -> dict[str, Any]:
    """Run a script beside the SDKs and read what it tells."""
    shutil.copy(HERE / script, folder / script)
    done = subprocess.run(
        ["node", script, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def scripted(desk: Desk) -> None:
    """Script the vendors with the answers that the steps of both scripts need."""
    call = Answer(tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),))
    desk.say("Noted.", "It is gull, as you said.", call, "It rains in Bonn.", '{"name": "Bonn", "people": 330000}')


def check(desk: Desk, told: dict[str, Any]) -> None:
    """See that every step came out as it should."""
    assert (told["whole"], told["streamed"]) == ("Noted.", "It is gull, as you said.")
    assert (told["pieces"] > 1, told["usage"]) == (True, True)
    assert told["tool"] == "It rains in Bonn."
    assert told["parsed"] == {"name": "Bonn", "people": 330000}
    assert {"auto", *WIRES} <= set(told["models"])
    assert len(desk.kept(told["thread"])) == 2


@wires
def test_openais_sdk_for_javascript(desk: Desk, node: Path, model: str) -> None:
    scripted(desk)
    told = run(node, "openai.mjs", desk.openai_url, model, somebody())
    check(desk, told)
    assert told["error"] == ["NotFoundError", 404, "not_found"]


@wires
def test_anthropics_sdk_for_javascript(desk: Desk, node: Path, model: str) -> None:
    scripted(desk)
    told = run(node, "anthropic.mjs", desk.anthropic_url, model, somebody())
    check(desk, told)
    assert told["error"] == ["NotFoundError", 404, "not_found_error"]
    assert told["counted"]


@wires
@pytest.mark.req("API-16")
def test_responses_in_javascript_and_the_default_model_of_the_ai_sdk(desk: Desk, node: Path, model: str) -> None:
    call = Answer(reasoning="Bonn.", tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),))
    town = '{"name": "Bonn", "people": 330000}'
    desk.say("Noted.", "It is gull.", town, call, "It rains in Bonn.", "There too.", town)
    told = run(node, "responses.mjs", desk.openai_url, model)
    assert (told["whole"], told["streamed"], told["retrieved"]) == ("Noted.", "It is gull.", "Noted.")
    assert (told["kinds"][0], told["kinds"][-1]) == ("response.created", "response.completed")
    assert told["parsed"] == told["object"] == {"name": "Bonn", "people": 330000}
    assert told["error"] == ["NotFoundError", 404, "not_found"]
    assert (told["tool"], told["following"]) == ("It rains in Bonn.", "There too.")
    assert "rain in Bonn" in json.dumps([request.body for request in desk.vendors.requests[-2:]])
