"""Half characters are found and named wherever they stand in a JSON document."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.domain.wire import LOOKED_AT, lone_surrogate_in


@pytest.mark.req("API-3")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (rb'{"a": "x\ud83d y"}', "byte 8 (U+D83D,"),
        (rb'"\uDE00"', "byte 1 (U+DE00,"),
        (rb'"\ud83d\ude00\ud83d\ud83d\ude00"', "byte 13 (U+D83D,"),
        (rb'"\ud83dx\ude00"', "byte 1 (U+D83D,"),
        (rb'"\ud83d\n"', "byte 1 (U+D83D,"),
        (b'"ab\xed\xa0\xbd"', "byte 3 (U+D83D,"),
        (rb'"\\ud83d"', None),
        (rb'"\ud83d\ude00 \u00e9"', None),
        (b'"\xf0\x9f\x98\x80"', None),
    ],
)
def test_a_lone_surrogate_is_named_by_place_and_code(body: bytes, named: str | None) -> None:
    found = lone_surrogate_in(body)
    assert found is None if named is None else (found is not None and named in found)


def test_a_pair_at_the_end_of_what_is_searched_is_not_taken_for_half() -> None:
    for shift in range(14):
        body = b'"' + b"x" * (LOOKED_AT - shift) + rb'\ud83d\ude00"'
        assert lone_surrogate_in(body) is None, shift


@given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\u0041", "x", r"\\", "\\n"]), max_size=8).map("".join))
def test_a_document_has_one_exactly_where_it_cannot_be_read(text: str) -> None:
    body = f'"{text}"'.encode()
    try:
        msgspec.json.decode(body)
        can_be_read = True
    except msgspec.DecodeError:
        can_be_read = False
    assert (lone_surrogate_in(body) is None) is can_be_read
