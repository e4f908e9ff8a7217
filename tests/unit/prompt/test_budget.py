"""How a window is shared out: ceilings, and less where there is less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain.message import say
from contextinfinity.domain.plan import Budget
from contextinfinity.domain.prompt import Abilities
from contextinfinity.errors import ProviderError, Refused
from contextinfinity.prompt.assemble import Frame, assemble
from contextinfinity.prompt.measure import SMALLEST_WINDOW, Ceilings, check_pins_limit, divide_window, report
from contextinfinity.text.tokens import Counter
from contextinfinity.text.tokens.families import family_of
from contextinfinity.text.tokens.images import rule_of
from tests.unit.prompt.material import FULL, MEASURE, artifact, sections, shown

COUNTER = Counter(family_of("openai", "gpt-5.5"), rule_of("openai", "gpt-5.5"))
SIZES = st.integers(0, 300_000)


@pytest.mark.req("BUDGET-9")
@given(
    limit=st.integers(SMALLEST_WINDOW, 2_000_000),
    ceilings=st.builds(
        Ceilings,
        **dict.fromkeys(
            ("reserve", "safety", "retrieval", "summary", "memories", "pins", "fold_trigger", "verbatim_window"), SIZES
        ),
    ),
)
def test_configured_figures_are_ceilings(limit: int, ceilings: Ceilings) -> None:
    budget = divide_window(limit, ceilings)
    assert budget.response_reserve == min(ceilings.reserve, limit // 4)
    assert budget.safety_margin == min(ceilings.safety, limit // 16)
    assert budget.retrieval_budget == min(ceilings.retrieval, limit // 4)
    rest = limit - budget.response_reserve - budget.safety_margin - budget.retrieval_budget
    assert budget.summary == min(ceilings.summary or 0, rest // 8)
    assert budget.memories == min(ceilings.memories, rest // 8)
    assert budget.pins == min(ceilings.pins, rest // 8)
    assert budget.fold_trigger == min(ceilings.fold_trigger, rest * 3 // 4)
    assert budget.verbatim_window == min(ceilings.verbatim_window, budget.fold_trigger // 4)
    assert budget.input_limit == limit - budget.response_reserve - budget.safety_margin


@pytest.mark.req("BUDGET-9", "LIBRARIAN-5", "COMPACT-1")
@pytest.mark.parametrize(
    ("limit", "summary"), [(2048, 112), (8192, 400), (32_768, 655), (128_000, 2560), (200_000, 4000), (1_000_000, 4000)]
)
def test_the_summary_grows_with_the_window_where_no_figure_is_set(limit: int, summary: int) -> None:
    assert divide_window(limit, Ceilings()).summary == summary
    assert divide_window(limit, Ceilings(summary=500)).summary == min(
        500, divide_window(limit, Ceilings(summary=9999)).summary
    )


@pytest.mark.req("BUDGET-9")
@pytest.mark.parametrize("limit", [2048, 2049, 4096, 8192, 32_768, 128_000, 200_000, 1_000_000])
def test_folding_comes_before_shrinking(limit: int) -> None:
    """Retrieved text and a summary leave room for all the turns that are not folded yet, and for what precedes them."""
    budget = divide_window(limit, Ceilings())
    left = budget.input_limit - budget.fold_trigger - budget.retrieval_budget - budget.summary
    assert left >= budget.pins


@pytest.mark.req("BUDGET-1", "BUDGET-9")
@pytest.mark.parametrize("limit", [2048, 4096, 8192, 128_000])
def test_every_window_works_and_the_sum_never_passes_it(limit: int) -> None:
    frame = Frame(budget=divide_window(limit, Ceilings()), abilities=Abilities())
    material = sections(
        front=FULL,
        turns=tuple(shown(seq, "Who is Rex? " * 50, "A dog. " * 200) for seq in range(1, 11)),
        artifacts=tuple(artifact(number, "Rex lives in the barn. " * 30) for number in range(5)),
    )
    plan = assemble(material, frame, MEASURE).plan
    assert plan.budget is not None
    shown_tokens = plan.tokens - plan.budget.base_tokens
    assert 0 <= shown_tokens <= sum(one.tokens for one in material.artifacts)
    taken = plan.budget.base_tokens + shown_tokens + plan.budget.response_reserve + plan.budget.safety_margin
    assert taken <= limit
    assert replace(plan.budget, base_tokens=0) == frame.budget, "the effective figures stand in the plan"


@pytest.mark.req("BUDGET-1")
def test_what_stays_of_the_window_is_for_the_answer() -> None:
    frame = Frame(budget=divide_window(8192, Ceilings(reserve=2000, safety=100)), abilities=Abilities())
    assert frame.budget.input_limit == 6092
    fits = sections(message=say("user", "word " * 5900))
    assert assemble(fits, frame, MEASURE).tokens <= 6092
    with pytest.raises(ProviderError, match="6092 tokens"):
        assemble(sections(message=say("user", "word " * 6100)), frame, MEASURE)


# --- the report ---


@pytest.mark.req("BUDGET-5")
def test_the_report_has_its_six_figures() -> None:
    budget = Budget(
        model_limit=128_000,
        base_tokens=0,
        retrieval_budget=6000,
        response_reserve=4000,
        safety_margin=1500,
        fold_trigger=24_000,
    )
    told = report(10_000, budget, 4000)
    assert (told.history_tokens, told.max_input_tokens, told.max_output_tokens) == (10_000, 128_000, 4000)
    assert told.max_history_tokens == 128_000 // 16
    assert told.remaining == 128_000 - 10_000 - 4000 - 1500
    assert not told.needs_summary


@pytest.mark.req("BUDGET-5")
def test_what_remains_is_never_below_nothing() -> None:
    budget = divide_window(2048, Ceilings())
    assert report(10_000, budget, 500).remaining == 0
    assert report(budget.fold_trigger + 1, budget, 500).needs_summary
    assert not report(budget.fold_trigger, budget, 500).needs_summary


# --- pins ---


@pytest.mark.req("BUDGET-10")
def test_a_pin_beyond_the_limit_is_refused_with_the_figures() -> None:
    pinned = ("one two three four five",)
    there, more = COUNTER.count(pinned[0]), COUNTER.count("six seven eight")
    check_pins_limit(pinned, "six seven eight", COUNTER, there + more)
    with pytest.raises(Refused) as refusal:
        check_pins_limit(pinned, "six seven eight", COUNTER, there + more - 1)
    assert refusal.value.message == (
        f"Pinned facts may use {there + more - 1} tokens; the existing ones use {there}, this one {more}."
    )
    assert "pins_limit_tokens" in refusal.value.hint


@pytest.mark.req("BUDGET-10")
def test_a_fact_that_is_pinned_already_costs_nothing_more() -> None:
    check_pins_limit(("one two three",), "one two three", COUNTER, 1)
