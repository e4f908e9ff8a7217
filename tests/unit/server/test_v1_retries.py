"""How long ago a vendor's client may have sent the same request: so long, and no longer, is it a retry."""

from __future__ import annotations

import math

import pytest
from starlette.datastructures import Headers

from contextinfinity.server.v1.asking import MOST_WAITED, PAUSES, WAITS, tried_within

pytestmark = pytest.mark.req("API-7")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"x-stainless-retry-count": "0", "x-stainless-read-timeout": "600"}, 0),
        ({"x-stainless-retry-count": "1"}, WAITS + PAUSES),
        ({"x-stainless-retry-count": "1", "x-stainless-read-timeout": "20.0"}, 20 + PAUSES),
        ({"x-stainless-retry-count": "2", "X-Stainless-Timeout": "30"}, 2 * (30 + PAUSES)),
        ({"x-stainless-retry-count": "1", "x-stainless-read-timeout": "None"}, WAITS + PAUSES),
        ({"x-stainless-retry-count": "1", "x-stainless-read-timeout": "nan"}, WAITS + PAUSES),
        ({"x-stainless-retry-count": "1", "x-stainless-read-timeout": "-5"}, WAITS + PAUSES),
        ({"x-stainless-retry-count": "9" * 5000}, MOST_WAITED),
        ({"x-stainless-retry-count": "1", "x-stainless-read-timeout": "1e300"}, MOST_WAITED),
        ({"x-stainless-retry-count": "once"}, 0),
        ({"x-stainless-retry-count": "-1"}, 0),
        ({"Idempotency-Key": "mine"}, math.inf),
    ],
)
def test_a_retry_is_one_for_as_long_as_its_sdk_tries(headers: dict[str, str], seconds: float) -> None:
    assert tried_within(Headers(headers)) == seconds
