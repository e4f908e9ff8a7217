"""What people do with the workbench, key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.tui.composer import Composer
from tests.doors.cix import Cix
from tests.doors.tui.workbench import workbench

pytestmark = pytest.mark.xdist_group("tui")


@pytest.mark.req("TUI-1")
async def test_a_message_is_answered_and_the_header_says_where_it_stands(own_example: Path) -> None:
    async with workbench(own_example, session="new") as bench:
        await bench.sees("Write a message below", "New conversation", "pending 0")
        await bench.type("Hello buoy")
        await bench.press("ctrl+j")
        await bench.type("and sea")
        await bench.press("enter")
        await bench.sees("You said: Hello buoy", "and sea", "branch main", "state 1", "pending 0", "Done", "durable")
        assert bench.app.query_one(Composer).text == ""
        await bench.press("ctrl+b")
        await bench.sees("* Hello buoy")


@pytest.mark.req("TUI-2", "STREAM-3")
async def test_forks_pins_and_found_chunks_reach_the_next_message(own_example: Path) -> None:
    async with workbench(own_example, size=(140, 45), session="demo-weather-buoy") as bench:
        await bench.sees("A weather buoy", "risk")
        await bench.press("f5")
        await bench.sees("Branches", "from turn 4", "open, active")
        await bench.press("f")
        await bench.sees("from turn 19")
        await bench.press("f6")
        await bench.sees("at most 450 EUR")
        await bench.press("a")
        await bench.type("The colour is red.")
        await bench.press("enter")
        await bench.sees("3. The colour is red.")
        await bench.press("f4")
        await bench.type("lifting bag")
        await bench.sees("litres")
        await bench.press("enter", "enter")
        await bench.sees("1 attached")
        await bench.press("escape")
        await bench.type("What do we need?")
        await bench.press("enter")
        await bench.sees("What do we need?", "An echo", "Done")
        await bench.press("f2")
        await bench.sees("Prefix reuse", "Artifact, score 1.00, assistant, turn 10")


@pytest.mark.req("STREAM-3")
async def test_a_recovered_answer_is_marked_as_incomplete(own_example: Path) -> None:
    async with workbench(own_example, session="demo-other-2") as bench:
        await bench.sees("INCOMPLETE: cut off and recovered")


async def test_a_long_conversation_is_read_around_the_view_only(own_example: Path) -> None:
    async with workbench(own_example, session="demo-harbour-log", size=(80, 24)) as bench:
        await bench.sees("Entry 300")
        await bench.press("f3")
        await bench.press("end", "enter")
        await bench.sees("Entry 1:", "Entry 2:")
        assert bench.transcript.selected == 1
        assert len(bench.app.query("*")) < 80


def test_commit_says_where_the_head_is(own_example: Path) -> None:
    committed = Cix(own_example).json("commit", "demo-weather-buoy")
    assert committed["pending"] == 0
    assert committed["state"] > 0
