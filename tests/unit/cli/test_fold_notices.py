"""What people see of folds: the chat and the workbench say what happened, and nothing where nothing did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from contextinfinity.cli.chat.chat_session import print_fold_notices
from contextinfinity.domain.events import CompactionCompleted, CompactionEvent, CompactionFailed, CompactionStarted
from contextinfinity.domain.ids import new_id
from contextinfinity.tui import client_thread

WHERE: Any = {"thread_id": new_id(), "branch_id": new_id()}
STARTED, FAILED = CompactionStarted(**WHERE), CompactionFailed(**WHERE, message="The disk is full.")
DONE = CompactionCompleted(**WHERE, case="summarize", covers_turn_seq=7, tokens_before=900, tokens_after=200)
NONE = CompactionCompleted(**WHERE, case="none")


async def stream(*events: CompactionEvent) -> AsyncIterator[CompactionEvent]:
    for event in events:
        yield event
        await asyncio.sleep(0)


@pytest.mark.req("COMPACT-4")
@pytest.mark.parametrize(
    ("end", "words"), [(DONE, "7 are in the summary now"), (FAILED, "The disk is full."), (NONE, "")]
)
async def test_the_end_of_a_fold_is_told_and_one_without_effect_is_not(
    end: CompactionEvent, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await print_fold_notices(stream(STARTED, end))
    shown: list[str] = []
    app: Any = SimpleNamespace(notify=lambda text, **_: shown.append(text))
    for event in (STARTED, end):
        client_thread._report(app, event)
    printed = capsys.readouterr()
    assert (words in printed.err, bool(printed.out + printed.err)) == (True, bool(words))
    assert len(shown) == bool(words)
