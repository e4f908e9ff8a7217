"""Messages by somebody who never saw the rules: 80 with a lasting fact, mostly told in passing, and 80 without one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contextinfinity.memory.extraction import draw
from contextinfinity.retrieval.dates import told_of

LINES = (Path(__file__).parents[2] / "samples/strangers/memories.jsonl").read_text("utf-8").splitlines()
SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)


@pytest.mark.req("MEMORY-7")
def test_hardly_anything_is_remembered_that_is_no_lasting_fact() -> None:
    messages = [one for one in map(json.loads, LINES) if not one["facts"]]
    wrong = [one["message"] for one in messages if draw(one["message"], SAID, told_of).told]
    assert len(wrong) <= 0.05 * len(messages), wrong
