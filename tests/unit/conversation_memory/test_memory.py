"""The five verbs: from any thread, with a loop or without, and when the ledger is away."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import contextinfinity
from contextinfinity.conversation_memory import ConversationMemory, Turn
from contextinfinity.conversation_memory.holding import HeldTurn, InMemoryHolding, Recent
from contextinfinity.conversation_memory.values import LONGEST_TEXT
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.session import Owner
from contextinfinity.errors import LedgerBusy, LedgerClosed
from contextinfinity.settings import Settings, load_settings
from contextinfinity.settings.sections import Retention
from contextinfinity.storage.in_memory import InMemoryStore
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.telemetry.counters import counters
from contextinfinity.testing.builders import new_turn, respond


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ConversationMemory]:
    with ConversationMemory(tmp_path, patience=60) as opened:
        yield opened


def settings(folder: Path, **retention: Any) -> Settings:
    loaded = load_settings(data_dir=folder, environ={}).settings
    return replace(loaded, retention=replace(Retention(), **retention))


def numbers(turns: list[Turn]) -> list[int]:
    return [turn.turn_number for turn in turns]


@pytest.mark.req("CHATMEM-1")
def test_it_is_a_public_name() -> None:
    assert contextinfinity.ConversationMemory is ConversationMemory


# --- what may be stored ---


@pytest.mark.req("CHATMEM-11")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"session_id": "not a uuid"}, "session_id"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": 7}, "session_id"),
        ({"user_id": ""}, "user_id"),
        ({"user_id": "x" * 129}, "user_id"),
        ({"user_id": None}, "user_id"),
        ({"user_id": "\ud800"}, "user_id"),
        ({"query": ""}, "query"),
        ({"query": " \n\t\u3000"}, "query"),
        ({"query": None}, "query"),
        ({"query": "x" * (LONGEST_TEXT + 1)}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"response": "  "}, "response"),
        ({"response": b"bytes"}, "response"),
        ({"response": "x" * (LONGEST_TEXT + 1)}, "response"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {1: 2}}, "metadata"),
        ({"metadata": {"x": float("nan")}}, "metadata"),
        ({"metadata": {"x": "\ud800"}}, "metadata"),
        ({"metadata": {"x": object()}}, "metadata"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_field_and_nothing_is_written(
    changes: dict[str, Any], field: str, memory: ConversationMemory
) -> None:
    session_id = new_id()
    good: dict[str, Any] = {"session_id": session_id, "user_id": "ada", "query": "q", "response": "r", "metadata": {}}
    with pytest.raises(ValueError, match=f"^{field}: it "):
        memory.store_turn(**{**good, **changes})
    assert memory.get_session_history(session_id) == []
    assert memory.store_turn(**good).turn_number == 1


@pytest.mark.req("CHATMEM-11")
def test_the_longest_text_and_name_are_stored(memory: ConversationMemory) -> None:
    session_id, user_id = new_id(), "ü" * 128
    turn = memory.store_turn(session_id, user_id, "x" * LONGEST_TEXT, "y")
    assert memory.get_session_history(session_id) == [turn]
    with pytest.raises(ValueError, match="user_id"):
        memory.create_session("")


def test_a_session_is_its_users_alone(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    with pytest.raises(ValueError, match=r"user_id: .* belongs to"):
        memory.store_turn(session_id, "eve", "q", "r")
    assert memory.get_session_history(session_id) == []


# --- from anywhere ---


@pytest.mark.req("CHATMEM-3")
def test_calls_at_once_get_distinct_consecutive_numbers(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    start = threading.Barrier(8)

    def store(who: int) -> list[int]:
        start.wait()
        return [memory.store_turn(session_id, "ada", f"{who}.{n}", "r").turn_number for n in range(10)]

    with ThreadPoolExecutor(8) as pool:
        given = [number for each in pool.map(store, range(8)) for number in each]
    assert sorted(given) == list(range(1, 81))


@pytest.mark.req("CHATMEM-3")
def test_so_do_two_processes(tmp_path: Path) -> None:
    session_id = new_id()
    with ConversationMemory(tmp_path, patience=60) as memory:
        memory.store_turn(session_id, "ada", "first", "r")
    script = (
        "import sys; from contextinfinity import ConversationMemory\n"
        "with ConversationMemory(sys.argv[1], patience=60) as memory:\n"
        "    for n in range(10): memory.store_turn(sys.argv[2], 'ada', f'{n}', 'r')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), session_id]
    started = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    with ConversationMemory(tmp_path, patience=60) as memory:
        assert numbers(memory.get_session_history(session_id)) == list(range(1, 22))


async def test_it_can_be_called_inside_a_running_loop(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    memory.store_turn(session_id, "ada", "q", "r")
    assert len(await asyncio.to_thread(memory.get_session_history, session_id)) == 1
    assert len(memory.get_session_history(session_id)) == 1


@pytest.mark.req("CHATMEM-8")
def test_the_newest_fifty_are_the_most(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    for n in range(55):
        memory.store_turn(session_id, "ada", f"q{n}", "r")
    assert numbers(memory.get_session_history(session_id)) == list(range(6, 56))
    assert numbers(memory.get_session_history(session_id, limit=1000)) == list(range(6, 56))
    assert numbers(memory.get_session_history(session_id, limit=3)) == [53, 54, 55]
    assert numbers(memory.get_context_for_query(session_id, "And?").history) == list(range(36, 56)), "20 by default"
    assert memory.get_session_history(session_id, limit=0) == []


@pytest.mark.req("CHATMEM-1")
def test_a_query_comes_with_what_it_refers_to(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    memory.store_turn(session_id, "ada", "Who is Donald Trump?", "The 45th president.")
    context = memory.get_context_for_query(session_id, "who are his children")
    assert context.resolved_query == "who are Donald Trump's children"
    assert context.messages[0] == {"role": "user", "content": "Who is Donald Trump?"}
    assert context.messages[-1]["content"].startswith("who are his children\n")
    assert len(memory.get_session_history(session_id)) == 1


@pytest.mark.req("CHATMEM-1", "CHATMEM-4")
def test_a_deleted_session_is_gone_and_its_numbers_are_not_given_again(memory: ConversationMemory) -> None:
    session_id = memory.create_session("ada")
    for n in range(3):
        memory.store_turn(session_id, "ada", f"q{n}", "r")
    assert memory.delete_session(session_id) == 3
    assert memory.get_session_history(session_id) == []
    assert memory.delete_session(session_id) == 0
    assert memory.store_turn(session_id, "ada", "again", "r").turn_number == 4


@pytest.mark.req("CHATMEM-4")
def test_a_session_lives_as_long_as_the_settings_say(tmp_path: Path) -> None:
    with ConversationMemory(settings=settings(tmp_path, conversation_ttl_hours=2.0), patience=60) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "q", "r")
    raw = connect(str(tmp_path / "ledger.db"))
    assert raw.execute("SELECT kind, ttl_hours FROM session").fetchall() == [("chat", 2.0)]
    raw.close()


@pytest.mark.req("CHATMEM-13")
def test_made_stateless_it_stores_and_loads_nothing_and_what_was_stored_stays(tmp_path: Path) -> None:
    with ConversationMemory(settings=settings(tmp_path), patience=60) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "kept", "r")
    with ConversationMemory(settings=settings(tmp_path, stateless=True), patience=60) as memory:
        assert memory.create_session("ada")
        assert memory.store_turn(session_id, "ada", "not kept", "r").query_text == "not kept"
        assert memory.get_session_history(session_id) == []
        assert memory.get_context_for_query(session_id, "And?").history == []
        with pytest.raises(ValueError, match="query"):
            memory.store_turn(session_id, "ada", " ", "r")
    with ConversationMemory(settings=settings(tmp_path), patience=60) as memory:
        assert [turn.query_text for turn in memory.get_session_history(session_id)] == ["kept"]


@pytest.mark.req("CHATMEM-13")
def test_statelessness_and_the_limits_are_settings(tmp_path: Path) -> None:
    environ = {
        "CONTEXTINFINITY_RETENTION__STATELESS": "true",
        "CONVERSATION_TTL_HOURS": "1.5",
        "CLEANUP_INTERVAL_HOURS": "2",
        "CONVERSATION_HISTORY_LIMIT": "7",
    }
    said = load_settings(data_dir=tmp_path, environ=environ).settings.retention
    assert said == Retention(stateless=True, conversation_ttl_hours=1.5, cleanup_interval_hours=2, history_limit=7)


def test_closing_twice_does_nothing_and_afterwards_it_is_closed(tmp_path: Path) -> None:
    memory = ConversationMemory(tmp_path, patience=60)
    memory.close()
    memory.close()
    with pytest.raises(LedgerClosed):
        memory.get_session_history(new_id())


def test_a_ledger_that_was_given_stays_open() -> None:
    store = InMemoryStore()
    with ConversationMemory(store=store, patience=60) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "q", "r")
    found = asyncio.run(store.sessions.get(session_id))
    assert found is not None
    assert found.owner == Owner(user_id="ada")


def test_a_turn_that_is_being_answered_is_waited_for() -> None:
    store = InMemoryStore()
    with ConversationMemory(store=store, patience=60) as memory:
        session_id = memory.create_session("ada")
        session = asyncio.run(store.sessions.get(session_id))
        assert session is not None
        turn = asyncio.run(store.turns.accept(new_turn(session.active_branch, "asked elsewhere")))
        with ThreadPoolExecutor(1) as pool:
            storing = pool.submit(memory.store_turn, session_id, "ada", "q", "r")
            assert memory.get_session_history(session_id) == []
            asyncio.run(_finish(store, turn))
            assert storing.result().turn_number == 2
        assert [each.query_text for each in memory.get_session_history(session_id)] == ["asked elsewhere", "q"]


async def _finish(store: InMemoryStore, turn: Any) -> None:
    from contextinfinity.testing.builders import commit_turn

    await commit_turn(store, await respond(store, turn, "answer"))


# --- when the ledger is away ---


class Locked:
    """Holds the lock of a ledger, so that nobody can write."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(str(path))

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *error: object) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


