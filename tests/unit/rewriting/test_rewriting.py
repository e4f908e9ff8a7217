from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from contextinfinity.rewriting import FollowUp, Rewritten, rewrite, rewrite_query
from contextinfinity.threads import Turn

ASKED = FollowUp(latest_user_message="who are his children", thread_id="a")


class Failing:
    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        raise ValueError(follow_up.latest_user_message)


class Hanging:
    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        await asyncio.Event().wait()
        return Rewritten(query="too late")


@pytest.mark.req("REWRITE-1", "REWRITE-3")
@pytest.mark.parametrize(
    "history", [[Turn("user", "Who is Donald Trump?")], [{"role": "user", "content": "Who is Donald Trump?"}]]
)
async def test_a_follow_up_names_whom_it_means(history: list[Turn | dict[str, str]]) -> None:
    asked = await rewrite_query("who are his children", history, "Likes politics.", thread_id="a", user_id="anna")
    assert asked == "who are Donald Trump's children"


@pytest.mark.req("REWRITE-6")
async def test_without_anything_to_point_at_a_message_comes_back_as_it_is() -> None:
    words = "  who are\nhis children "
    assert await rewrite_query(words, []) == words


@pytest.mark.req("REWRITE-2")
@pytest.mark.parametrize(("rewriter", "reason"), [(Failing(), "ValueError"), (Hanging(), "TimeoutError")])
async def test_on_any_failure_the_original_words_go_on(
    rewriter: Failing | Hanging, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="contextinfinity.rewriting")
    assert await rewrite(rewriter, ASKED, patience=0.01) == Rewritten(query="who are his children")
    assert caplog.messages == [f"thread 'a': the rewriter was left out after {reason}"]


async def test_a_caller_that_stops_waiting_stops_the_rewriter() -> None:
    rewriting = asyncio.create_task(rewrite(Hanging(), ASKED))
    await asyncio.sleep(0)
    rewriting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rewriting


@pytest.mark.req("REWRITE-2")
@pytest.mark.parametrize(
    "history",
    [
        None,
        "Who is Donald Trump?",
        7,
        {"role": "user"},
        [None],
        ["Who?"],
        [{"role": "user"}],
        [{"content": "Who is Donald Trump?"}],
        [{"role": "user", "content": None}],
        [{"role": None, "content": "x"}],
    ],
)
async def test_with_a_malformed_history_the_message_comes_back_as_it_is(history: Any) -> None:
    assert await rewrite_query("who are his children", history) == "who are his children"
