from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from contextinfinity.compat.ledger_threads import LedgerThreads
from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Phase
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.errors import LedgerClosed, NotFound, OutOfOrder
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.threads import Turn
from contextinfinity_testing.builders import answer_turn, commit_turn, final_turn, new_turn

Q, A = Turn("user", "Q"), Turn("assistant", "A")


@pytest.fixture
def log(ledger_path: Path) -> Iterator[LedgerThreads]:
    """A log on the same file as the ``ledger``, as another worker has it."""
    log = LedgerThreads(SqliteStore(ledger_path), patience=0)
    yield log
    log.close()


@pytest.mark.req("THREAD-1")
def test_a_thread_outlasts_its_process(ledger_path: Path) -> None:
    for count in range(3):
        log = LedgerThreads(SqliteStore(ledger_path))
        assert log.history("a", 20) == [Q, A] * count
        log.add("a", Q)
        log.add("a", A)
        log.close()


@pytest.mark.req("THREAD-1", "THREAD-4")
def test_another_worker_reads_a_turn_at_once(log: LedgerThreads, ledger_path: Path) -> None:
    other = LedgerThreads(SqliteStore(ledger_path))
    thread = other.get_or_create("a")
    for turn in (Q, A, Q):
        log.add("a", turn)
        assert other.history("a", 20)[-1] == turn
    assert thread.turns == [Q, A, Q]
    other.clear("a")
    assert log.history("a", 20) == []
    other.close()


@pytest.mark.req("THREAD-13")
async def test_what_is_logged_is_final_nobodys_and_outside_recovery(log: LedgerThreads, ledger: SqliteStore) -> None:
    log.add("a", Q)
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    (turn,) = await ledger.turns.history(session.active_branch)
    assert (turn.phase, turn.owner, turn.metadata) == (Phase.DONE, None, {"threads": 1})
    assert await ledger.workers.dead() == ()
    assert await ledger.jobs.list() == ()


@pytest.mark.req("THREAD-13")
async def test_a_user_turn_opens_a_turn_of_the_ledger_and_an_assistant_turn_closes_it(
    log: LedgerThreads, ledger: SqliteStore
) -> None:
    said = [Turn("system", "Be brief."), Q, A, A, Q, Q, A]
    for turn in said:
        log.add("a", turn)
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    turns = await ledger.turns.history(session.active_branch)
    assert [(turn.user_message.role, turn.text) for turn in turns] == [
        ("system", ""),
        ("user", "A"),
        ("assistant", ""),
        ("user", ""),
        ("user", "A"),
    ]
    assert log.history("a", 20) == said


@pytest.mark.req("THREAD-6")
async def test_clearing_deletes_nothing(log: LedgerThreads, ledger: SqliteStore) -> None:
    log.add("a", Q)
    before = log.identity("a")
    log.clear("a")
    log.clear("a")
    assert log.identity("a") != before
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    old, new = await ledger.branches.list(session.id)
    assert (f"branch {old.id}", f"branch {new.id}") == (before, log.identity("a"))
    assert [turn.user_message.rendered_text for turn in await ledger.turns.history(old.id)] == ["Q"]


@pytest.mark.req("THREAD-9")
async def test_somebody_elses_thread_is_not_there(log: LedgerThreads, ledger: SqliteStore) -> None:
    theirs = await ledger.sessions.create(NewSession(owner=Owner(user_id="anna"), external_id="a"))
    log.add("a", Q)
    assert log.get(theirs.id) is None
    assert log.history(theirs.id, 20) == []
    for write in (lambda: log.add(theirs.id, Q), lambda: log.get_or_create(theirs.id)):
        with pytest.raises(NotFound):
            write()
    log.clear(theirs.id)
    assert await ledger.turns.history(theirs.active_branch) == ()
    assert len(await ledger.sessions.list(Owner())) == 1


async def test_a_session_is_found_by_its_own_id_too(log: LedgerThreads, ledger: SqliteStore) -> None:
    log.add("a", Q)
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    log.add(session.id, A)
    assert log.history("a", 20) == [Q, A]


async def test_turns_of_the_engine_are_read_as_question_and_answer(log: LedgerThreads, ledger: SqliteStore) -> None:
    log.add("a", Q)
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    await answer_turn(ledger, session.active_branch, "one", "two")
    await ledger.turns.accept(new_turn(session.active_branch, "three"))
    assert log.history("a", 20) == [Q, Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three")]
    with pytest.raises(OutOfOrder):
        log.add("a", A)


class Telling:
    """The turns of a store; it tells when one could not be logged."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.refused = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._turns, name)

    async def log(self, branch_id: BranchId, message: Message, *, metadata: Json = None) -> LedgerTurn:
        try:
            return await self._turns.log(branch_id, message, metadata=metadata)
        except OutOfOrder:
            self.refused.set()
            raise


async def test_a_turn_waits_until_the_engine_has_committed_its_own(ledger: SqliteStore, ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    telling = Telling(store.turns)
    store.turns = cast("Turns", telling)
    log = LedgerThreads(store, patience=60)
    log.get_or_create("a")
    session = await ledger.sessions.find(Owner(), "a")
    assert session is not None
    turn = await final_turn(ledger, session.active_branch, "one", "two")
    adding = asyncio.create_task(asyncio.to_thread(log.add, "a", Q))
    assert await asyncio.to_thread(telling.refused.wait, 30)
    await commit_turn(ledger, turn)
    await adding
    assert log.history("a", 20) == [Turn("user", "one"), Turn("assistant", "two"), Q]
    log.close()


def test_a_long_thread_is_read_in_pages(log: LedgerThreads) -> None:
    said = [Turn("user" if number % 7 else "assistant", str(number)) for number in range(300)]
    with ThreadPoolExecutor(1) as pool:
        for turn in said:
            pool.submit(log.add, "a", turn).result()
    thread = log.get("a")
    assert thread is not None
    assert thread.turns == said
    for most in (2, 3, 50, 299):
        window = log.history("a", most)
        assert window == said[-len(window) :]
        assert len(window) >= most


@pytest.mark.req("THREAD-14")
def test_a_thread_nobody_has_takes_no_room(log: LedgerThreads) -> None:
    held, dropped = log.get_or_create("held"), weakref.ref(log.get_or_create("dropped"))
    gc.collect()
    assert dropped() is None
    assert log.get("held") is held


def test_after_it_was_closed_it_refuses(ledger_path: Path) -> None:
    log = LedgerThreads(SqliteStore(ledger_path))
    thread = log.get_or_create("a")
    log.close()
    log.close()
    for use in (lambda: log.add("a", Q), lambda: log.history("a", 20), lambda: thread.turns, lambda: log.get(new_id())):
        with pytest.raises(LedgerClosed):
            use()
