"""Chats while their ledger is away: one fallback, which outlives the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from contextinfinity import ConversationMemory
from contextinfinity.compat.chat_sessions import Turn
from contextinfinity.domain.ids import new_id
from contextinfinity.errors import LedgerAway, LedgerError, SpoolFull
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity.telemetry.counters import counters
from tests.ledgers import open_store
from tests.recovery.outages import SOON, engine_on, locked, said

ROOT = Path(__file__).resolve().parents[2]

STORES = """
import sys
from contextinfinity import ConversationMemory

memory = ConversationMemory(sys.argv[1])
for number in range(3):
    for session_id in sys.argv[3:]:
        turn = memory.store_turn(session_id, sys.argv[2], f"away {number}", "r")
        print(turn.id, turn.durability, flush=True)
sys.stdin.read()
"""


class Chats:
    """A memory that notices soon when its ledger is away, and the store behind it."""

    def __init__(self, folder: Path, bounds: Bounds = SOON) -> None:
        self.stores: list[StandbyStore] = []
        path = folder / "ledger.db"

        def opened() -> StandbyStore:
            self.stores.append(StandbyStore(open_store(path, patience=0.5), folder / "ledger.db-spool", bounds))
            return self.stores[0]

        self.memory = ConversationMemory(store=opened)

    def __enter__(self) -> ConversationMemory:
        return self.memory

    def __exit__(self, *error: object) -> None:
        self.memory.close()


@contextmanager
def cut_off(chats: Chats) -> Iterator[None]:
    """Let reading and writing fail."""
    away = chats.stores[0].kept_away("The disk gives nothing back.")

    async def begin() -> None:
        away.__enter__()

    chats.memory._loop.wait(begin)
    try:
        yield
    finally:
        away.__exit__(None, None, None)


def until_back(memory: ConversationMemory) -> None:
    ready = threading.Event()
    while memory.is_degraded:
        ready.wait(0.005)


def deleted(memory: ConversationMemory, session_id: str) -> int:
    """Delete a session, as often as the ledger is away: on a busy machine a slow reader may look like that."""
    while True:
        try:
            return memory.delete_session(session_id)
        except LedgerAway:
            until_back(memory)


def asked(turns: list[Turn]) -> list[tuple[int, str]]:
    return [(turn.turn_number, turn.query_text) for turn in turns]


def killed_while_away(folder: Path, *sessions: str, user_id: str = "ada") -> list[str]:
    """Have another process store turns while the ledger is away, and kill it; return the ids that were acknowledged."""
    command = [sys.executable, "-c", STORES, str(folder), user_id, *sessions]
    with (
        locked(folder),
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running,
    ):
        assert running.stdout is not None
        told = [running.stdout.readline().split() for _ in range(3 * len(sessions))]
        running.kill()
    assert {durability for _, durability in told} == {"local"}
    return [turn_id for turn_id, _ in told]


# --- locked by another process ---


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6", "METRICS-3")
def test_a_locked_ledger_gets_everything_later_in_order_and_once(tmp_path: Path) -> None:
    with Chats(tmp_path) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "before", "r")
        before = counters()
        with locked(tmp_path):
            held = [memory.store_turn(session_id, "ada", f"away {n}", "r", {"n": n}) for n in range(5)]
            assert memory.is_degraded
            assert [turn.turn_number for turn in held] == [2, 3, 4, 5, 6]
            assert memory.get_session_history(session_id)[1:] == held
        until_back(memory)
        memory.store_turn(session_id, "ada", "after", "r")
        history = memory.get_session_history(session_id)
    assert asked(history) == list(enumerate(["before", *(f"away {n}" for n in range(5)), "after"], 1))
    assert [(turn.id, turn.created_at, turn.metadata) for turn in history[1:6]] == [
        (turn.id, turn.created_at, turn.metadata) for turn in held
    ]
    assert {turn.durability for turn in history} == {"ledger"}
    grown = {name: counters()[name] - before.get(name, 0) for name in ("turn_writes_ok", "turn_writes_failed")}
    assert grown == {"turn_writes_ok": 6, "turn_writes_failed": 1}, "each write is counted once, and the failure"


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6")
def test_a_memory_opens_while_another_process_holds_the_ledger(tmp_path: Path) -> None:
    with Chats(tmp_path) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "before", "r")
    with locked(tmp_path), Chats(tmp_path) as memory:
        assert asked(memory.get_session_history(session_id)) == [(1, "before")]
        assert memory.store_turn(session_id, "ada", "meanwhile", "r").durability == "local"
    with Chats(tmp_path) as memory:
        assert asked(memory.get_session_history(session_id)) == [(1, "before"), (2, "meanwhile")]


@pytest.mark.req("CHATMEM-6", "CHATMEM-3")
def test_calls_at_once_in_a_session_that_nobody_has_made_keep_all_they_say(tmp_path: Path) -> None:
    with Chats(tmp_path) as memory:
        session_id = new_id()
        with locked(tmp_path), ThreadPoolExecutor(8) as pool:
            texts = [f"q{n}" for n in range(16)]
            held = list(pool.map(lambda text: memory.store_turn(session_id, "ada", text, "r"), texts))
        assert sorted(turn.turn_number for turn in held) == list(range(1, 17))
        until_back(memory)
        found = memory.get_session_history(session_id)
        assert {turn.id for turn in found} == {turn.id for turn in held}
        assert [turn.turn_number for turn in found] == list(range(1, 17))


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6", "THREAD-14")
def test_more_than_the_spool_holds_is_refused_before_it_is_acknowledged(tmp_path: Path) -> None:
    small = Bounds(patience=0.05, first_pause=0.01, longest_pause=0.05, most_bytes=200_000)
    with Chats(tmp_path, small) as memory:
        session_id = memory.create_session("ada")
        with locked(tmp_path):
            memory.store_turn(session_id, "ada", "fits", "r")
            with pytest.raises(SpoolFull):
                memory.store_turn(session_id, "ada", "x" * 200_000, "r")
            assert asked(memory.get_session_history(session_id)) == [(1, "fits")]
        until_back(memory)
        assert asked(memory.get_session_history(session_id)) == [(1, "fits")]


# --- nothing can be read ---


@pytest.mark.req("CHATMEM-6")
def test_when_nothing_can_be_read_a_chat_goes_on_from_what_was_seen_of_it(tmp_path: Path) -> None:
    with Chats(tmp_path) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "before", "r")
    chats = Chats(tmp_path)
    with chats as memory:
        memory.get_session_history(session_id)
        empty = memory.create_session("ada")
        with locked(tmp_path), cut_off(chats):
            memory.store_turn(session_id, "ada", "away", "r")
            assert asked(memory.get_session_history(session_id)) == [(1, "before"), (2, "away")]
            assert memory.store_turn(empty, "ada", "first", "r").turn_number == 1
        until_back(memory)
        assert asked(memory.get_session_history(session_id)) == [(1, "before"), (2, "away")]
        assert asked(memory.get_session_history(empty)) == [(1, "first")]


@pytest.mark.req("CHATMEM-6")
def test_what_is_said_in_a_session_nobody_here_has_seen_lands_in_it(tmp_path: Path) -> None:
    with Chats(tmp_path) as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "long ago", "r")
    chats = Chats(tmp_path)
    with chats as memory:
        with locked(tmp_path), cut_off(chats):
            assert memory.get_session_history(session_id) == []
            held = memory.store_turn(session_id, "ada", "now", "r")
            assert (held.turn_number, held.durability) == (1, "local")
        until_back(memory)
        assert asked(memory.get_session_history(session_id)) == [(1, "long ago"), (2, "now")]
        assert memory.get_session_history(session_id)[1].id == held.id


# --- killed ---


@pytest.mark.req("CHATMEM-6")
def test_what_a_killed_process_stored_while_the_ledger_was_away_is_there_once(tmp_path: Path) -> None:
    with ConversationMemory(tmp_path) as memory:
        old, new = memory.create_session("ada"), new_id()
        memory.store_turn(old, "ada", "before", "r")
    told = killed_while_away(tmp_path, old, new)
    (spool,) = (tmp_path / "ledger.db-spool").iterdir()
    records = spool.read_bytes()
    for _ in range(2):
        with ConversationMemory(tmp_path) as memory:
            found = memory.get_session_history(old)
            assert asked(found) == [(1, "before"), (2, "away 0"), (3, "away 1"), (4, "away 2")]
            assert asked(memory.get_session_history(new)) == [(1, "away 0"), (2, "away 1"), (3, "away 2")]
            assert {turn.id for turn in (*found[1:], *memory.get_session_history(new))} == set(told)
            assert not memory.is_degraded
        assert not spool.exists()
        spool.write_bytes(records)  # as if it had been killed between its landing and the end of the file


@pytest.mark.req("CHATMEM-6", "TURN-13")
def test_users_who_began_one_session_in_two_killed_processes_go_on_in_their_own(tmp_path: Path) -> None:
    ConversationMemory(tmp_path).close()
    session_id = new_id()
    told = [killed_while_away(tmp_path, session_id, user_id=user_id) for user_id in ("ada", "bob")]
    with ConversationMemory(tmp_path) as memory:
        for user_id, ids in zip(("ada", "bob"), told, strict=True):
            after = memory.store_turn(session_id, user_id, "after", "r")
            assert after.turn_number == 4
            assert [turn.id for turn in memory.get_session_history(after.session_id)] == [*ids, after.id]
        with pytest.raises(ValueError, match="the user the session belongs to"):
            memory.store_turn(session_id, "eve", "Let me in", "r")
        assert not memory.is_degraded


@pytest.mark.req("CHATMEM-6")
async def test_an_engine_that_opens_lands_it_too(tmp_path: Path) -> None:
    session_id = new_id()
    ConversationMemory(tmp_path).close()
    killed_while_away(tmp_path, session_id)
    async with engine_on(tmp_path) as engine:
        assert [question for _, question, _ in await said(engine, session_id)] == ["away 0", "away 1", "away 2"]


@pytest.mark.req("CHATMEM-6")
def test_a_spool_that_cannot_land_when_a_memory_opens_lands_with_a_later_clean_up(tmp_path: Path) -> None:
    session_id = new_id()
    ConversationMemory(tmp_path).close()
    killed_while_away(tmp_path, session_id)
    with locked(tmp_path):
        chats = Chats(tmp_path)
    with chats as memory:
        until_back(memory)
        assert memory.cleanup_old_conversations().errors == ()
        assert len(memory.get_session_history(session_id)) == 3


# --- what is not held ---


@pytest.mark.sqlite_file("it locks the file")
def test_a_memory_does_not_open_without_its_folder_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "db").write_text("not a folder")
    before = threading.active_count()
    with pytest.raises(LedgerError):
        ConversationMemory(store=lambda: SqliteStore(tmp_path / "db" / "ledger.db"))
    assert threading.active_count() == before
    (record,) = [record for record in caplog.records if record.__dict__.get("operation")]
    assert record.__dict__["operation"] == "open"


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-4")
def test_a_deletion_is_never_pretended_and_takes_along_what_was_held(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    with chats as memory:
        session_id = memory.create_session("ada")
        memory.store_turn(session_id, "ada", "before", "r")
        with locked(tmp_path):
            memory.store_turn(session_id, "ada", "away", "r")
            with pytest.raises(LedgerAway):
                memory.delete_session(session_id)
            assert len(memory.get_session_history(session_id)) == 2
        until_back(memory)
        assert deleted(memory, session_id) in (2, 0)  # 0: done by a call that was not waited for
        with locked(tmp_path), cut_off(chats):
            assert memory.get_session_history(session_id) == []
        until_back(memory)
        assert memory.get_session_history(session_id) == []
    assert list((tmp_path / "ledger.db-spool").iterdir()) == []
