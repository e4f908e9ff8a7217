"""Answers as they come: buffered and durable output, stopping, a server, and work that takes long."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import apsw
import pytest

from tests.doors.server import Server
from tests.doors.tui.workbench import workbench

pytestmark = pytest.mark.xdist_group("tui")

HANGS = """\
[general]
default_model = "hangs"
[models.hangs]
provider = "scripted"
path = "hangs.json"
[stream]
fsync_ms = {fsync_ms}
"""
NEVER = 600_000


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A data_dir whose model says a few words and then nothing more."""
    (tmp_path / "hangs.json").write_text(json.dumps([{"text": "one two three", "hang": True}]), encoding="utf-8")
    return tmp_path


@pytest.mark.req("STREAM-2", "TUI-1")
@pytest.mark.parametrize(
    ("fsync_ms", "shown"),
    [(NEVER, "◌ BUFFERED, durable 0/13 B"), (1, "● durable 13/13 B")],
    ids=["buffered", "durable"],
)
async def test_the_header_says_what_of_a_hanging_answer_is_durable(hanging: Path, fsync_ms: int, shown: str) -> None:
    (hanging / "config.toml").write_text(HANGS.format(fsync_ms=fsync_ms), encoding="utf-8")
    async with workbench(hanging, session="new") as bench:
        await bench.type("Go on")
        await bench.press("enter")
        await bench.sees("one two three", shown, "Responding")
        await bench.press("ctrl+r")
        await bench.sees("An answer is still being generated")
        assert "no question" not in bench.notices
        await bench.type("too early")
        await bench.press("enter")
        await bench.sees("An answer is still being generated", "too early")
        await bench.press("ctrl+c")
        await bench.sees("STOPPED by you", "● durable", "one two three")


@pytest.mark.req("STREAM-3")
async def test_an_answer_that_the_provider_broke_off_says_so(hanging: Path) -> None:
    (hanging / "config.toml").write_text(HANGS.format(fsync_ms=1), encoding="utf-8")
    (hanging / "hangs.json").write_text(json.dumps([{"text": "one two three", "cut_after": 2}]), encoding="utf-8")
    async with workbench(hanging, session="new") as bench:
        await bench.type("Go on")
        await bench.press("enter")
        await bench.sees("one two", "INCOMPLETE: The answer was cut off: the provider's stream ended")


async def test_an_answer_that_one_comes_back_to_is_drawn_once_as_it_comes(hanging: Path) -> None:
    (hanging / "config.toml").write_text(HANGS.format(fsync_ms=1), encoding="utf-8")
    async with workbench(hanging, session="new") as bench:
        await bench.type("Go on")
        await bench.press("enter")
        await bench.sees("one two three")
        await bench.press("ctrl+n")
        await bench.sees("Write a message below")
        await bench.press("ctrl+b")
        await bench.sees("1 turn")
        await bench.press("down", "enter")
        await bench.sees("one two three", "Responding")
        assert "Being answered" not in bench.picture()
        await bench.press("ctrl+c")
        await bench.sees("STOPPED by you")
        assert bench.picture().count("one two three") == 1


async def test_a_place_in_a_coming_answer_stays_in_view_when_the_screen_changes(hanging: Path) -> None:
    (hanging / "config.toml").write_text(HANGS.format(fsync_ms=1), encoding="utf-8")
    said = "\n\n".join(f"Place {number:02}. {'Some words. ' * 20}" for number in range(40))
    (hanging / "hangs.json").write_text(json.dumps([{"text": said, "hang": True}]), encoding="utf-8")

    def places() -> set[str]:
        return set(re.findall(r"Place \d\d", bench.picture()))

    async with workbench(hanging, session="new") as bench:
        await bench.type("Go on")
        await bench.press("enter")
        await bench.sees("Place 39")
        await bench.press("pageup", "pageup", "pageup")
        before = places()
        assert before
        assert "Place 39" not in before
        await bench.resize(120, 30)
        assert before & places()
        await bench.resize(50, 20)
        assert before & places()


async def test_an_answered_turn_stays_on_the_screen_while_the_ledger_cannot_be_written(own_example: Path) -> None:
    async with workbench(own_example, session="demo-other-1") as bench:
        holder = apsw.Connection(str(own_example / "ledger.db"))
        holder.execute("BEGIN IMMEDIATE")
        await bench.type("Is this kept?")
        await bench.press("enter")
        await bench.sees("You said: Is this kept?", "SPOOLED")
        holder.close()
        await bench.sees("Done · ● durable")
        assert "SPOOLED" not in bench.picture()
        assert bench.picture().count("You said: Is this kept?") == 1


async def test_a_server_that_hangs_leaves_the_screen_usable(tmp_path: Path) -> None:
    slow = Server(tmp_path)
    thread = slow.ask("The second conversation")["thread_id"]
    slow.ask("The first conversation")
    async with workbench(tmp_path, server=slow.url, size=(140, 45)) as bench:
        await bench.sees("The first conversation · branch main", "  The second conversation")
        slow.process.send_signal(signal.SIGSTOP)
        await bench.click(8, bench.row("  The second conversation"))
        await bench.press("f1")
        await bench.sees("show or hide the conversations")
        await bench.press("escape")
        await bench.type("Not for the first one")
        await bench.press("enter")
        await bench.sees("still being opened", "The first conversation · branch main")
        slow.process.send_signal(signal.SIGCONT)
        await bench.sees("The second conversation · branch main")
        await bench.press("enter")
        await bench.sees("You said: Not for the first one")
        assert bench.app.conversation.thread_id == thread
        await bench.sees("2 turns, ")  # it leads the list now
        await bench.press("ctrl+n")
        slow.process.send_signal(signal.SIGSTOP)
        await bench.click(8, bench.row("  The second conversation"))
        await bench.press("f5")
        await bench.sees("Branches", "loading …")
        slow.process.send_signal(signal.SIGCONT)
        await bench.sees("main  2 turns")
    slow.stop()


