"""The OpenAPI document is what the server does, and the page of the manual is what the document says."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from contextinfinity.server.app import make_app
from contextinfinity.server.http_reference import reference
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from tests.doors.server import Server
from tests.house.repository import ROOT
from tests.sizes import sized

EXAMPLES = sized(5, 300)
"""How many requests are made up for each route."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DOCUMENT = make_app(Settings(), open_client).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path="/compactions")  # it has no end


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_the_answer_is_one_that_the_document_names(
    case: schemathesis.Case[Any], server: Server
) -> None:
    case.call_and_validate(base_url=server.url, checks=CHECKS)


def test_the_page_of_the_manual_is_what_the_document_says() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m contextinfinity.server.http_reference > docs/reference/http.md"


def test_the_document_is_served(server: Server) -> None:
    assert server.http.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_every_route_says_what_it_does_and_what_it_answers(path: str) -> None:
    for operation in DOCUMENT["paths"][path].values():
        assert operation["description"].endswith(".")
        assert all(one["description"] for one in operation["responses"].values())
