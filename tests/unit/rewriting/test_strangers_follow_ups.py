"""Follow-ups by someone who never saw the rules: coding, support, travel and people, in four languages.

The rules were not adjusted to them. ``needs`` are words that a search would have to add.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.thread import Turn
from contextinfinity.rewriting.contract import FollowUp, Rewritten
from contextinfinity.rewriting.offline_rewriter import OfflineRewriter
from contextinfinity.text.keywords import terms

LINES = (Path(__file__).parents[2] / "samples/strangers/follow_ups.jsonl").read_text("utf-8").splitlines()


async def rewritten() -> list[tuple[dict[str, Any], Rewritten]]:
    found = []
    for line in LINES:
        one = json.loads(line)
        history = tuple(Turn(role=said["role"], content=said["text"]) for said in one["history"])
        follow_up = FollowUp(latest_user_message=one["question"], recent_history=history)
        found.append((one, await OfflineRewriter().rewrite(follow_up)))
    return found


@pytest.mark.req("REWRITE-6", "REWRITE-7")
async def test_no_false_form_is_shown_and_standalone_questions_stay_as_they_are() -> None:
    shown = [(one, made.query) for one, made in await rewritten() if made.query != one["question"]]
    assert [query for one, query in shown if one["standalone"] or one["certain_form"] is None] == []
    assert len(shown) == 1


@pytest.mark.req("REWRITE-8")
async def test_half_of_the_missing_words_reach_the_search() -> None:
    needed = put_in = added = questions = 0
    for one, made in await rewritten():
        if not one["standalone"]:
            wanted, given = set(terms(" ".join(one["needs"]))), set(terms(" ".join(made.terms)))
            needed, put_in, added = needed + len(wanted), put_in + len(wanted & given), added + len(made.terms)
            questions += 1
    assert put_in >= 0.5 * needed, f"{put_in} of {needed}"
    assert added <= 6 * questions
