"""Whatever a text holds: looking for times never fails, gives real spans, and is soon done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from time import thread_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contextinfinity.retrieval.date_patterns import NUMBERS, ORDINALS, PARTS, SETS, THIRDS
from contextinfinity.retrieval.dates import LONGEST, MOST, WAKING, dates_mentioned, nearness, spans_in
from tests.cases import each
from tests.sizes import sized

_OTHERS = {"ago", "the", "to", "and", "il", "y", "vor", "hace", "May", "Sun", "eve", "s", "week", "avant", "l", "a"}
_WORDS = sorted(WAKING.union(NUMBERS, ORDINALS, PARTS, THIRDS, *SETS.values(), _OTHERS))
_NUMBERS = [
    "7",
    "7th",
    "31",
    "0",
    "00",
    "99",
    "2023",
    "1900",
    "2099",
    "2023-05-07",
    "5/7/2023",
    "7.5.23",
    "9999",
    "3-8",
]
pieces = st.sampled_from(_WORDS) | st.sampled_from(_NUMBERS) | st.integers(0, 10**7).map(str) | st.text(max_size=4)
marks = st.sampled_from([" ", " ", " ", ", ", "-", "'", ". ", "\n", "\n\n", "/", ""])
texts = st.lists(st.tuples(pieces, marks), max_size=14).map(lambda parts: "".join(a + b for a, b in parts)) | st.text()
zones = st.sampled_from([UTC, None, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
moments = st.datetimes(timezones=zones) | st.sampled_from([datetime.min, datetime.max])


@pytest.mark.req("RETRIEVE-5")
@given(texts, moments)
@example("fri dernier", datetime(2023, 6, 14, tzinfo=UTC))
@settings(max_examples=sized(150, 3_000))
def test_any_text_at_any_time_gives_spans_that_begin_before_they_end(text: str, asked_at: datetime) -> None:
    found = spans_in(text, asked_at)
    assert found == spans_in(text, asked_at)
    assert len(found) <= 2 * MOST
    for span in found:
        assert span.start < span.end
        assert span.start.tzinfo is asked_at.tzinfo
        assert 0 < span.certainty <= 1
        assert span.words
        assert span.words in text
        assert nearness(span, span.start) == 1
        assert 0 <= nearness(span, asked_at) <= 1


@given(texts, moments)
@settings(max_examples=sized(80, 1_500))
def test_a_message_that_is_passed_over_names_no_time(text: str, said_at: datetime) -> None:
    assert dates_mentioned(text, said_at) == spans_in(text, said_at)


@each(
    "part",
    [
        "a ",
        "1",
        "1-",
        "may ",
        "the week before ",
        "un unos ",
        "this last ",
        "7. ",
        "2023-",
        "x",
        " ",
        "from May to ",
        "it ",
    ],
)
def test_a_text_of_megabytes_takes_no_longer_than_its_ends(part: str) -> None:
    asked_at = datetime(2023, 6, 14, tzinfo=UTC)

    def seconds(size: int) -> float:
        text = part * (size // len(part))
        began = thread_time()
        dates_mentioned(text, asked_at)
        return thread_time() - began

    small = max(min(seconds(LONGEST // 10) for _ in range(2)), 0.002)
    assert seconds(2_000_000) < 40 * small
