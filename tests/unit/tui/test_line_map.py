"""The map of a long list: where each item begins when only some were drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.tui.turn_scroll import GUESS, LineMap

HEIGHTS = st.dictionaries(st.integers(1, 30), st.integers(0, 12))


@given(count=st.integers(1, 30), heights=HEIGHTS)
def test_every_line_belongs_to_the_item_that_is_drawn_there(count: int, heights: dict[int, int]) -> None:
    lines = LineMap(count)
    measured = {item: height for item, height in heights.items() if item <= count}
    for item, height in measured.items():
        lines.measure(item, height)
    guess = max(round(sum(measured.values()) / len(measured)), 1) if measured else GUESS
    owners = [item for item in range(1, count + 1) for _ in range(measured.get(item, guess))]
    assert lines.total == len(owners)
    assert [lines.item_at(line) for line in range(len(owners))] == owners
    assert all(lines.top(item) == owners.index(item) for item in set(owners))


@given(heights=HEIGHTS, count=st.integers(0, 30))
def test_resizing_keeps_the_heights_of_the_items_that_stay(heights: dict[int, int], count: int) -> None:
    resized, fresh = LineMap(30), LineMap(count)
    for item, height in heights.items():
        resized.measure(item, height)
        if item <= count:
            fresh.measure(item, height)
    resized.resize(count)
    assert [resized.top(item) for item in range(1, count + 2)] == [fresh.top(item) for item in range(1, count + 2)]


def test_an_empty_list_has_no_items_and_forgetting_leaves_guesses() -> None:
    assert (LineMap(0).total, LineMap(0).item_at(3)) == (0, 0)
    lines = LineMap(2)
    lines.measure(1, 3)
    lines.forget()
    assert (lines.total, lines.item_at(99)) == (2 * GUESS, 2)