def until_back(memory: ConversationMemory) -> None:
    ready = threading.Event()
    while memory.is_degraded:
        ready.wait(0.005)


@pytest.mark.req("CHATMEM-6", "METRICS-3")
def test_a_locked_ledger_holds_up_one_call_and_gets_everything_in_order_once(tmp_path: Path) -> None:
    memory = ConversationMemory(tmp_path, patience=0.5, probe=0.01)
    session_id = memory.create_session("ada")
    memory.store_turn(session_id, "ada", "before", "r")
    before = counters().get("turn_writes_failed", 0)
    with Locked(tmp_path / "ledger.db"):
        held = [memory.store_turn(session_id, "ada", f"away {n}", "r") for n in range(5)]
        assert numbers(held) == [2, 3, 4, 5, 6]
        assert memory.is_degraded
        said = [turn.query_text for turn in memory.get_session_history(session_id)]
        assert said == ["before", *(f"away {n}" for n in range(5))]
    assert counters()["turn_writes_failed"] == before + 5
    until_back(memory)
    memory.store_turn(session_id, "ada", "after", "r")
    history = memory.get_session_history(session_id)
    assert [turn.query_text for turn in history] == ["before", *(f"away {n}" for n in range(5)), "after"]
    assert numbers(history) == list(range(1, 8))
    assert [turn.id for turn in history[1:6]] == [turn.id for turn in held]
    memory.close()


