"""Moments as other programs write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contextinfinity.exchange.conversation_builder import moment_of

MOMENT = datetime(2023, 5, 8, 13, 56, 0, 500000, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2023-05-08T13:56:00.500Z",
        "2023-05-08T15:56:00.500+02:00",
        "2023-05-08 13:56:00.5",
        1683554160.5,
        1683554160500,
        1683554160500000,
        1683554160500000000,
        "1683554160.5",
        " 1683554160500 ",
    ],
)
def test_every_way_of_writing_a_moment_is_read(value: object) -> None:
    assert moment_of(value) == MOMENT


def test_eight_digits_are_a_day_in_a_text_and_seconds_as_a_number() -> None:
    assert moment_of("20230508") == datetime(2023, 5, 8, tzinfo=UTC)
    assert moment_of(20230508) == datetime(1970, 8, 23, 3, 35, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "value", [None, True, "", "yesterday", [], {}, float("1e300"), 10**400, "nan", "inf", "0001-01-01T00:00:00+14:00"]
)
def test_what_is_no_moment_is_none(value: object) -> None:
    assert moment_of(value) is None
