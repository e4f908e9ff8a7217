"""What leaves a prompt that is too large: in a fixed order, the same each time, all of it named."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import TextBlock, ToolResultBlock, say
from contextinfinity.domain.plan import Budget, Plan, Shrunk
from contextinfinity.domain.prompt import Abilities, WorkspaceText
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.assemble import Assembled, Frame, assemble
from contextinfinity.prompt.layout import MEMORIES, lay_out
from contextinfinity.prompt.measure import Ceilings, divide_window
from contextinfinity.prompt.prompt_sections import Sections, Shown
from contextinfinity.prompt.shrink import OLDER_SHARES, SLICE, WHOLE, cut, describe, levels_of, shrink
from tests.unit.prompt.material import FULL, MEASURE, QUESTION, artifact, called, gave, sections, shown, with_front

LONG = "".join(f"Line {number} of a long report.\n" for number in range(600))
"""More than 2,000 tokens."""
RICH = sections(
    front=replace(FULL, memories="Ann likes coffee. " * 40, summary="They looked for the café. " * 60),
    covers=4,
    turns=(
        shown(5, "Who is Rex? " * 40, LONG),
        shown(6, LONG, "A long one. " * 40),
        shown(7, "And then? " * 40, "Then he slept. " * 40),
        shown(8, "Whose is he? " * 40, "Ann's. " * 40),
    ),
    artifacts=(artifact(1, "best " * 300, 0.9), artifact(2, "good " * 300, 0.8), artifact(3, "fair " * 300, 0.7)),
    rounds=(called("c1", thinking="Hm. " * 50, at="barn"), gave("c1", LONG)),
)
FRAME = Frame(budget=divide_window(128_000, Ceilings()), abilities=Abilities())


def within(material: Sections, limit: int) -> Assembled:
    return assemble(material, FRAME, MEASURE, limit=limit)


def every_cut(material: Sections) -> list[Shrunk]:
    """All the cuts there are, the smallest first: what is sent when the limit is ever one token too low."""
    found: list[Shrunk] = []
    total = MEASURE.total(material)
    while True:
        try:
            shrunk = shrink(material, MEASURE, total - 1)
        except ProviderError:
            return found
        found.append(shrunk)
        total = MEASURE.total(cut(material, shrunk))


@cache
def rich_cuts() -> list[Shrunk]:
    return every_cut(RICH)


STEPS = (
    "reasoning of this turn",
    "artifacts",
    "the best artifact",
    "artifacts: 0",
    "long texts",
    "turns",
    "tool results",
    "summary",
    "standing memories",
)


def deepest_step(shrunk: Shrunk) -> str:
    """Name the last step of a cut."""
    last = [step for step in describe(RICH, shrunk) if not step.startswith("artifacts: 0")][-1:]
    gone = shrunk.artifacts == 0 and not shrunk.shortened and not shrunk.lines_to
    if gone:
        return "artifacts: 0"
    if shrunk.summary is None and shrunk.memories is None and levels_of(shrunk)[-1:] > [((10, 0), 0)]:
        return "tool results"
    return next(name for name in STEPS if name in last[0])


@pytest.mark.req("BUDGET-3")
def test_the_steps_come_in_the_order_that_was_agreed() -> None:
    cuts = rich_cuts()
    assert tuple(name for name, _ in groupby(cuts, deepest_step)) == STEPS
    sizes = [MEASURE.total(cut(RICH, shrunk)) for shrunk in cuts]
    assert sizes == sorted(sizes, reverse=True), "each cut leaves less than the one before"


@pytest.mark.req("BUDGET-3")
def test_no_step_is_begun_before_the_one_before_it_is_done() -> None:
    for shrunk in rich_cuts():
        none_left = shrunk.artifacts == 0 and shrunk.slice is None
        assert not shrunk.shortened or none_left
        deep = any(place >= (6, 2) and share <= OLDER_SHARES[-1] for place, share in levels_of(shrunk))
        assert not shrunk.lines_to or deep, "long texts are cut before"
        newest = [share for place, share in levels_of(shrunk) if place[0] == 11]
        assert not newest or shrunk.lines_to == 8, "the running task gives way last"
        assert shrunk.summary is None or newest[0] < WHOLE // 16
        assert shrunk.memories is None or shrunk.summary == 200


@pytest.mark.req("BUDGET-3")
def test_retrieved_text_goes_from_the_lowest_score_down_to_the_best_then_a_slice_then_nothing() -> None:
    material = replace(RICH, turns=(), rounds=())
    cuts = every_cut(material)
    kept = [[one.text[:4] for one in cut(material, shrunk).artifacts] for shrunk in cuts[:4]]
    assert kept == [["best", "good"], ["best"], ["best"], []]
    (sliced,) = cut(material, cuts[2]).artifacts
    assert sliced.text == ("best " * 300)[:SLICE]


@pytest.mark.req("BUDGET-3")
def test_long_texts_keep_head_and_tail_the_oldest_first_also_in_this_turns_steps() -> None:
    levels = [levels_of(shrunk) for shrunk in rich_cuts() if shrunk.shortened and not shrunk.lines_to]
    half, eighth = OLDER_SHARES
    assert levels == [
        [((5, 2), half)],
        [((6, 2), half)],
        [((5, 2), eighth), ((6, 2), half)],
        [((6, 2), eighth)],
    ]
    after = cut(RICH, Shrunk(shortened=(6, 2, half, 11, 3, half), texts_to=8, floor=1000))
    kept = len(LONG) // 2
    head, tail = kept * 2 // 3, kept - kept * 2 // 3
    marked = f"{LONG[:head]}\n[… {len(LONG) - kept} characters left out …]\n{LONG[-tail:]}"
    assert after.turns[0].messages[1].rendered_text == marked
    assert after.turns[1].messages[0].rendered_text == marked
    (result,) = after.rounds[1].blocks
    assert result == ToolResultBlock(tool_use_id="c1", content=(TextBlock(text=marked),))
    assert after.turns[2:] == RICH.turns[2:]
    old = replace(RICH, layout=2)
    trimmed = cut(old, Shrunk(trimmed=(5, 1, 0))).turns[0].messages[1].rendered_text
    assert trimmed.startswith(LONG[:2000] + "\n[…"), "requests of older releases can be rebuilt"


@pytest.mark.req("BUDGET-3", "CTX-3")
def test_the_oldest_exchanges_leave_a_line_each_and_are_named() -> None:
    material = replace(RICH, artifacts=(), rounds=())
    deep = next(shrunk for shrunk in every_cut(material) if shrunk.lines_to == 6)
    told = within(material, MEASURE.total(cut(material, deep)))
    summary = told.prompt.messages[0].rendered_text
    assert summary.endswith(
        "\n#5 Who is Rex? Who is Rex? Who is Rex? Who is Rex? Who is Rex?… → Line 0 of a long report. Line 1 of a long"
        " report. Line 2 of…"
        "\n#6 Line 0 of a long report. Line 1 of a long report. Line 2 of… → A long one. A long one. A long one. A long"
        " one. A long one.…"
    )
    assert "They looked for the café." in summary, "what was covered stays covered"
    assert told.prompt.messages[2:6] == (*RICH.turns[2].messages, *RICH.turns[3].messages)
    assert "turns 5–6: one line each" in told.plan.shrink_steps
    assert [left.what for left in told.plan.left_out] == ["turns 5–6"]
    assert told.plan.gathered == (5, 8)


@pytest.mark.req("BUDGET-3")
def test_a_call_and_the_turn_that_brings_its_results_go_together() -> None:
    paused = Shown(turn_seq=5, messages=(say("user", "Look. " * 100), called("c1", at="barn")))
    brought = Shown(turn_seq=6, messages=(gave("c1", "Empty. " * 100, role="user"), say("assistant", "Nobody.")))
    material = sections(turns=(paused, brought, shown(7)))
    assert {shrunk.lines_to for shrunk in every_cut(material)} <= {6, 7}
    here = sections(turns=(shown(4), paused), message=gave("c1", "Empty.", role="user"))
    reached = [shrunk.lines_to for shrunk in every_cut(here)]
    assert reached == sorted(reached)
    assert set(reached) <= {0, 4, 5}, "they are parted only when nothing else is left"
    left_out = Shown(turn_seq=6, messages=())  # it failed, and the next says it again
    again = sections(turns=(paused, left_out, replace(brought, turn_seq=7), shown(8)))
    assert {shrunk.lines_to for shrunk in every_cut(again)} <= {7, 8}


@pytest.mark.req("BUDGET-3")
def test_the_summary_gets_shorter_and_then_the_memories_go() -> None:
    deepest = rich_cuts()[-1]
    assert (deepest.summary, deepest.memories) == (200, 0)
    front = cut(RICH, deepest).front
    assert front.memories == ""
    assert front.summary.startswith("They looked")
    assert front.summary.endswith("Ann's. Ann…"), "the end of the newest line stays"
    assert len(front.summary) <= 200 + len("\n[…]\n")


@pytest.mark.req("BUDGET-3")
def test_what_does_not_fit_at_all_is_an_error_that_says_what_to_change() -> None:
    with pytest.raises(ProviderError) as refusal:
        within(RICH, 50)
    assert refusal.value.kind == "size"
    assert "50 tokens" in refusal.value.message
    assert str(MEASURE.message(QUESTION)) in refusal.value.message
    for way_out in ("Shorten the message", "larger window", "response_reserve_tokens"):
        assert way_out in refusal.value.hint


@pytest.mark.req("BUDGET-3", "CTX-4")
def test_pins_and_the_users_words_are_never_touched() -> None:
    words = say("user", LONG)
    for shrunk in every_cut(replace(RICH, message=words)):
        shown_now = cut(replace(RICH, message=words), shrunk)
        assert shown_now.message == words
        assert shown_now.front.pinned_facts == FULL.pinned_facts
        assert shown_now.front.system == FULL.system
        assert "- The dog is called Rex.\n- Answers are in metres." in lay_out(shown_now).system[1]


@pytest.mark.req("BUDGET-3")
def test_the_same_material_gives_the_same_steps() -> None:
    total = MEASURE.total(RICH)
    for share in range(10, 100, 10):
        first, second = within(RICH, total * share // 100), within(RICH, total * share // 100)
        assert first == second
        assert first.plan.shrink_steps


@pytest.mark.req("BUDGET-3")
def test_nothing_is_taken_out_of_what_fits() -> None:
    told = within(RICH, MEASURE.total(RICH))
    assert told.plan.shrunk is None
    assert told.plan.shrink_steps == ()
    assert told.plan.left_out == ()
    assert told.prompt.messages == lay_out(RICH).messages


@pytest.mark.req("BUDGET-3")
def test_every_artifact_that_did_not_fit_is_accounted_for() -> None:
    one_stays = next(shrunk for shrunk in rich_cuts() if shrunk.artifacts == 1)
    told = within(RICH, MEASURE.total(cut(RICH, one_stays)))
    assert told.plan.shrink_steps[-1] == "artifacts: 1 of 3 kept"
    (left,) = told.plan.left_out
    assert left.what == "artifacts from rank 2 on"
    assert left.tokens == sum(one.tokens for one in RICH.artifacts[1:])
    assert [placed.chunk_id for placed in told.plan.retrieved] == [one.chunk_id for one in RICH.artifacts]


@pytest.mark.req("BUDGET-3")
def test_thinking_leaves_with_the_first_cut_and_alone_where_that_is_enough() -> None:
    thought = called("c1", thinking="I wonder. " * 500, at="barn")
    material = sections(rounds=(thought, gave("c1", "Empty.")))
    without = MEASURE.total(cut(material, Shrunk(thinking=False)))
    told = within(material, without)
    assert told.prompt.messages[1].blocks == thought.blocks[1:], "the call stays"
    assert told.plan.shrink_steps == ("reasoning of this turn: left out",)
    assert within(material, MEASURE.total(material)).prompt.messages[1] == thought


@pytest.mark.req("BUDGET-3")
def test_an_error_comes_only_where_nothing_fits() -> None:
    """The last cut is measured, not guessed: also the heading of the memories leaves with them."""
    material = with_front(sections(), memories="Ann likes coffee.")
    barest = MEASURE.total(cut(material, Shrunk(memories=0)))
    assert MEMORIES not in "".join(within(material, barest).prompt.system)
    with pytest.raises(ProviderError):
        within(material, barest - 1)


def test_a_plan_says_of_a_cut_prompt_what_it_took() -> None:
    told: Plan = within(RICH, 3000).plan
    assert told.tokens <= 3000
    assert told.epoch_reason == "shrunk"
    assert told.shrunk is not None
    assert told.shrunk.touches_front
    light = within(RICH, MEASURE.total(RICH) - 1).plan
    assert light.epoch_reason is None, "artifacts stand behind what is cached"


@pytest.mark.req("BUDGET-3", "BUDGET-7")
def test_files_of_a_workspace_are_left_out_largest_first_after_artifacts_and_before_turns() -> None:
    blocks = tuple(
        f"{path}\n```\n{'word ' * size}\n```" for path, size in (("a.py", 50), ("src/a.py", 50), ("b.py", 400))
    )
    there = WorkspaceText(
        system=f"map\n\n# Reference Files (Stable)\n\n{blocks[1]}",
        tiers=((say("user", f"# Reference Files\n\n{blocks[2]}"), say("assistant", "read")), (), ()),
        context=(say("user", f"# Working Files\n\n{blocks[0]}"), say("assistant", "read")),
        files=blocks,
    )
    whole = sections(
        turns=(shown(1, "old " * 300, "answer " * 300),), artifacts=(artifact(1, "x " * 90),), workspace=there
    )
    total = MEASURE.total(whole)
    found = shrink(whole, MEASURE, total - 300)
    assert (found.artifacts, found.files, found.shortened) == (0, ("b.py",), ())
    short = cut(whole, found).workspace
    assert short is not None
    assert short.tiers[0][0].rendered_text == "# Reference Files\n\nb.py: left out, the prompt was too large."
    assert (short.system, short.context) == (there.system, there.context)
    found = shrink(whole, MEASURE, total - 620)
    assert found.files == ("b.py", "src/a.py", "a.py")
    short = cut(whole, found).workspace
    assert short is not None
    assert short.context[0].rendered_text.endswith("\n\na.py: left out, the prompt was too large.")
    assert short.system.endswith("\n\nsrc/a.py: left out, the prompt was too large."), "not taken for a.py"
    assert describe(whole, found)[1] == "files: without b.py, src/a.py, a.py"


@pytest.mark.req("BUDGET-7")
def test_a_prompt_with_a_workspace_takes_at_most_nine_tenths_of_the_window() -> None:
    block = f"a.py\n```\n{'word ' * 400}\n```"
    there = WorkspaceText(
        context=(say("user", f"# Working Files\n\n{block}"), say("assistant", "read")), files=(block,)
    )
    whole = sections(workspace=there)
    window = int(MEASURE.total(whole) / 0.95)
    budget = Budget(model_limit=window, base_tokens=0, retrieval_budget=0, response_reserve=0, safety_margin=0)
    made = assemble(whole, Frame(budget=budget, abilities=Abilities()), MEASURE)
    assert made.plan.shrunk is not None
    assert made.plan.shrunk.files == ("a.py",), "95% would fit, but more than 90% are not used"
    assert [left.what for left in made.plan.left_out] == ["file a.py"]
