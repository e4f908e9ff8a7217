"""When a fold is due, where it cuts and whether it pays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.compaction.policy import FoldableTurn, FoldCut, FoldLimits, choose_cut, frees_enough, is_due

LIMITS = FoldLimits(trigger=1000, window=200, messages=4, exchanges=2)


def turns(*tokens: int, joined: tuple[int, ...] = (), waits: bool = False) -> list[FoldableTurn]:
    last = len(tokens) - 1
    return [
        FoldableTurn(turn_seq=place + 1, tokens=size, joined=place in joined, waits=waits and place == last)
        for place, size in enumerate(tokens)
    ]


@pytest.mark.req("COMPACT-1")
def test_a_fold_is_due_only_beyond_the_trigger() -> None:
    assert not is_due(turns(*[100] * 10), LIMITS)
    assert is_due(turns(*[100] * 10, 1), LIMITS)


@pytest.mark.req("COMPACT-1")
def test_after_an_undoing_only_what_came_since_counts() -> None:
    assert not is_due(turns(*[100] * 15), LIMITS, since=5)
    assert is_due(turns(*[100] * 16), LIMITS, since=5)


@pytest.mark.req("COMPACT-1", "COMPACT-3")
def test_the_window_stays_and_all_before_it_leaves() -> None:
    assert choose_cut(turns(*[50] * 30), LIMITS) == FoldCut(leaves=26, case="summarize")


@pytest.mark.req("COMPACT-1")
def test_messages_and_exchanges_stay_beyond_the_window_as_far_as_they_fit_half_the_trigger() -> None:
    assert choose_cut(turns(*[240] * 10), LIMITS) == FoldCut(leaves=8, case="summarize")
    assert choose_cut(turns(*[300] * 10), LIMITS) == FoldCut(leaves=9, case="summarize")
    many = FoldLimits(trigger=1000, window=200, messages=12, exchanges=2)
    assert choose_cut(turns(*[80] * 20), many) == FoldCut(leaves=14, case="summarize")
    assert choose_cut(turns(*[80] * 20), FoldLimits(trigger=1000, window=200, messages=0, exchanges=5)) == FoldCut(
        leaves=15, case="summarize"
    )


@pytest.mark.req("COMPACT-1")
def test_the_last_exchange_stays_wherever_folding_still_pays_without_it() -> None:
    assert choose_cut(turns(300, 700), LIMITS) == FoldCut(leaves=1, case="summarize")
    assert choose_cut(turns(300, 751), LIMITS) == FoldCut(leaves=2, case="summarize")


@pytest.mark.req("COMPACT-1")
def test_a_fold_has_to_free_a_quarter_of_the_trigger() -> None:
    cut = FoldCut(leaves=2, case="summarize")
    assert frees_enough(turns(125, 125, 1000), cut, LIMITS)
    assert not frees_enough(turns(125, 124, 1000), cut, LIMITS)


@pytest.mark.req("COMPACT-3")
def test_a_topic_that_begins_in_the_window_moves_the_cut_there() -> None:
    pieces = turns(*[20] * 60)
    assert choose_cut(pieces, LIMITS) == FoldCut(leaves=50, case="summarize")
    assert choose_cut(pieces, LIMITS, 50) == FoldCut(leaves=50, case="truncate")
    assert choose_cut(pieces, LIMITS, 55) == FoldCut(leaves=55, case="truncate")
    assert choose_cut(pieces, LIMITS, 49) == FoldCut(leaves=50, case="summarize")


@pytest.mark.req("COMPACT-3", "COMPACT-1")
def test_a_topic_that_begins_with_the_last_words_leaves_the_floors_alone() -> None:
    assert choose_cut(turns(*[20] * 60), LIMITS, 59) == FoldCut(leaves=58, case="truncate")


@pytest.mark.req("CTX-13")
def test_a_task_is_cut_only_where_nothing_older_is_left() -> None:
    assert choose_cut(turns(*[50] * 30, joined=(26, 25)), LIMITS) == FoldCut(leaves=24, case="summarize")
    assert choose_cut(turns(*[50] * 30, joined=tuple(range(2, 30))), LIMITS) == FoldCut(leaves=1, case="summarize")
    assert choose_cut(turns(*[50] * 30, joined=tuple(range(1, 30))), LIMITS) == FoldCut(leaves=26, case="summarize")
    assert choose_cut(turns(*[10] * 14, joined=tuple(range(1, 14))), LIMITS) is None, "it would free too little"
    assert choose_cut(turns(300, 751, waits=True), LIMITS) == FoldCut(leaves=1, case="summarize")


def test_what_is_not_committed_yet_cannot_leave_and_counts_all_the_same() -> None:
    assert choose_cut(turns(*[50] * 30), LIMITS, most=20) == FoldCut(leaves=20, case="summarize")
    assert choose_cut(turns(*[50] * 30, joined=(20,)), LIMITS, most=20) == FoldCut(leaves=19, case="summarize")
    assert choose_cut(turns(*[50] * 30), LIMITS, most=0) is None


def test_nothing_leaves_an_empty_or_short_conversation() -> None:
    assert choose_cut([], LIMITS) is None
    assert choose_cut(turns(50, 50), LIMITS) is None
    assert not is_due([], LIMITS)


PIECES = st.lists(
    st.builds(
        FoldableTurn,
        turn_seq=st.just(0),
        tokens=st.integers(0, 800),
        messages=st.integers(0, 6),
        joined=st.booleans(),
        waits=st.booleans(),
    ),
    max_size=40,
)


@pytest.mark.req("COMPACT-1", "COMPACT-3")
@given(pieces=PIECES, topic=st.none() | st.integers(0, 39))
def test_whatever_was_said_a_cut_leaves_a_bounded_part_and_parts_nothing(
    pieces: list[FoldableTurn], topic: int | None
) -> None:
    topic = None if topic is None or topic >= len(pieces) else topic
    cut = choose_cut(pieces, LIMITS, topic)
    if cut is None:
        return
    assert 0 < cut.leaves <= len(pieces)
    if cut.leaves < len(pieces):
        assert not pieces[cut.leaves].joined or all(piece.joined for piece in pieces[1 : cut.leaves + 1])
    else:
        assert not pieces[-1].waits
    kept = pieces[cut.leaves :]
    if not any(piece.joined or piece.waits for piece in pieces):
        assert sum(piece.tokens for piece in kept) <= max(LIMITS.trigger // 2, kept[0].tokens if len(kept) == 1 else 0)
