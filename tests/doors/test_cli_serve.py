"""``cix serve`` as people and programs see its log."""

from __future__ import annotations

import json
import re

import httpx2
import pytest

from tests.doors.cix import Cix
from tests.doors.terminal import CTRL_C, Terminal

pytestmark = pytest.mark.req("CLI-1")


@pytest.mark.parametrize(("arguments", "is_json"), [([], False), (["--log", "json"], True)])
def test_a_terminal_gets_lines_for_people_and_json_when_asked(cix: Cix, arguments: list[str], is_json: bool) -> None:
    with Terminal(cix.folder, "serve", "--port", "0", *arguments, columns=500) as server:
        server.until("Ctrl-C ends it.")
        (url,) = re.findall(r"http://[\d.:]+", server.text())
        thread = httpx2.post(
            f"{url}/threads/new/messages", json={"content": "Hi"}, trust_env=False, verify=False
        ).json()["thread_id"]
        server.until("POST /threads/{thread_id}/messages 200")
        line = next(line for line in server.text().splitlines() if "messages 200" in line)
        if is_json:
            assert json.loads(line)["thread_id"] == thread
        else:
            assert re.fullmatch(
                rf"\d\d:\d\d:\d\d POST /threads/{{thread_id}}/messages 200, \d+ ms, thread {thread}, turn 1", line
            )
        server.type(CTRL_C)
        assert server.end() == 0


def test_a_program_gets_text_when_it_asks_for_it_and_a_wrong_format_is_refused(cix: Cix) -> None:
    with cix.start("serve", "--port", "0", "--log", "text", piped=False) as server:
        url = re.findall(r"http://[\d.:]+", server.told("ends it.\n"))[0]
        assert httpx2.get(f"{url}/healthz", trust_env=False, verify=False).status_code == 200
        assert re.search(r"^\d\d:\d\d:\d\d GET /healthz 200, \d+ ms\n$", server.told("ms\n"))
    done = cix("serve", "--log", "xml")
    assert (done.exit_code, done.stderr) == (2, "--log is 'xml'; it may be json or text.\n")
