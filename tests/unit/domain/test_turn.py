"""The table of phases is the one the design draws."""

from __future__ import annotations

import pytest

from contextinfinity.domain.turn import OPEN_PHASES, TRANSITIONS, UNSETTLED_PHASES, Phase, Usage

WAY = [
    Phase.ACCEPTED,
    Phase.CONTEXT_PREPARED,
    Phase.RESPONDING,
    Phase.RESPONSE_FINALIZED,
    Phase.STATE_COMMITTED,
    Phase.INDEXED,
    Phase.DONE,
]
BEFORE_FINAL = WAY[:3]


@pytest.mark.req("TURN-1")
def test_the_phases_have_the_names_of_the_design() -> None:
    names = "Accepted ContextPrepared Responding ResponseFinalized StateCommitted Indexed Done Failed"
    assert [phase.value for phase in Phase] == names.split()


@pytest.mark.req("TURN-1")
@pytest.mark.parametrize("old", Phase)
@pytest.mark.parametrize("new", Phase)
def test_a_phase_is_followed_by_the_next_or_by_failure_before_the_answer_is_final(old: Phase, new: Phase) -> None:
    next_in_line = old in WAY[:-1] and WAY[WAY.index(old) + 1] is new
    asked_back = (old, new) == (Phase.CONTEXT_PREPARED, Phase.RESPONSE_FINALIZED)
    failed = old in BEFORE_FINAL and new is Phase.FAILED
    assert (new in TRANSITIONS[old]) is (next_in_line or asked_back or failed)


@pytest.mark.req("TURN-1")
def test_nothing_follows_the_two_ends() -> None:
    assert [phase for phase in Phase if not TRANSITIONS[phase]] == [Phase.DONE, Phase.FAILED]


def test_a_turn_is_open_while_it_is_answered_and_unsettled_until_it_is_committed() -> None:
    assert set(OPEN_PHASES) == {Phase.CONTEXT_PREPARED, Phase.RESPONDING}
    assert set(UNSETTLED_PHASES) == set(WAY[:4])


def test_usage_adds_up() -> None:
    first = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, cost=0.5)
    assert first + Usage(input_tokens=10, output_tokens=20, cached_tokens=30, cost=0.25) == Usage(
        input_tokens=11, output_tokens=22, cached_tokens=33, cost=0.75
    )


def test_a_cost_is_unknown_only_when_no_part_is_known() -> None:
    assert (Usage() + Usage()).cost is None
    assert (Usage(cost=0.5) + Usage()).cost == (Usage() + Usage(cost=0.5)).cost == 0.5
    assert (Usage(cost=0.0) + Usage()).cost == 0.0
