from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.errors import ProviderError
from contextinfinity.providers.transport import SseDecoder, events

STREAM = (
    ": hello\n"
    'event: message_start\ndata: {"a": 1}\n\n'
    "event: ping\n\n"  # no data: no event
    "data: first\ndata:second\ndata\n\n"
    "id: 7\nretry: 10\nevent: x\ndata: grüße 🙂 \n\n"
    "data: [DONE]\n\n"
)
EXPECTED = [
    ("message_start", '{"a": 1}'),
    ("", "first\nsecond\n"),
    ("x", "grüße 🙂 "),
    ("", "[DONE]"),
]


def decode(*chunks: bytes) -> list[tuple[str, str]]:
    decoder = SseDecoder()
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    return found + decoder.close()


@pytest.mark.req("PROVIDER-2")
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_any_line_end_is_read_wherever_the_stream_is_cut(end: str) -> None:
    stream = STREAM.replace("\n", end).encode()
    assert decode(stream) == EXPECTED
    assert decode(*(bytes([byte]) for byte in stream)) == EXPECTED
    for cut in range(len(stream)):
        assert decode(stream[:cut], stream[cut:]) == EXPECTED


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM.encode()))), st.sampled_from(["\n", "\r", "\r\n"]))
def test_any_number_of_cuts_changes_nothing(cuts: list[int], end: str) -> None:
    stream = STREAM.replace("\n", end).encode()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert decode(*(stream[a:b] for a, b in pairwise(places))) == EXPECTED


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    decode(*chunks)


def test_an_event_comes_as_soon_as_it_is_complete() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: one\n") == []
    assert decoder.feed(b"\n") == [("", "one")]
    assert decoder.feed(b"data: two\r\n\r") == [("", "two")]
    assert decoder.feed(b"\ndata: three\r\n\r\n") == [("", "three")]


def test_a_byte_order_mark_is_passed_over_also_in_pieces() -> None:
    assert decode(b"\xef", b"\xbb", b"\xbfdata: x\n\n") == [("", "x")]


def test_a_stream_may_end_without_a_blank_line() -> None:
    assert decode(b"data: a\n\nevent: last\ndata: b") == [("", "a"), ("last", "b")]
    assert decode(b"data: a\n") == [("", "a")]
    assert decode(b"event: nothing") == []


def test_an_event_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    for endless in (b"x" * 40, b"data: x\n" * 5, b"data\n" * 8):
        decoder = SseDecoder(longest=100)
        with pytest.raises(ProviderError) as caught:
            list(map(decoder.feed, [endless] * 10))
        assert caught.value.kind == "garbled"


def test_many_short_events_in_one_piece_are_no_long_event() -> None:
    assert len(SseDecoder(longest=100).feed(b"data: x\n\n" * 1000)) == 1000


async def test_events_come_from_pieces_as_they_arrive() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        stream = STREAM.encode()
        for at in range(0, len(stream), 7):
            yield stream[at : at + 7]
        yield b"data: tail"

    assert [event async for event in events(chunks())] == [*EXPECTED, ("", "tail")]


async def test_who_sent_something_unreadable_is_named() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1_000_000

    with pytest.raises(ProviderError, match=r"^acme: ") as caught:
        [event async for event in events(endless(), vendor="acme")]
    assert caught.value.kind == "garbled"
