"""Places in a list, written down."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import timedelta
from urllib.parse import quote

import pytest

from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.domain.ids import Position, new_id, now
from contextinfinity.errors import InvalidInput

AN_ID = "01a1e2e5-10b5-7000-ad4f-aea68a13e3c6"


@pytest.mark.parametrize("past", [timedelta(), timedelta(milliseconds=1), timedelta(days=365 * 80)])
def test_a_place_reads_back_as_it_was_written(past: timedelta) -> None:
    position = Position(now() - past, new_id())
    assert position_of(cursor_of(position)) == position


def test_a_cursor_stands_in_an_address_as_it_is() -> None:
    cursors = [cursor_of(Position(now(), new_id())) for _ in range(100)]
    assert [quote(cursor, safe="") for cursor in cursors] == cursors


@pytest.mark.parametrize(
    "text",
    ["", "x", "é" * 32, "\x00" * 32, "A" * 31, "A" * 36, AN_ID, "+" * 32, urlsafe_b64encode(b"\x7f" * 24).decode()],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        position_of(text)
