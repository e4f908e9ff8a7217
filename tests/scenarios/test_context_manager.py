"""An application that calls its model itself, with a ContextManager for the history."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import contextinfinity
from contextinfinity import ContextManager
from contextinfinity.domain.session import Owner
from contextinfinity.errors import LedgerError, OutOfOrder
from contextinfinity.prompt.layout import SUMMARY, UNDERSTOOD
from contextinfinity.settings import General, ModelSettings, Settings
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, commit_turn, final_turn

MODEL = "gpt-4o"
SMALL = {
    "compaction_trigger_tokens": 400,
    "verbatim_window_tokens": 100,
    "summary_budget_tokens": 200,
    "min_verbatim_exchanges": 2,
}


@pytest.fixture
def machine(tmp_path: Path) -> Settings:
    """The settings of a machine that has no ledger yet."""
    general = General(data_dir=str(tmp_path / "data"), default_model="echo")
    return Settings(general=general, models={"echo": ModelSettings(provider="scripted")})


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "inner").mkdir(parents=True)
    return tmp_path / "repo"


def question(number: int) -> str:
    return f"Question {number}: how do we keep report {number} readable for people who come late to it?"


def answer(number: int) -> str:
    return f"Answer {number}: we decided to use module part_{number}.py and to leave the figures for the end."


def fill(context: ContextManager, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        context.add_exchange(question(number), answer(number))


def is_pairs(history: list[dict[str, str]]) -> bool:
    """Whether questions and answers alternate, a question first."""
    return [message["role"] for message in history] == ["user", "assistant"] * (len(history) // 2)


# --- one repository, many processes ---


@pytest.mark.req("MANAGER-1", "HISTORY-6")
def test_a_new_manager_on_the_same_repository_goes_on_where_the_last_one_was(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine) as context:
        context.add_exchange("Q", "A")
    with ContextManager("claude-opus-5", str(repo / "inner" / ".."), settings=machine) as context:
        assert [message["content"] for message in context.get_history()] == ["Q", "A"]
        context.clear_history()
    with ContextManager(MODEL, repo, settings=machine) as context:
        assert context.get_history() == []
        context.set_history([{"role": "user", "content": "Again"}])
    with ContextManager(MODEL, repo, settings=machine) as context:
        assert context.get_history() == [{"role": "user", "content": "Again"}]
    with ContextManager(MODEL, repo / "inner", settings=machine) as context:
        assert context.get_history() == []


@pytest.mark.req("MANAGER-1", "HISTORY-6")
def test_without_settings_those_of_the_machine_count(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTINFINITY_GENERAL__DATA_DIR", str(tmp_path / "here"))
    with ContextManager(MODEL, repo) as context:
        context.add_exchange("Q", "A")
    with ContextManager(MODEL, repo) as context:
        assert len(context.get_history()) == 2
    assert (tmp_path / "here" / "ledger.db").is_file()


@pytest.mark.req("MANAGER-1")
def test_without_a_repository_nothing_is_written(machine: Settings, tmp_path: Path) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=SMALL) as context:
        fill(context, 12)
        assert context.compact_history_if_needed() is not None
        assert list(tmp_path.iterdir()) == []
    with ContextManager(MODEL, settings=machine) as context:
        assert context.get_history() == []


@pytest.mark.req("HISTORY-6")
def test_a_ledger_that_cannot_be_read_is_left_alone_with_a_warning(
    machine: Settings, repo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = machine.data_dir / "ledger.db"
    ledger.parent.mkdir()
    ledger.write_bytes(b"this is no database at all, and it is somebody's " * 100)
    before = ledger.read_bytes()
    with caplog.at_level(logging.WARNING), ContextManager(MODEL, repo, settings=machine) as context:
        assert context.get_history() == []
        context.add_exchange("secret question", "A")
        assert len(context.get_history()) == 2
    assert "cannot be loaded" in caplog.text
    assert "secret question" not in caplog.text
    assert ledger.read_bytes() == before


@pytest.mark.req("MANAGER-1", "THREAD-6")
async def test_what_leaves_the_list_stays_in_the_ledger(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine) as context:
        context.add_exchange("first", "one")
        context.clear_history()
        context.add_exchange("second", "two")
        context.set_history([{"role": "user", "content": "third"}])
    store = SqliteStore(machine.data_dir / "ledger.db")
    (session,) = await store.sessions.list(Owner())
    assert session.title == "repo"
    assert str(repo) not in str(session.external_id)
    branches = await store.branches.list(session.id)
    said = [turn.user_message.rendered_text for each in branches for turn in await store.turns.history(each.id)]
    assert said == ["first", "second", "third"]
    assert (await store.jobs.list(), await store.workers.dead()) == ((), ())
    await store.close()


@pytest.mark.req("MANAGER-1")
async def test_the_history_is_a_thread_that_the_engine_can_answer(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine, compaction_config=SMALL) as context:
        fill(context, 12)
        assert context.compact_history_if_needed() is not None
        async with contextinfinity.open(machine) as engine:
            (session,) = await engine.store.sessions.list(Owner())
            reply = await engine.ask(session.id, "And now?")
            assert await engine.job_runner.drain(30)
            seen = await engine.explain(reply.turn_id)
        history = context.get_history()
        assert [message["content"] for message in history[-2:]] == ["And now?", reply.text]
        assert question(0) not in [message.rendered_text for message in seen.messages]
        assert history[-3]["content"] in str(seen)
        context.add_exchange("Q", "A")
        assert context.get_history()[-2]["content"] == "Q"


@pytest.mark.req("MANAGER-1")
async def test_a_message_waits_for_a_turn_that_is_about_to_be_committed(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine) as context:
        context.add_exchange("Q", "A")
        store = SqliteStore(machine.data_dir / "ledger.db")
        (session,) = await store.sessions.list(Owner())
        turn = await final_turn(store, session.active_branch, "one", "two")
        with pytest.raises(OutOfOrder):  # on this loop the turn might be answered: it is not held up for long
            context.add_exchange("three", "four")
        adding = asyncio.create_task(asyncio.to_thread(context.add_exchange, "three", "four"))
        await asyncio.to_thread(context.get_history)
        await commit_turn(store, turn)
        await adding
        assert [message["content"] for message in context.get_history()] == ["Q", "A", "one", "two", "three", "four"]
        await answer_turn(store, session.active_branch, "five", "six")
        assert len(context.get_history()) == 8
        await store.close()


# --- folding ---


@pytest.mark.req("MANAGER-1", "COMPACT-1", "COMPACT-3")
@pytest.mark.parametrize("kept", [True, False])
def test_a_long_history_becomes_a_summary_and_its_newest_part(machine: Settings, repo: Path, *, kept: bool) -> None:
    root = repo if kept else None
    with ContextManager(MODEL, root, settings=machine, compaction_config=SMALL) as context:
        fill(context, 20)
        before, tokens = context.get_history(), context.history_token_count()
        done = context.compact_history_if_needed()
        history = context.get_history()
        assert done is not None
        assert done["case"] in ("truncate", "summarize")
        assert (done["messages_before"], done["messages_after"]) == (40, len(history))
        assert (done["tokens_before"], done["tokens_after"]) == (tokens, context.history_token_count())
        assert done["tokens_after"] < done["tokens_before"]
        assert history[0] == {"role": "user", "content": f"{SUMMARY}\n{done['summary']}"}
        assert history[1] == {"role": "assistant", "content": UNDERSTOOD}
        assert history[2:] == before[-len(history[2:]) :]
        assert len(history[2:]) >= 4
        assert is_pairs(history)
        assert not context.should_compact()
        assert context.compact_history_if_needed() is None


@pytest.mark.req("MANAGER-1", "COMPACT-1")
def test_a_conversation_without_end_stays_within_its_budget(machine: Settings, repo: Path) -> None:
    largest, folds = 0, 0
    with ContextManager(MODEL, repo, settings=machine, compaction_config=SMALL) as context:
        for number in range(150):
            fill(context, 1, first=number)
            folds += context.compact_history_if_needed() is not None
            largest = max(largest, context.history_token_count())
        summary, history = context.get_history()[0]["content"], context.get_history()
    assert folds > 5
    assert largest < 400 + 200 + 100
    assert summary.startswith(SUMMARY)
    assert history[-1]["content"] == answer(149)
    with ContextManager(MODEL, repo, settings=machine) as context:
        assert context.get_history() == history


@pytest.mark.req("MANAGER-1", "COMPACT-3")
async def test_a_fold_that_was_undone_is_not_made_again_at_once(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine, compaction_config=SMALL) as context:
        fill(context, 12)
        before = context.get_history()
        assert context.compact_history_if_needed() is not None
        async with contextinfinity.open(machine) as engine:
            (session,) = await engine.store.sessions.list(Owner())
            await engine.unfold(session.id)
        assert context.should_compact()
        done = context.compact_history_if_needed()
        assert done is not None
        assert (done["case"], done["tokens_after"]) == ("none", done["tokens_before"])
        assert context.get_history() == before
        fill(context, 12, first=12)
        done = context.compact_history_if_needed()
        assert done is not None
        assert done["case"] != "none"


@pytest.mark.req("COMPACT-4")
def test_a_listener_hears_of_compaction_and_may_call_the_manager(machine: Settings) -> None:
    heard: list[tuple[dict[str, Any], int, threading.Thread]] = []

    def on_event(event: dict[str, Any]) -> None:
        heard.append((event, len(context.get_history()), threading.current_thread()))

    with ContextManager(MODEL, settings=machine, compaction_config=SMALL, on_event=on_event) as context:
        fill(context, 3)
        context.compact_history_if_needed()
        assert heard == []
        fill(context, 17)
        done = context.compact_history_if_needed()
    assert done is not None
    (started, first, thread), (completed, then, _) = heard
    assert started == {"type": "compaction_start"}
    assert completed["type"] == "compaction_complete"
    assert completed["case"] == done["case"]
    assert completed["tokens_after"] < completed["tokens_before"]
    assert first >= then == done["messages_after"]
    assert thread is threading.current_thread()


@pytest.mark.req("COMPACT-4")
def test_a_listener_that_fails_breaks_nothing(machine: Settings, caplog: pytest.LogCaptureFixture) -> None:
    def on_event(event: dict[str, Any]) -> None:
        raise ValueError("the secret of the listener")

    with ContextManager(MODEL, settings=machine, compaction_config=SMALL, on_event=on_event) as context:
        fill(context, 20)
        assert context.compact_history_if_needed() is not None
        assert not context.should_compact()
    assert "on_event failed with ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.req("COMPACT-4", "BUDGET-6")
def test_a_fold_that_fails_is_told_and_changes_nothing_and_truncation_still_helps(
    machine: Settings, repo: Path
) -> None:
    """The ledger refuses folds, as one does whose disk fails just then."""
    heard: list[dict[str, Any]] = []
    with ContextManager(MODEL, repo, settings=machine, compaction_config=SMALL, on_event=heard.append) as context:
        fill(context, 20)
        before = context.get_history()
        database = SqliteStore(machine.data_dir / "ledger.db").database
        refuse = "CREATE TRIGGER refuse BEFORE INSERT ON state BEGIN SELECT RAISE(ABORT, 'no'); END"
        database.writing(lambda connection: connection.raw.execute(refuse)).result()
        with pytest.raises(LedgerError):
            context.compact_history_if_needed()
        assert [event["type"] for event in heard] == ["compaction_start", "compaction_error"]
        assert heard[-1]["message"]
        assert context.get_history() == before
        database.writing(lambda connection: connection.raw.execute("DROP TRIGGER refuse")).result()
        database.close()
        assert context.emergency_truncate() > 0
        assert not context.should_compact()


# --- truncating ---


def covers(summary: str, turn_seq: int) -> bool:
    """Return whether a line of a summary names a turn, alone or in a range."""
    named = re.findall(r"^#(\d+)(?:–(\d+))? ", summary, re.M)
    return any(int(first) <= turn_seq <= int(last or first) for first, last in named)


@pytest.mark.req("BUDGET-6")
@pytest.mark.parametrize("config", [SMALL, {**SMALL, "enabled": False}])
def test_emergency_truncation_leaves_whole_pairs_and_the_summary_covers_those_that_left(
    machine: Settings, config: dict[str, object]
) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=config) as context:
        context.add_exchange("My sister is allergic to peanuts, never suggest them.", "Noted.")
        fill(context, 29)
        before = context.get_history()
        left = context.emergency_truncate()
        history = context.get_history()
        assert left == 60 - len(history[2:]) > 0
        assert is_pairs(history)
        assert history[2:] == before[left:]
        lines = history[0]["content"].splitlines()
        assert lines[0] == SUMMARY
        assert any(line.startswith("#1 user: ") and "peanuts" in line for line in lines)
        assert covers(history[0]["content"], left // 2)
        assert context.get_compaction_status()["percent"] <= 100
        assert context.history_token_count() <= 400 + 200 + 40
        assert context.emergency_truncate() == 0
        assert context.get_history() == history


@pytest.mark.req("BUDGET-6")
@pytest.mark.parametrize("before", [0, 1])
def test_emergency_truncation_leaves_no_tool_result_without_its_question(machine: Settings, before: int) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=SMALL) as context:
        fill(context, before)
        for number in range(20):
            context.add_exchange(f"What is the depth at pier {number} of the harbour?", "I measure it.")
            context.add_message("tool", f"The depth at pier {number} of the harbour: {number} m.")
            context.add_message("assistant", f"It is {number} metres.")
        assert context.emergency_truncate() > 0
        assert context.get_history()[2]["role"] == "user"


@pytest.mark.req("BUDGET-6")
def test_nothing_is_truncated_up_to_twice_the_trigger(machine: Settings) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=SMALL) as context:
        while context.get_compaction_status()["percent"] <= 180:
            fill(context, 1)
        before = context.get_history()
        assert context.emergency_truncate() == 0
        assert context.get_history() == before


@pytest.mark.req("BUDGET-6")
def test_the_last_exchange_and_what_belongs_to_it_are_never_truncated(machine: Settings) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=SMALL) as context:
        context.add_exchange("word " * 2000, "word " * 2000)
        assert context.emergency_truncate() == 0
        context.add_message("user", "word " * 2000)
        context.add_message("tool", "word " * 2000)
        context.add_message("assistant", "word " * 2000)
        assert context.emergency_truncate() == 2
        assert [message["role"] for message in context.get_history()] == [
            *("user", "assistant"),
            *("user", "tool", "assistant"),
        ]


@pytest.mark.req("BUDGET-6")
def test_truncating_again_and_again_keeps_the_summary_short(machine: Settings) -> None:
    with ContextManager(MODEL, settings=machine, compaction_config=SMALL) as context:
        for number in range(0, 300, 30):
            fill(context, 30, first=number)
            assert context.emergency_truncate() > 0
            assert context.history_token_count() <= 400 + 200 + 40
            summary, _, oldest = context.get_history()[:3]
            last = int(oldest["content"].split()[1].rstrip(":"))
            assert covers(summary["content"], last)


# --- callers ---


@pytest.mark.req("MANAGER-1")
async def test_it_works_inside_a_running_event_loop(machine: Settings, repo: Path) -> None:
    with ContextManager(MODEL, repo, settings=machine, compaction_config=SMALL) as context:
        fill(context, 12)
        assert context.compact_history_if_needed() is not None
        assert await asyncio.to_thread(context.get_history) == context.get_history()


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize("kept", [True, False])
def test_many_threads_may_add_read_and_compact_at_once(machine: Settings, repo: Path, *, kept: bool) -> None:
    root = repo if kept else None
    with ContextManager(MODEL, root, settings=machine, compaction_config=SMALL) as context:

        def work(worker: int) -> None:
            for number in range(15):
                context.add_exchange(f"worker {worker} asks {number}", f"worker {worker} hears {number}")
                history = context.get_history()
                assert is_pairs(history)
                context.compact_history_if_needed()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert is_pairs(context.get_history())
        for asked, told in zip(context.get_history()[2::2], context.get_history()[3::2], strict=True):
            assert asked["content"].replace("asks", "hears") == told["content"]


@pytest.mark.req("MANAGER-1")
def test_no_thread_is_left_after_closing(machine: Settings, repo: Path) -> None:
    before = set(threading.enumerate())
    for root in (None, repo):
        with ContextManager(MODEL, root, settings=machine, compaction_config=SMALL) as context:
            fill(context, 12)
            assert context.compact_history_if_needed() is not None
    assert set(threading.enumerate()) <= before


FORKED = """
import os, sys
from contextinfinity import ContextManager
from contextinfinity.errors import Refused
context = ContextManager("gpt-4o", sys.argv[1] or None)
context.add_exchange("Q", "A")
if os.fork() == 0:
    try:
        context.get_history()
    except Refused as error:
        context.close()
        with ContextManager("gpt-4o", sys.argv[1] or None) as own:
            own.add_exchange("Q2", "A2")
        print(error.hint, flush=True)
        sys.exit(0)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print(len(context.get_history()), flush=True)
