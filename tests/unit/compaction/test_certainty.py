"""A boundary of topics moves the cut of a fold only if it is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from contextinfinity.compaction.boundary import TopicBoundary
from contextinfinity.compaction.policy import FoldCut, choose_cut
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.folding import Folding
from contextinfinity.engine.model_choice import Models
from tests.unit.compaction.test_policy import LIMITS, turns
from tests.unit.prompt.material import shown


@pytest.mark.req("COMPACT-3")
@pytest.mark.parametrize(
    ("confidence", "boundary", "cut"),
    [
        (0.5, 110, FoldCut(leaves=55, case="truncate")),
        (0.49, 110, FoldCut(leaves=50, case="summarize")),
        (0.9, 20, FoldCut(leaves=50, case="summarize")),
        (0.9, None, FoldCut(leaves=50, case="summarize")),
    ],
)
async def test_a_certain_boundary_in_the_window_truncates_and_any_other_one_summarizes(
    confidence: float, boundary: int | None, cut: FoldCut
) -> None:
    found = TopicBoundary(boundary_index=boundary, boundary_reason="", confidence=confidence, summary="")

    async def find(messages: Sequence[Mapping[str, object]]) -> TopicBoundary:
        assert len(messages) == 120
        return found

    here: Any = SimpleNamespace(
        turns=[SimpleNamespace(created_at=None)] * 60,
        shown=[shown(number, "question", "answer") for number in range(1, 61)],
    )
    store: Any = None
    folding = Folding(store=store, models=Models(by_name={}, default=""), setup=Setup(find_boundary=find))
    told, begins = await folding.topic_begins(here)
    assert told is found
    assert choose_cut(turns(*[20] * 60), LIMITS, begins) == cut
