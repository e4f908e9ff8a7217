"""The front does not change without a reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.plan import LeftOut, Plan, Shrunk
from contextinfinity.prompt.assemble import SILENCE, PreviousFront, choose_front
from tests.unit.prompt.material import FULL

LAST = PreviousFront(front=FULL, plan=Plan(), silence=timedelta(minutes=5))


@pytest.mark.req("FILES-5")
def test_the_first_request_has_a_front_of_its_own() -> None:
    assert choose_front(FULL, None) == (FULL, "first")


@pytest.mark.req("FILES-5")
@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("fold", {"summary": "They found the café."}),
        ("pin", {"pinned_facts": ("The dog is called Rex.",)}),
        ("system", {"system": "Be long."}),
        ("tools", {"tools": None}),
        ("format", {"response_format": {"type": "object"}}),
    ],
)
def test_a_front_is_replaced_for_a_reason(reason: str, change: dict[str, Any]) -> None:
    fresh = replace(FULL, memories="Ann likes tea by now.", **change)
    assert choose_front(fresh, LAST) == (fresh, reason), "what waited comes along"


@pytest.mark.req("FILES-5")
def test_a_memory_waits_for_the_next_reason() -> None:
    learned = replace(FULL, memories="Ann likes tea by now.")
    assert choose_front(learned, LAST) == (FULL, None)
    forgotten = replace(FULL, memories="")
    assert choose_front(forgotten, LAST) == (FULL, None), "a memory that could not be read is not gone"


@pytest.mark.req("FILES-5")
@pytest.mark.parametrize(
    ("reason", "last"),
    [
        ("branch", replace(LAST, same_branch=False)),
        ("silence", replace(LAST, silence=SILENCE + timedelta(seconds=1))),
    ],
)
def test_after_a_switch_or_an_hour_of_silence_what_waited_comes_in(reason: str, last: PreviousFront) -> None:
    learned = replace(FULL, memories="Ann likes tea by now.")
    assert choose_front(learned, last) == (learned, reason)
    assert choose_front(FULL, last) == (FULL, None), "nothing waited, so nothing is new"


@pytest.mark.req("FILES-5")
@pytest.mark.parametrize(
    ("shrunk", "reason"),
    [
        (Shrunk(lines_to=3), "shrunk"),
        (Shrunk(trimmed=(3, 0, 0)), "shrunk"),
        (Shrunk(summary=200), "shrunk"),
        (Shrunk(memories=0), "shrunk"),
        (Shrunk(artifacts=1), None),
        (None, None),
    ],
)
def test_a_request_after_a_shrunk_one_does_not_repeat_it(shrunk: Shrunk | None, reason: str | None) -> None:
    assert choose_front(FULL, replace(LAST, plan=Plan(shrunk=shrunk))) == (FULL, reason)


@pytest.mark.req("FILES-5")
def test_a_branch_made_after_a_shrunk_request_does_not_repeat_it_either() -> None:
    last = replace(LAST, plan=Plan(shrunk=Shrunk(lines_to=3)), same_branch=False)
    assert choose_front(FULL, last) == (FULL, "shrunk")


@pytest.mark.req("CTX-11", "FILES-5")
def test_memories_that_are_not_wanted_leave_the_front_and_come_back() -> None:
    front, reason = choose_front(replace(FULL, memories=""), LAST, with_memories=False)
    assert (front, reason) == (replace(FULL, memories=""), "memory")
    assert choose_front(front, replace(LAST, front=front), with_memories=False) == (front, None)
    unwanted = Plan(left_out=(LeftOut(what="memory", reason="it was not requested"),))
    assert choose_front(FULL, replace(LAST, front=front, plan=unwanted)) == (FULL, "memory")


@pytest.mark.req("CTX-7", "FILES-5")
def test_memories_that_could_not_be_read_at_first_come_with_the_next_request() -> None:
    bare, failed = replace(FULL, memories=""), Plan(left_out=(LeftOut(what="memory", reason="it failed"),))
    assert choose_front(FULL, replace(LAST, front=bare, plan=failed)) == (FULL, "memory")
    assert choose_front(FULL, replace(LAST, front=bare)) == (bare, None), "one that was learned since waits"