@pytest.mark.req("CHATMEM-6")
def test_what_can_be_held_is_bounded_and_more_is_refused_before_it_is_acknowledged(tmp_path: Path) -> None:
    memory = ConversationMemory(tmp_path, patience=0.05, probe=3600, holding=InMemoryHolding(most=2))
    session_id = memory.create_session("ada")
    with Locked(tmp_path / "ledger.db"):
        for n in range(2):
            memory.store_turn(session_id, "ada", f"{n}", "r")
        with pytest.raises(LedgerBusy, match="too many"):
            memory.store_turn(session_id, "ada", "one too many", "r")
        assert len(memory.get_session_history(session_id)) == 2
    memory.close()


def test_holding_counts_characters_too() -> None:
    holding = InMemoryHolding(characters=20)
    turn = HeldTurn(
        id="a", session_id="s", user_id="u", query="q" * 10, response="r" * 8, metadata={}, created_at=now()
    )
    assert holding.hold(turn)
    assert not holding.hold(replace_id(turn, "b"))
    holding.let_go("a")
    assert holding.hold(replace_id(turn, "b"))
    assert [held.id for held in holding.waiting()] == ["b"]


def replace_id(turn: HeldTurn, turn_id: str) -> HeldTurn:
    return HeldTurn(**{**turn.__dict__, "id": turn_id})


def test_what_was_said_last_is_remembered_within_bounds() -> None:
    recent = Recent(sessions=2)
    for number in range(60):
        said: dict[str, Any] = {"query_text": "q", "response_text": "r", "created_at": now()}
        turn = Turn(id=f"{number}", session_id="a", user_id="u", turn_number=number, **said)
        recent.note("a", (turn,))
    assert numbers(recent.turns("a")) == list(range(10, 60))
    recent.note("b", ())
    recent.note("c", ())
    assert recent.turns("a") == []


def test_a_turn_of_plain_words_is_what_the_ledger_keeps(memory: ConversationMemory, tmp_path: Path) -> None:
    session_id = memory.create_session("ada")
    turn = memory.store_turn(session_id, "ada", "q", "r", {"intent": "ask"})
    raw = connect(str(tmp_path / "ledger.db"))
    (row,) = raw.execute("SELECT * FROM conversation_turns").fetchall()
    raw.close()
    assert row[:6] == (turn.id, session_id, "ada", 1, "q", "r")
    assert row[7] == '{"intent":"ask"}'
    assert say("user", "q").rendered_text == row[4]
