"""Ids sort by the time they were made, whatever the clock does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from contextinfinity.domain.ids import from_millis, is_id, new_id, now, time_of, to_millis


def ahead_of_every_id() -> int:
    """A moment in nanoseconds later than any id this process made, however fast it made them."""
    return (to_millis(time_of(new_id())) + 1_000) * 1_000_000


@pytest.mark.req("LEDGER-1")
def test_an_id_is_a_uuid_of_version_seven() -> None:
    made = UUID(new_id())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")


@pytest.mark.req("LEDGER-1")
def test_an_id_carries_the_millisecond_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = ahead_of_every_id() + 123_456
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: moment)
        made = new_id()
    assert UUID(made).int >> 80 == moment // 1_000_000
    assert time_of(made) == from_millis(moment // 1_000_000)


@pytest.mark.req("LEDGER-1")
def test_ids_strictly_increase_across_threads() -> None:
    threads, each = 4, 25_000
    with ThreadPoolExecutor(threads) as pool:
        made = list(pool.map(lambda _: [new_id() for _ in range(each)], range(threads)))
    for own in made:
        assert all(earlier < later for earlier, later in pairwise(own))
    assert len({name for own in made for name in own}) == threads * each


@pytest.mark.req("LEDGER-1")
def test_ids_increase_while_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = ahead_of_every_id()
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: moment)
        made = [new_id() for _ in range(10_000)]  # more than the 4,096 that fit into one millisecond
    assert all(earlier < later for earlier, later in pairwise(made))
    assert {UUID(name).version for name in made} == {7}
    assert {UUID(name).variant for name in made} == {"specified in RFC 4122"}


@pytest.mark.req("LEDGER-1")
def test_ids_increase_when_the_clock_jumps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = ahead_of_every_id()
    hour = 3_600 * 1_000_000_000
    jumps: Iterator[int] = iter([moment, moment - hour, moment - 24 * hour, moment + 1_000_000, moment - hour, 0])
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: next(jumps))
        made = [new_id() for _ in range(6)]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert all(earlier < later for earlier, later in pairwise([*made, new_id()]))


def test_ids_of_the_same_moment_differ_in_their_random_part() -> None:
    tails = {new_id()[-12:] for _ in range(1_000)}
    assert len(tails) == 1_000


@pytest.mark.parametrize(
    "text", [new_id(), str(uuid4()), "00000000-0000-0000-0000-000000000000"], ids=["ours", "random", "nil"]
)
def test_a_canonical_uuid_of_any_version_is_an_id(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "thread-1",
        "0192F0C1-2345-7ABC-8DEF-0123456789AB",
        "0192f0c123457abc8def0123456789ab",
        "{0192f0c1-2345-7abc-8def-0123456789ab}",
        "urn:uuid:0192f0c1-2345-7abc-8def-0123456789ab",
        " 0192f0c1-2345-7abc-8def-0123456789ab",
        "0192f0c1-2345-7abc-8def-0123456789ab\n",
        "0192f0c1-2345-7abc-8def-0123456789a",
        "٠192f0c1-2345-7abc-8def-0123456789ab",
    ],
)
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_id(text)


def test_moments_are_kept_to_the_millisecond() -> None:
    moment = datetime(2026, 2, 28, 23, 59, 59, 999_000, tzinfo=UTC)
    assert from_millis(to_millis(moment)) == moment
    assert from_millis(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert now().microsecond % 1_000 == 0
    assert abs(now() - datetime.now(UTC)) < timedelta(minutes=1)
