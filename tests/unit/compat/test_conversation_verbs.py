"""The five verbs: from any thread, with a loop or without. What a ledger that is away means is in tests/recovery."""

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
from contextinfinity.compat.chat_sessions import LONGEST_TEXT, Turn
from contextinfinity.compat.conversation_memory import ConversationMemory
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.session import Owner
from contextinfinity.errors import LedgerClosed, OutOfOrder
from contextinfinity.settings import Settings, load_settings
from contextinfinity.settings.sections import Retention
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_turn, respond


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ConversationMemory]:
    with ConversationMemory(tmp_path) as opened:
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
        ({"user_id": "a\0b"}, "user_id"),
        ({"query": "a\0b"}, "query"),
        ({"response": "a\0b"}, "response"),
        ({"metadata": {"x": ["\0"]}}, "metadata"),
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
    with ConversationMemory(tmp_path) as memory:
        memory.store_turn(session_id, "ada", "first", "r")
    script = (
        "import sys; from contextinfinity import ConversationMemory\n"
        "with ConversationMemory(sys.argv[1]) as memory:\n"
        "    for n in range(10): memory.store_turn(sys.argv[2], 'ada', f'{n}', 'r')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), session_id]
    started = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    with ConversationMemory(tmp_path) as memory:
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


@pytest.mark.req("CHATMEM-8", "CHATMEM-11")
@pytest.mark.parametrize("limit", [2.5, "5", True, None])
def test_a_limit_that_is_no_number_is_refused_and_the_ledger_stays(memory: ConversationMemory, limit: Any) -> None:
    session_id = memory.create_session("ada")
    with pytest.raises(ValueError, match="limit: it must be an integer"):
        memory.get_session_history(session_id, limit)
    if limit is not None:
        with pytest.raises(ValueError, match="limit: it must be an integer"):
            memory.get_context_for_query(session_id, "And?", limit)
    assert not memory.is_degraded


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
    with ConversationMemory(settings=settings(tmp_path, conversation_ttl_hours=2.0)) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "q", "r")
    raw = connect(str(tmp_path / "ledger.db"))
    assert raw.execute("SELECT kind, ttl_hours FROM session").fetchall() == [("chat", 2.0)]
    raw.close()


@pytest.mark.req("CHATMEM-13")
def test_made_stateless_it_stores_and_loads_nothing_and_what_was_stored_stays(tmp_path: Path) -> None:
    with ConversationMemory(settings=settings(tmp_path)) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "kept", "r")
    with ConversationMemory(settings=settings(tmp_path, stateless=True)) as memory:
        assert memory.create_session("ada")
        assert memory.store_turn(session_id, "ada", "not kept", "r").query_text == "not kept"
        assert memory.get_session_history(session_id) == []
        assert memory.get_context_for_query(session_id, "And?").history == []
        with pytest.raises(ValueError, match="query"):
            memory.store_turn(session_id, "ada", " ", "r")
    with ConversationMemory(settings=settings(tmp_path)) as memory:
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
    memory = ConversationMemory(tmp_path)
    memory.close()
    memory.close()
    with pytest.raises(LedgerClosed):
        memory.get_session_history(new_id())
    with pytest.raises(LedgerClosed):
        memory.is_degraded  # noqa: B018 - it is asked


def test_a_ledger_that_was_given_stays_open() -> None:
    store = SqliteStore(None)
    with ConversationMemory(store=store) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "q", "r")
    found = asyncio.run(store.sessions.get(session_id))
    assert found is not None
    assert found.owner == Owner(user_id="ada")


def test_a_turn_that_is_being_answered_is_waited_for() -> None:
    store = SqliteStore(None)
    with ConversationMemory(store=store) as memory:
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


def test_a_turn_that_is_answered_for_too_long_is_told_of() -> None:
    store = SqliteStore(None)
    with ConversationMemory(store=store, patience=0) as memory:
        session_id = memory.create_session("ada")
        session = asyncio.run(store.sessions.get(session_id))
        assert session is not None
        asyncio.run(store.turns.accept(new_turn(session.active_branch, "asked elsewhere")))
        with pytest.raises(OutOfOrder, match="Turn 1"):
            memory.store_turn(session_id, "ada", "q", "r")


async def _finish(store: SqliteStore, turn: Any) -> None:
    from contextinfinity_testing.builders import commit_turn

    await commit_turn(store, await respond(store, turn, "answer"))


def test_a_turn_of_plain_words_is_what_the_ledger_keeps(memory: ConversationMemory, tmp_path: Path) -> None:
    session_id = memory.create_session("ada")
    turn = memory.store_turn(session_id, "ada", "q", "r", {"intent": "ask"})
    raw = connect(str(tmp_path / "ledger.db"))
    (row,) = raw.execute("SELECT * FROM conversation_turns").fetchall()
    raw.close()
    assert row[:6] == (turn.id, session_id, "ada", 1, "q", "r")
    assert row[7] == '{"intent":"ask"}'
    assert say("user", "q").rendered_text == row[4]
