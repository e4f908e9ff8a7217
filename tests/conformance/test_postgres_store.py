"""The storage conformance suite on a real PostgreSQL: a sample in the suite, all of it in ``make proof``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import NewTurn
from contextinfinity.errors import LedgerFailed, LedgerTooNew, SettingsError
from contextinfinity.storage.postgres.connection import SCHEMA, DatabaseUrl
from contextinfinity.storage.postgres.migrate import migrations
from contextinfinity.storage.postgres.named_sql import READS, WRITES
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity_testing.builders import exchange, new_branch
from contextinfinity_testing.stores import StoreSuite
from contextinfinity_testing.stores.deletions import DeletionSuite
from contextinfinity_testing.stores.lanes import LaneSuite
from contextinfinity_testing.stores.turns import TurnSuite
from contextinfinity_testing.stores.vectors import VectorSuite
from tests.postgres import empty_database

pytestmark = [pytest.mark.xdist_group("postgres")]


@pytest.fixture
def url() -> str:
    return empty_database()


@pytest.fixture
async def store(tmp_path: Path, url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, tmp_path)
    yield store
    await store.close()


@pytest.mark.req("LEDGER-10")
@pytest.mark.proof
class TestAllPromisesOnPostgres(StoreSuite):
    """The whole suite, where there is time for it."""


@pytest.mark.req("LEDGER-10")
class TestPostgres(TurnSuite, DeletionSuite, LaneSuite, VectorSuite):
    """Turns and their fences, deletion, jobs, vectors."""


@pytest.mark.req("LEDGER-10")
def test_every_statement_of_the_ledger_is_one_that_postgresql_understands(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"SET search_path = {SCHEMA}")
        refused = {}
        for name, sql in {**READS, **{f"{name} in a write": sql for name, sql in WRITES.items()}}.items():
            if sql.startswith(b"SET "):
                continue
            for parameter in range(1, 20):
                sql = sql.replace(b"%s", b"$%d" % parameter, 1)
            while b"%(" in sql:
                word = sql.split(b"%(", 1)[1].split(b")s", 1)[0]
                sql = sql.replace(b"%(" + word + b")s", b"$%d" % (1 + sum(b"$%d" % n in sql for n in range(1, 40))))
            try:
                with connection.transaction(force_rollback=True):
                    connection.execute(b"PREPARE p AS " + sql.replace(b"%%", b"%"), prepare=False)
                    connection.execute("DEALLOCATE p")
            except psycopg.Error as error:
                refused[name] = str(error).partition("\n")[0]
    assert refused == {}


@pytest.mark.req("THREAD-1", "THREAD-10")
async def test_workers_on_one_database_number_the_turns_of_a_branch_without_a_gap(
    store: PostgresStore, url: str, tmp_path: Path
) -> None:
    other = PostgresStore(url, tmp_path / "other host")
    branch = await new_branch(store)
    new = NewTurn(branch_id=branch.id, message=say("user", "hello"))
    turns = await asyncio.gather(*(each.turns.accept(new) for _ in range(20) for each in (store, other)))
    assert sorted(turn.turn_seq for turn in turns) == list(range(1, 41))
    assert [turn.turn_seq for turn in await other.turns.history(branch.id, limit=50)] == list(range(1, 41))
    await other.close()


@pytest.mark.req("TURN-9")
async def test_a_worker_whose_lease_ran_out_by_the_servers_clock_is_dead(store: PostgresStore, url: str) -> None:
    gone, here = await store.workers.enter(), await store.workers.enter()
    assert await store.workers.dead() == ()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"UPDATE {SCHEMA}.worker SET seen_at = seen_at - interval '1 hour' WHERE id = %s", (gone.id,)
        )
    assert await store.workers.dead() == (gone.id,)
    await store.workers.take_over(gone.id, by=here.id)
    assert await store.workers.dead() == ()


async def test_text_that_postgresql_cannot_hold_comes_back_as_it_was(store: PostgresStore) -> None:
    branch = await new_branch(store)
    said = "a\x00b \ufdd0 \ufdd0\ufdd1 \x00"
    await store.turns.record(branch.id, [exchange(said)])
    (turn,) = await store.turns.history(branch.id)
    assert turn.user_message.rendered_text == said


async def test_workers_that_start_at_once_migrate_a_new_database_once(tmp_path: Path, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    stores = await asyncio.gather(*(asyncio.to_thread(PostgresStore, url, tmp_path / str(n)) for n in range(4)))
    await stores[0].sessions.create(NewSession(title="herons"))
    with psycopg.connect(url) as connection:
        versions = connection.execute(f"SELECT version FROM {SCHEMA}.schema_version ORDER BY version").fetchall()
    assert [version for (version,) in versions] == [step.version for step in migrations()]
    for store in stores:
        await store.close()


@pytest.mark.req("LEDGER-7")
def test_a_database_of_a_newer_release_is_left_untouched(tmp_path: Path, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {SCHEMA}.schema_version (version, name) VALUES (9999, 'later')")
        with pytest.raises(LedgerTooNew, match="schema 9999"):
            PostgresStore(url, tmp_path)
        connection.execute(f"DELETE FROM {SCHEMA}.schema_version WHERE version = 9999")


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(LedgerFailed, match=r"postgresql://localhost:1/ledger cannot be reached") as away:
        PostgresStore("postgresql://ada:secret@localhost:1/ledger", tmp_path)
    assert "secret" not in str(away.value)


def test_a_url_of_a_pooler_turns_prepared_statements_off() -> None:
    pooled = DatabaseUrl("postgresql://ada@db.example.com:6543/postgres?pgbouncer=true&sslmode=require")
    assert pooled.prepare_threshold is None
    assert "pgbouncer" not in pooled.conninfo
    assert "sslmode=require" in pooled.conninfo
    with pytest.raises(SettingsError, match="not a PostgreSQL URL"):
        DatabaseUrl("postgresql://ada@db/postgres?no_such_option=1")