@pytest.mark.req("TUI-2")
async def test_long_work_is_cancelled_with_escape_and_blocks_nothing(own_example: Path) -> None:
    hangs = own_example / "hangs.json"
    hangs.write_text(json.dumps([{"text": "…", "hang": True}]), encoding="utf-8")
    config = own_example / "config.toml"
    written = config.read_text(encoding="utf-8").replace('model = "offline"', 'model = "hangs"')
    config.write_text(f'{written}\n[models.hangs]\nprovider = "scripted"\npath = "{hangs}"\n', encoding="utf-8")
    async with workbench(own_example, session="demo-weather-buoy") as bench:
        await bench.press("ctrl+o", "f")
        await bench.sees("p previews", "Press p to preview")
        await bench.press("p")
        await bench.sees("Previewing …", "Escape cancels")
        await bench.press("f")
        await bench.sees("Previewing still runs")
        await bench.press("escape")
        await bench.sees("Cancelled: Previewing", "p previews")
        await bench.press("escape", "f6")
        await bench.sees("at most 450 EUR")


@pytest.mark.req("TUI-1", "TUI-2")
async def test_a_server_is_used_like_a_ledger_of_this_machine(server: Server, tmp_path: Path) -> None:
    async with workbench(tmp_path, server=server.url, session="new", size=(140, 45)) as bench:
        await bench.type("The lighthouse is red.")
        await bench.press("enter")
        await bench.sees("You said: The lighthouse", "state 1", "pending 0", "Done", "* The lighthouse")
        await bench.press("f4")
        await bench.sees("assistant, turn 1", "user, turn 1")
        await bench.type("lighthouse")
        await bench.press("enter", "enter")
        await bench.sees("1 attached")
        await bench.press("f9")
        await bench.sees("Step 1: scripted", "durable/displayed")
        await bench.press("f2")
        await bench.sees("Prefix reuse", "Rebuilt: identical")
        await bench.press("ctrl+o", "j")
        await bench.sees("The engine is ready")
        await bench.press("ctrl+o", "n", "c")
        await bench.sees("Committed: the head is state 1")


@pytest.mark.req("TUI-2")
async def test_branches_pins_folds_and_memories_are_changed_at_a_server(own_example: Path, tmp_path: Path) -> None:
    served = Server(own_example)
    async with workbench(tmp_path, server=served.url, session="demo-weather-buoy", size=(140, 45)) as bench:
        await bench.sees("A weather buoy", "state 22 ")
        await bench.press("f5", "f")
        await bench.sees("from turn 19, 19 turns")
        await bench.until(lambda: "branch main" not in bench.picture())
        await bench.press("home", "enter")
        await bench.sees("branch main")
        await bench.press("f6", "a")
        await bench.type("The colour is red.")
        await bench.press("enter")
        await bench.sees("3. The colour is red.")
        await bench.press("ctrl+o", "f", "f")
        await bench.sees("Folded: the summary covers", "summary before", "summary after")
        await bench.press("u")
        await bench.sees("Undone: the summary covers turns up to 6")
        await bench.press("f7", "enter", "a")
        await bench.type("Ingrid sails on Sundays.")
        await bench.press("enter")
        await bench.sees("Ingrid sails on Sundays.\n")
        await bench.press("home", "d", "y")
        await bench.until(lambda: "sails on Sundays" not in bench.picture())
    served.stop()


@pytest.mark.proof  # the client tries for ten seconds to reach the server again
async def test_an_answer_stays_on_the_screen_when_the_server_is_killed(tmp_path: Path) -> None:
    killed = Server(tmp_path)
    async with workbench(tmp_path, server=killed.url, session="new", model="hangs") as bench:
        await bench.type("Go on")
        await bench.press("enter")
        await bench.sees("one two three")
        killed.stop(signal.SIGKILL)
        await bench.sees("one two three", "NOT CONNECTED · state")
        await bench.sees("one two three", "DISCONNECTED", "Disconnected · shown 13 B")
        assert "● durable" not in bench.picture()
        await bench.press("ctrl+b", "end", "enter")
        await bench.sees("cannot be reached", "Go on · branch main", "NOT UP TO DATE")
        killed._arguments = ("--port", killed.url.rpartition(":")[2])
        killed.start()
        await bench.sees("INCOMPLETE")
        await bench.until(lambda: "NOT UP TO DATE" not in bench.picture())
    killed.stop()


async def test_an_unknown_model_ends_the_workbench_with_its_error(example: Path) -> None:
    async with workbench(example, session="new", model="nosuch") as bench:
        assert "There is no model 'nosuch'; there are: built-in, demo." in str(bench.app.failure)


async def test_an_unknown_conversation_ends_the_workbench_with_its_error(example: Path) -> None:
    async with workbench(example, session="no-such-conversation") as bench:
        assert "no-such-conversation" in str(bench.app.failure)
