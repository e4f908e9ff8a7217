"""Invented requests for every route of the server at ``SERVER_URL``; ``test_server_document.py`` runs them.

Pytest does not collect this module by its name: importing Schemathesis and inventing the requests takes three seconds
of CPU, which every worker would spend.
"""

from __future__ import annotations

import os
from typing import Any

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
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from tests.sizes import sized

EXAMPLES = sized(2, 300)
"""How many requests are made up for each route."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
document = make_app(Settings(), open_client).openapi()
schema = schemathesis.openapi.from_dict(document).exclude(path="/compactions")  # it has no end


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_the_answer_is_one_that_the_document_names(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(base_url=os.environ["SERVER_URL"], checks=CHECKS)
