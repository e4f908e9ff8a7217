"""The reason for a route, as a plan keeps it."""

from __future__ import annotations

import re

import pytest

from contextinfinity.domain.plan import Route
from contextinfinity.engine.respond import LONGEST_REASON, kept


@pytest.mark.parametrize("passed", [0, 1, 3, 30])
def test_a_reason_is_kept_in_whole_sentences_and_ends_with_who_answers(passed: int) -> None:
    against = [f"Not model-{number}: it is not available now: its key is not set." for number in range(passed)]
    reason = " ".join([*against, "echo answers: it is the default model."])
    short = kept(Route(model="echo", reason=reason, home="echo")).reason
    assert short.endswith("echo answers: it is the default model.")
    assert set(re.split(r"(?<=\.) ", short)) <= set(re.split(r"(?<=\.) ", reason))
    assert len(short) <= max(LONGEST_REASON, len(against[-1]) if against else 0)


def test_a_single_long_sentence_is_kept_whole() -> None:
    reason = f"echo answers by rule 1: {'the message is long ' * 30}."
    assert kept(Route(model="echo", reason=reason, home="echo")).reason == reason