"""


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize("kept", [True, False])
def test_a_forked_process_is_told_to_make_its_own_and_nobody_hangs(
    machine: Settings, repo: Path, *, kept: bool
) -> None:
    """The script also ends without closing, as programs do."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(repo) if kept else ""],
        env={"CONTEXTINFINITY_GENERAL__DATA_DIR": str(machine.data_dir), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["Create a new one after a fork.", "4" if kept else "2"]


@pytest.mark.req("COMPACT-2", "MANAGER-1")
@pytest.mark.parametrize(
    ("says", "case"),
    [
        (
            {"boundary_index": 38, "boundary_reason": "a new file", "confidence": 0.9, "summary": ""},
            "truncate",
        ),
        ({"boundary_index": 38, "boundary_reason": "perhaps", "confidence": 0.3, "summary": ""}, "summarize"),
        ("no JSON at all", "summarize"),
    ],
)
def test_a_detection_model_finds_where_the_topic_changed(
    machine: Settings, repo: Path, tmp_path: Path, says: object, case: str
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([says if isinstance(says, str) else json.dumps(says)]), encoding="utf-8")
    models = {**machine.models, "small": ModelSettings(provider="scripted", path=str(script))}
    config = {**SMALL, "detection_model": "small"}
    with ContextManager(MODEL, repo, settings=replace(machine, models=models), compaction_config=config) as context:
        for number in range(20):
            context.add_exchange(f"Question {number}, on reports", f"Answer {number}. {'word ' * 30}")
        done = context.compact_history_if_needed()
        assert done is not None
        assert done["case"] == case
