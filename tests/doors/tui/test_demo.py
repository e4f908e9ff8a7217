"""``cix demo``: what it makes, and that it can be interrupted and keeps to a data_dir of its own."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from contextinfinity.cli.demo.demo_player import LAST_DAY, LOGBOOK, MAIN, NAMES, survey
from contextinfinity.client.local import LocalClient
from contextinfinity.settings import load_settings
from contextinfinity.wiring import open_engine
from tests.doors.cix import Cix
from tests.doors.tui.conftest import TURNS
from tests.doors.tui.workbench import workbench

pytestmark = pytest.mark.xdist_group("tui")


async def test_an_interrupted_demo_is_completed_by_the_next_one(own_example: Path) -> None:
    async with LocalClient(open_engine(data_dir=own_example)) as client:
        mine = (await client.conversations.ask("demo-other-1", "This is mine.")).turn_id
        whole = await client.threads.get(LOGBOOK)
        await client.threads.delete(whole.thread_id)
        cut = await client.threads.get("demo-other-3")
        await client.threads.rename(cut.thread_id, None)
    done = await asyncio.to_thread(Cix(own_example), "demo", "--turns", "7")
    assert "The example is ready" in done.output
    async with LocalClient(open_engine(data_dir=own_example)) as client:
        threads = {name: await client.threads.get(name) for name in NAMES}
        assert all(thread.title for thread in threads.values())
        assert threads[LOGBOOK].turns == 7
        assert (threads["demo-other-3"].turns, threads["demo-other-3"].title) == (cut.turns, cut.title)
        assert threads["demo-other-3"].thread_id != cut.thread_id
        assert (await client.conversations.turn(mine)).turn_id == mine, "a whole conversation is left as it is"
    assert "there already" in (await asyncio.to_thread(Cix(own_example), "demo")).output


async def test_a_data_dir_with_other_conversations_gets_the_example_only_when_asked(tmp_path: Path) -> None:
    cix = Cix(tmp_path)
    assert cix("ask", "My own question").exit_code == 0
    refused = await asyncio.to_thread(cix, "demo")
    assert refused.exit_code == 1
    assert "has conversations already" in refused.stderr
    assert "--add" in refused.stderr
    settings = load_settings(data_dir=tmp_path).settings
    assert await survey(settings, add=True) == (NAMES, False)


def test_a_data_dir_that_cannot_be_used_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder", encoding="utf-8")
    for place in (file, file / "below", Path("/proc/none")):
        failed = Cix(place)("demo")
        assert failed.exit_code in (1, 2)
        assert isinstance(failed.exception, SystemExit)
        assert str(place) in failed.stderr


async def test_the_figures_and_dates_of_the_example_are_plausible(example: Path) -> None:
    async with LocalClient(open_engine(data_dir=example)) as client:
        seconds = (await client.conversations.show(MAIN, before=3, limit=1)).turns[0]
        plan = await client.conversations.context(seconds.turn_id)
        assert abs(seconds.usage.input_tokens - plan.tokens) < 20
        assert seconds.usage.cost
        log = (await client.conversations.show(LOGBOOK, limit=TURNS)).turns
        assert log[-1].created_at == LAST_DAY
        assert all(turn.created_at < later.created_at for turn, later in pairwise(log))


@pytest.mark.req("TUI-2")
async def test_the_pending_turn_of_the_example_waits_until_it_is_committed_by_hand(own_example: Path) -> None:
    async with workbench(own_example, session="demo-other-3") as bench:
        await bench.sees("pending 1 · ResponseFinalized")
        await bench.press("f8")
        await bench.sees("turn 2  ResponseFinalized, completed", "How many may go up")
        await bench.press("c")
        await bench.sees("Committed: the head is state 2.", "pending 0", "Nothing is pending")


async def test_the_context_of_the_example_shows_what_was_left_out(example: Path) -> None:
    async with workbench(example, session=MAIN, size=(180, 60)) as bench:
        bench.transcript.go_to(13)
        await bench.press("f2")
        await bench.sees("Turn 13, request 1", "Artifact, score", "Left out\n", ": the budget of 400 tokens is used up")
