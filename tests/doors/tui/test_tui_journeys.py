"""What people do with the workbench, key by key."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from contextinfinity.cli.command_options import Terminated
from contextinfinity.cli.tui_command import leaving_on_signals
from contextinfinity.client.references import short
from contextinfinity.tui.composer import Composer
from tests.doors.cix import Cix
from tests.doors.tui.conftest import TURNS
from tests.doors.tui.workbench import workbench

pytestmark = pytest.mark.xdist_group("tui")

COMMITS_FAIL = """\
CREATE TRIGGER commits_fail BEFORE UPDATE ON turn WHEN new.phase = 'StateCommitted'
BEGIN SELECT RAISE(ABORT, 'not yet'); END"""


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


@pytest.mark.req("TUI-2")
async def test_forks_rollbacks_pins_and_found_chunks_reach_the_next_message(own_example: Path) -> None:
    async with workbench(own_example, size=(140, 45), session="demo-weather-buoy") as bench:
        await bench.sees("A weather buoy", "risk")
        await bench.press("f5")
        await bench.sees("Branches", "from turn 4", "open, active")
        await bench.press("f")
        await bench.sees("from turn 19")
        await bench.press("shift+tab", "k", "k")
        await bench.until(lambda: bench.app.conversation.selected == 18)
        await bench.press("tab", "r")
        await bench.sees("Back after turn 18")  # a notice, which disappears
        await bench.sees("main  19 turns", "from turn 19, 19 turns", "from turn 18, 18 turns")
        here = bench.app.conversation
        branches = await here.call(here.client.threads.branches(str(here.thread_id)))
        assert [(one.branch_id, one.fork_seq) for one in branches if one.active] == [(here.branch_id, 18)]
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
        await bench.sees("INCOMPLETE: The process that answered was stopped before the end. Ctrl+R")


async def test_a_long_conversation_is_read_around_the_view_only(own_example: Path) -> None:
    async with workbench(own_example, session="demo-harbour-log", size=(80, 24)) as bench:
        await bench.sees(f"Entry {TURNS}")
        await bench.press("f3")
        await bench.press("end", "enter")
        await bench.sees("Entry 1:", "Entry 2:")
        await bench.until(lambda: bench.transcript.selected == 1)
        assert len(bench.app.query("*")) < 80
        assert len(bench.transcript._drawn) < 40, "only the turns that were in view are drawn"
        await bench.press("f3", *["pagedown"] * 6, "enter")
        await bench.sees(f"Entry {TURNS - 60}:")
        await bench.press("f9")
        await bench.sees(f"Turn {TURNS - 60}: Done")
        await bench.press("f2")
        await bench.sees(f"No model was asked in turn {TURNS - 60}")
        await bench.press("f9")
        await bench.press("k", "k", "j")
        await bench.sees(f"Turn {TURNS - 61}: Done")
        await bench.press("escape")
        await bench.sees(f"Entry {TURNS - 61}:")
        await bench.resize(130, 40)
        await bench.sees(f"Entry {TURNS - 61}:")


@pytest.mark.req("TUI-2")
async def test_a_fold_is_previewed_made_and_undone(own_example: Path) -> None:
    async with workbench(own_example, size=(140, 90), session="demo-weather-buoy") as bench:
        await bench.press("ctrl+o", "f", "p")
        await bench.sees("Preview: the summary covers turns up to", "Turns to fold")
        states = bench.header("state")
        await bench.sees("summary before", "summary after", "+ #12 user: The budget is 450")
        assert bench.header("state") == states, "a preview changes nothing"
        await bench.press("f")
        await bench.until(lambda: bench.header("state") > states)
        await bench.sees("Folded: the summary covers")
        await bench.press("u")
        await bench.sees("Undone: the summary covers turns up to 6")


@pytest.mark.req("TUI-2")
async def test_memories_are_found_and_changed_models_chosen_and_turns_edited(own_example: Path) -> None:
    async with workbench(own_example, session="demo-weather-buoy") as bench:
        await bench.press("f7")
        await bench.sees("Ingrid teaches physics", "Ingrid prefers short answers")
        await bench.press(*"Tornby")
        await bench.settled()
        await bench.sees("Ingrid teaches physics")
        assert "Ingrid prefers short answers" not in bench.picture()
        await bench.press("enter", "home", "e")
        await bench.sees("Change this memory")
        await bench.press("end")
        await bench.type(" Really.")
        await bench.press("enter")
        await bench.until(lambda: "Change this memory" not in bench.picture() and "Really." in bench.picture())
        await bench.press("d")
        await bench.sees("No, keep everything")
        await bench.press("escape")
        await bench.settled()
        assert "Really." in bench.picture()
        await bench.press("d")
        await bench.sees("No, keep everything")
        await bench.press("y")
        await bench.sees("Nothing found for Tornby.")
        await bench.press("ctrl+o", "l")
        await bench.sees("chosen by the router (usually demo)")
        await bench.press("down", "enter")
        await bench.sees("demo answers from now on", "branch main · demo")
        await bench.press("tab", "k", "enter")
        await bench.sees("Turn 19", "Edit the question")
        await bench.press("e")
        await bench.type(" Thanks.")
        await bench.press("enter")
        await bench.sees("Three sentences. Thanks.", "Done")
        assert "branch main" not in bench.picture()


async def test_home_and_end_reach_the_ends_of_a_long_conversation(example: Path) -> None:
    async with workbench(example, session="demo-harbour-log") as bench:
        await bench.sees(f"Entry {TURNS}:")
        await bench.press("shift+tab", "home")
        await bench.sees("Entry 1:")
        await bench.press("end")
        await bench.sees(f"Entry {TURNS}:")


async def test_the_search_above_the_conversations_says_where_something_was_said(example: Path) -> None:
    async with workbench(example, session="demo-other-1") as bench:
        await bench.press("ctrl+f")
        await bench.type("lifting bag")
        await bench.sees("10, A weather buoy", "lifting bag")
        await bench.press("f9")
        await bench.sees("Steps and tool calls")
        await bench.press("ctrl+f", "down", "enter")
        await bench.sees("A weather buoy for the harbour · branch main", "Mr Holm")
        assert "Steps and tool calls" not in bench.picture(), "the panel would cover the turn"
        await bench.until(lambda: bench.transcript.selected == 10)


@pytest.mark.req("TUI-2")
async def test_the_search_panel_looks_in_all_conversations_or_in_this_one(example: Path) -> None:
    async with workbench(example, session="demo-weather-buoy", size=(140, 45)) as bench:
        await bench.press("f4")
        await bench.type("fog until noon")
        await bench.sees("Entry ")
        await bench.press("enter", "s")
        await bench.sees("Searching in this conversation.")
        await bench.until(lambda: "Entry " not in bench.picture())


@pytest.mark.req("TUI-2")
async def test_the_palette_runs_commands_by_name(example: Path) -> None:
    async with workbench(example, session="demo-other-1") as bench:
        await bench.press("ctrl+p")
        await bench.type("commit pending")
        await bench.sees("Commit answered turns at once")
        await bench.press("down", "enter")
        await bench.sees("The head is state")


@pytest.mark.req("TUI-1", "TUI-2")
async def test_pending_turns_are_counted_listed_and_committed_from_panel_and_palette(own_example: Path) -> None:
    ledger = apsw.Connection(str(own_example / "ledger.db"))
    ledger.set_busy_timeout(60_000)  # the process tries to commit meanwhile
    ledger.execute(COMMITS_FAIL)
    async with workbench(own_example, session="demo-other-1", size=(140, 45)) as bench:
        await bench.type("Is this committed?")
        await bench.press("enter")
        await bench.sees("You said: Is this committed?", "pending 1 · ResponseFinalized")
        states = bench.header("state")
        await bench.press("ctrl+o", "n")
        await bench.sees("ResponseFinalized, completed", "turn 3  ")
        ledger.execute("DROP TRIGGER commits_fail")
        await bench.press("c")
        await bench.sees(f"Committed: the head is state {states + 1}.")  # a notice, which disappears
        await bench.sees("pending 0 · Done", "Nothing is pending")
        branch = bench.app.conversation.branch
        assert branch is not None
        await bench.sees(f"state {states + 1} {short(branch.head_state)} ")


@pytest.mark.req("TUI-2")
async def test_the_chosen_model_answers_and_pins_are_removed(own_example: Path) -> None:
    with (own_example / "config.toml").open("a", encoding="utf-8") as config:
        config.write('\n[models.second]\nprovider = "scripted"\n')
    async with workbench(own_example, session="demo-weather-buoy", size=(140, 45)) as bench:
        await bench.press("ctrl+o", "l")
        await bench.sees("  second")
        await bench.press("end", "enter")
        await bench.sees("branch main · second")
        await bench.press("escape")
        await bench.type("Who are you?")
        await bench.press("enter")
        await bench.sees("Who are you?", "(An echo", "state 23 ", "Done")
        await bench.press("f9")
        await bench.sees("Step 1: scripted second")
        await bench.press("f6")
        await bench.sees("1. The whole buoy", "2. Answers for the class")
        await bench.press("d")
        await bench.sees("Remove from every prompt:  1. The whole buoy", "No, keep everything")
        await bench.press("escape", "d")
        await bench.sees("No, keep everything")
        await bench.press("y")
        await bench.sees("1. Answers for the class")
        assert "The whole buoy" not in bench.picture()


@pytest.mark.req("TUI-1")
async def test_a_small_screen_shows_where_it_stands(example: Path) -> None:
    async with workbench(example, session="demo-weather-buoy", size=(50, 20)) as bench:
        await bench.sees("A weather b…", "branch main · model", "state 22 ", "pending 0 · Done")
        await bench.resize(130, 40)
        await bench.sees("A weather buoy for the harbour · branch main · model chosen by the router")


async def test_joiners_that_are_typed_reach_the_message(example: Path) -> None:
    async with workbench(example, session="new") as bench:
        await bench.press(*"می\u200cروم 👩\u200d🔧")
        assert bench.app.query_one(Composer).text == "می\u200cروم 👩\u200d🔧"
        await bench.press("ctrl+r", "ctrl+r", "ctrl+r")
        await bench.sees("There is no question to ask again.")
        assert len(bench.app._notifications) == 1, "a notice that is on the screen is not repeated"


async def test_the_mouse_selects_opens_and_chooses(example: Path) -> None:
    async with workbench(example, session="demo-weather-buoy", size=(140, 45)) as bench:
        await bench.click(60, bench.row("The board wants to know"))
        assert bench.transcript.selected == 19
        await bench.click(60, bench.row("The board wants to know"), times=2)
        await bench.sees("Roll back")
        await bench.press("escape")
        await bench.click(8, bench.row("Harbour log"))
        await bench.sees(f"Logged entry {TURNS}")
        await bench.press("f3")
        await bench.sees(f"{TURNS - 5}  ")
        await bench.click(110, bench.row(f"Entry {TURNS - 5}:"))
        await bench.until(lambda: bench.transcript.selected == TURNS - 5)


async def test_plain_mode_has_words_in_the_place_of_drawings(example: Path) -> None:
    drawn = set("▌█▒●◌│─└╭╮▊▎▔▁▂▃▄▅▆▇🔎")
    async with workbench(example, session="demo-weather-buoy", plain=True) as bench:
        await bench.sees("You, 19", "demo, ", "durable: all")
        assert not drawn & set(bench.picture())
        await bench.press("f2")
        await bench.sees("tokens (", "Prefix reuse")
        assert not drawn & set(bench.picture())
        await bench.press("f5")
        await bench.sees("level 1: main", "level 2: ")
        assert not drawn & set(bench.picture())
        await bench.press("ctrl+o", "f", "p")
        await bench.sees("Preview: ")
        await bench.resize(80, 90)  # everything without scrolling
        await bench.sees("+ #12 user: The budget is 450 EUR in all")
        assert "summary before" not in bench.picture(), "columns cannot be read aloud"
        await bench.press("ctrl+p")
        await bench.sees("Commit pending now")
        assert not drawn & set(bench.picture())


async def test_light_and_dark_change_all_colours(example: Path) -> None:
    async with workbench(example, session="demo-weather-buoy", light=True) as bench:
        assert bench.brightness() > 0.8
        await bench.press("ctrl+t")
        await bench.until(lambda: bench.brightness() < 0.2)
        assert bench.transcript.look.dark


def test_commit_says_where_the_head_is(own_example: Path) -> None:
    committed = Cix(own_example).json("commit", "demo-weather-buoy")
    assert committed["pending"] == 0
    assert committed["state"] > 0


async def test_a_terminating_signal_leaves_the_workbench(own_example: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with workbench(own_example, session="new") as bench:
        leaving = ExitStack()
        leaving.enter_context(leaving_on_signals(bench.app))
        os.kill(os.getpid(), signal.SIGTERM)  # while a task runs, which it must not break off
        await bench.until(lambda: bench.app._exit)
        with pytest.raises(Terminated):
            leaving.close()
    assert signal.getsignal(signal.SIGTERM) == before
