"""The vendors' own SDKs for JavaScript, where node is there: told nothing but the address."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1"), pytest.mark.timeout(300)]
wires = pytest.mark.parametrize("model", WIRES)

HERE = Path(__file__).parent / "node"
OLDEST = 20


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the SDKs in it, which all checkouts of one machine share."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", version)[0]) < OLDEST:
        pytest.skip(f"node is {version.strip()}; the SDKs need {OLDEST}")
    wanted = (HERE / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = cache / "contextinfinity" / f"node-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as made:  # whole or not at all: who is stopped leaves half of it
            install(Path(made), wanted)
            with suppress(OSError):  # somebody was quicker
                (Path(made) / "sdks").rename(folder)
    return folder


def install(place: Path, wanted: bytes) -> None:
    """Fetch the SDKs into ``sdks`` below a folder; without a registry in reach there is nothing to try."""
    folder = place / "sdks"
    folder.mkdir()
    (folder / "package.json").write_bytes(wanted)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=150)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm could not install the SDKs: {error.stderr.strip()[-300:]}")
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not install the SDKs within 150 seconds")


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
    """Tell the vendors what the steps of both scripts need."""
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
