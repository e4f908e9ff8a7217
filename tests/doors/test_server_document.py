"""The OpenAPI document is what the server does, and the page of the manual is what the document says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from contextinfinity.server.app import make_app
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from tests.cases import each
from tests.doors.server import Server
from tests.house.repository import ROOT
from tests.house.route_page import reference
from tests.sizes import sized

DOCUMENT = make_app(Settings(), open_client).openapi()
OPERATIONS = sum(len(DOCUMENT["paths"][path]) for path in DOCUMENT["paths"] if path != "/compactions")  # has no end


@pytest.mark.timeout(sized(600, 0))  # thousands of requests, on a machine that may be busy
def test_whatever_is_sent_the_answer_is_one_that_the_document_names(server: Server) -> None:
    plugin = ("-p", "schemathesis.pytest.plugin", "-p", "no:cacheprovider", "--timeout", "0")
    command = [sys.executable, "-m", "pytest", *plugin, "-q", "tests/doors/invented_requests.py"]
    environment = os.environ | {"SERVER_URL": server.url}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{OPERATIONS} passed" in done.stdout, done.stdout


def test_the_page_of_the_manual_is_what_the_document_says() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m tests.house.pages"


def test_the_document_is_served(server: Server) -> None:
    assert server.http.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))


@each("path", DOCUMENT["paths"])
def test_every_route_says_what_it_does_and_what_it_answers(path: str) -> None:
    for operation in DOCUMENT["paths"][path].values():
        assert operation["description"].endswith(".")
        assert all(one["description"] for one in operation["responses"].values())
