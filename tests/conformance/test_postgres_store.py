"""The storage conformance suite on a real PostgreSQL: a sample in the suite, all of it in ``make proof``."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import date
from pathlib import Path

import numpy as np
import psycopg
import pytest

from contextinfinity.domain.ids import now
from contextinfinity.domain.memory import NewMemory
from contextinfinity.domain.message import say
from contextinfinity.domain.search import Embedding, Scope, packed
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import NewTurn, Phase
from contextinfinity.errors import LedgerFailed, LedgerTooNew, SettingsError
from contextinfinity.storage import sql_files
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import is_blank
from contextinfinity.storage.ledger.memories import add_memory, owner_key, read_revision
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.postgres.connection import SCHEMA, DatabaseUrl
from contextinfinity.storage.postgres.database import PostgresDatabase
from contextinfinity.storage.postgres.migrate import migrations
from contextinfinity.storage.postgres.named_sql import READS, SERVING_READS, WRITES, PostgresConnection
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity.storage.postgres.vector_table import PostgresVectors
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, exchange, new_branch, slice_of
from contextinfinity_testing.stores import StoreSuite
from contextinfinity_testing.stores.deletions import DeletionSuite
from contextinfinity_testing.stores.lanes import LaneSuite
from contextinfinity_testing.stores.turns import TurnSuite
from contextinfinity_testing.stores.vectors import VectorSuite
from tests.migrations.test_schema import REFERENCE
from tests.postgres import empty_database, server_url
from tests.unit.storage.test_guards import CHANGES, HEADS

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


@pytest.mark.req("LEDGER-4", "LEDGER-5", "TURN-1")
async def test_postgresql_refuses_from_every_writer_what_sqlite_refuses(store: PostgresStore, url: str) -> None:
    session = await store.sessions.create(NewSession(system="Be brief."))
    turn = await answer_turn(store, session.active_branch, "What is the code word?", "It is heron.")
    await store.chunks.index(turn.id, [slice_of("What is the code word?", "code word")])
    phases = [f"UPDATE turn SET phase = '{phase}'" for phase in Phase if phase not in (Phase.INDEXED, Phase.DONE)]
    with psycopg.connect(url, autocommit=True) as vandal:
        vandal.execute(f"SET search_path = {SCHEMA}")
        for change in (*CHANGES, *phases, *(f"UPDATE branch SET {head}" for head in HEADS)):
            sql = change.replace("x'00'", "'\\x00'").replace("end = end - 1", '"end" = "end" - 1')
            with pytest.raises(psycopg.Error, match=r"immutable|cannot update view|phase: a turn|head: a branch"):
                vandal.execute(sql.encode())


@pytest.mark.req("CHATMEM-3")
def test_postgresql_knows_the_same_blanks(url: str) -> None:
    codes = [code for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000]
    blank = {code for code in codes if is_blank(chr(code))}
    with psycopg.connect(url) as connection:
        asked = f"SELECT code FROM unnest(%s::int[]) AS code WHERE {SCHEMA}.is_blank(chr(code))".encode()
        assert {code for (code,) in connection.execute(asked, (codes,))} == blank


@pytest.mark.req("LEDGER-10")
def test_every_statement_of_the_ledger_is_one_that_postgresql_understands(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"SET search_path = {SCHEMA}")
        refused = {}
        served = {f"{name} as the serving role": sql for name, sql in SERVING_READS.items() if sql != READS[name]}
        for name, sql in {**READS, **{f"{name} in a write": sql for name, sql in WRITES.items()}, **served}.items():
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


@pytest.mark.req("LEDGER-10")
def test_a_statement_in_postgresqls_words_takes_the_values_of_the_one_that_it_replaces() -> None:
    """A new statement that takes the name of another by accident would replace it."""
    ours = sql_files.load_folder("contextinfinity.storage.ledger", "sql")
    theirs = sql_files.load_folder("contextinfinity.storage.postgres", "sql")
    values = {
        name: [set(re.findall(r"\?\d+|(?<![:\w]):[a-z_]\w*", re.sub(r"\?(?!\d)", "?1", sql))) for sql in both]
        for name, both in ((name, (ours[name], theirs[name])) for name in ours.keys() & theirs.keys())
    }
    assert {
        name for name, (one, other) in values.items() if bool(one) != bool(other) or one - other - {"?1", "?2"}
    } == set()


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


@pytest.mark.req("THREAD-10")
async def test_writes_that_change_the_same_rows_all_succeed_however_many_they_are(url: str) -> None:
    """None of them names a branch, so no lock of a branch puts them in order."""
    hosts = [PostgresDatabase(url) for _ in range(2)]

    def write(connection: PostgresConnection) -> None:
        connection.run("SELECT pg_sleep(0.005)", "UPDATE word_state SET version = coalesce(version, 0) + 1")

    try:
        await asyncio.gather(*(host.write(write) for _ in range(40) for host in hosts))
        assert await hosts[0].read(lambda connection: connection.run("SELECT version FROM word_state")) == [(80,)]
    finally:
        for host in hosts:
            host.close()


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


_OLDER = """
INSERT INTO text (key, hash, body, kept_at) OVERRIDING SYSTEM VALUE VALUES (7, sha256('Be brief.'), 'Be brief.', 1);
INSERT INTO blob (hash, media_type, kept_at, body) VALUES (sha256('dot'), 'image/png', 1, 'dot');
INSERT INTO session (id, org_id, user_id, kind, system, active_branch, created_at, updated_at)
  SELECT sha256(u::bytea), '', u, 'thread', 7, sha256(u::bytea), 1, 1 FROM unnest(ARRAY['ann', 'ben']) AS u;
INSERT INTO message (session_id, role, text, content_hash) SELECT id, 'user', 'hello', '' FROM session;
INSERT INTO blob_use (hash, message_key, session_id) SELECT sha256('dot'), key, session_id FROM message;
"""


@pytest.mark.req("LEDGER-7", "CHATMEM-9")
def test_a_ledger_from_before_row_level_security_gives_each_owner_their_own_texts(url: str, tmp_path: Path) -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS older WITH (FORCE)")
        connection.execute("CREATE DATABASE older")
    url = server_url().replace("/ledger?", "/older?")
    with psycopg.connect(url) as connection:
        older = [step for step in migrations() if step.version < 5]
        connection.execute(
            f"CREATE SCHEMA {SCHEMA}; SET search_path = {SCHEMA}; CREATE TABLE schema_version AS "
            "SELECT 4::bigint AS version, ''::text AS name"
        )
        for sql in (*(step.sql for step in older), _OLDER):
            connection.execute(sql.encode())
    PostgresDatabase(url).close()
    with psycopg.connect(url) as connection:
        connection.execute(f"SET search_path = {SCHEMA}")
        texts = "SELECT s.user_id, t.body FROM session AS s JOIN text AS t ON t.key = s.system AND t.tenant = s.tenant"
        assert sorted(connection.execute(texts).fetchall()) == [("ann", "Be brief."), ("ben", "Be brief.")]
        blobs = "SELECT count(DISTINCT b.tenant) FROM blob_use JOIN blob AS b USING (tenant, hash)"
        assert connection.execute(blobs).fetchall() == [(2,)]


@pytest.mark.req("LEDGER-7")
def test_a_database_of_a_newer_release_is_left_untouched(tmp_path: Path, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {SCHEMA}.schema_version (version, name) VALUES (9999, 'later')")
        with pytest.raises(LedgerTooNew, match="schema 9999"):
            PostgresStore(url, tmp_path)
        connection.execute(f"DELETE FROM {SCHEMA}.schema_version WHERE version = 9999")


@pytest.mark.req("LEDGER-7")
async def test_the_views_of_the_reference_schema_have_the_columns_and_rows_of_sqlites(
    store: PostgresStore, url: str, tmp_path: Path
) -> None:
    branch = await new_branch(store)
    turn = await answer_turn(store, branch.id, "Who?", "Ada.")
    await store.chunks.index(turn.id, [slice_of("Ada.", "Ada.", side="assistant")])
    other = SqliteStore(tmp_path / "ledger.db")
    await other.close()
    sqlite = sqlite3.connect(tmp_path / "ledger.db")
    with psycopg.connect(url) as connection, closing(sqlite):
        connection.execute(f"SET search_path = {SCHEMA}")
        for view, columns in REFERENCE.items():
            cursor = connection.execute(f"SELECT * FROM {view}")
            shown = [column.name for column in cursor.description or ()]
            assert shown == [column[0] for column in sqlite.execute(f"SELECT * FROM {view}").description]
            assert set(columns.split()) <= set(shown)
            assert cursor.fetchall() or view in ("retrievals", "jobs"), view
        row = connection.execute("SELECT * FROM conversation_turns").fetchall()[0]
        assert row[:6] == (turn.id, turn.session_id, "local", 1, "Who?", "Ada.")


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(LedgerFailed, match=r"postgresql://localhost:1/ledger cannot be reached") as away:
        PostgresStore("postgresql://ada:secret@localhost:1/ledger", tmp_path)
    assert "secret" not in str(away.value)


def test_a_url_of_a_pooler_turns_prepared_statements_off() -> None:
    pooled = DatabaseUrl("postgresql://ada@db.example.com:6543/postgres?pgbouncer=true&sslmode=require")
    assert pooled.prepare_threshold is None
    assert "SET LOCAL search_path" in pooled.begin
    assert "pgbouncer" not in pooled.conninfo
    assert "sslmode=require" in pooled.conninfo
    with pytest.raises(SettingsError, match="not a PostgreSQL URL"):
        DatabaseUrl("postgresql://ada@db/postgres?no_such_option=1")


@pytest.mark.req("LEDGER-10")
async def test_a_search_by_the_index_of_an_owner_finds_what_comparing_all_vectors_finds(store: PostgresStore) -> None:
    rng = random.Random(1)
    owners = [Owner(user_id=name) for name in ("ada", "grace")]
    for owner in owners:
        session = await store.sessions.create(NewSession(owner=owner))
        for _ in range(30):
            (turn,) = await store.turns.record(session.active_branch, [exchange("one two")])
            vector = Embedding(model="m", dim=8, values=packed(np.array([rng.gauss(0, 1) for _ in range(8)])))
            await store.chunks.index(turn.id, [slice_of("one two", "one", embedding=vector)])
    exact, indexed = PostgresVectors(store.database), PostgresVectors(store.database, least=20)
    assert [await indexed.build(), await indexed.build()] == [True, False]
    query = packed(np.array([rng.gauss(0, 1) for _ in range(8)]))
    for owner in owners:
        nearest = await indexed.near(query, "m", Scope(owner=owner), most=10)
        assert nearest == await exact.near(query, "m", Scope(owner=owner), most=10)
        assert len(nearest) == 10
    assert indexed._matrices is not None
    assert indexed._matrices.size() == 0, "all vectors were compared"


@pytest.mark.req("MEMORY-4")
async def test_a_write_of_memories_sees_those_of_the_write_that_it_waited_for(store: PostgresStore) -> None:
    owner, revisions = Owner(user_id="ada"), []
    locked, began = threading.Event(), threading.Event()

    def first(connection: Connection) -> None:
        owner_key(connection, owner)
        locked.set()
        assert began.wait(60)
        add_memory(connection, NewMemory(owner=owner, content="The user likes herons.", said_at=now()))

    def second(connection: Connection) -> None:
        assert locked.wait(60)
        connection.many("select_jobs", {"limit": 1})  # sees the ledger as it is before the first one ends
        began.set()
        revisions.append(read_revision(connection, owner))

    writes = store.database.writing(first), store.database.writing(second)
    await asyncio.gather(*map(asyncio.wrap_future, writes))
    assert revisions[-1] == await store.memories.revision(owner)


@pytest.mark.req("LEDGER-10")
async def test_an_error_of_a_statement_that_nothing_waits_for_undoes_the_whole_write(store: PostgresStore) -> None:
    before = await store.vectors.namespaces()

    def write(connection: Connection) -> str:
        connection.one("insert_namespace", ("one", 8))
        connection.execute("insert_vector", (1, -1, b"", b""))  # refers to no chunk
        connection.execute("insert_namespace", ("two", 8))
        return "done"

    with pytest.raises(LedgerFailed):
        await store.database.write(write)
    assert await store.vectors.namespaces() == before
    assert await store.database.write(lambda connection: connection.one("select_places")) == (0,)


@pytest.mark.req("LEDGER-10")
async def test_statements_that_were_announced_run_once_each_and_in_their_order(store: PostgresStore) -> None:
    def write(connection: Connection) -> list[object]:
        asked = ("take_message_keys", {"count": 1})
        connection.prefetch(asked, asked)
        return [connection.one(*asked)[0] for _ in range(3)]  # type: ignore[index]

    first, second, third = await store.database.write(write)
    assert [second, third] == [first + 1, first + 2]  # type: ignore[operator]


@pytest.mark.req("THREAD-10")
async def test_turns_of_one_user_on_several_connections_do_not_wait_for_each_others_counters(
    store: PostgresStore,
) -> None:
    session = await store.sessions.create(NewSession(owner=Owner(user_id="ada")))
    together = threading.Barrier(2)
    counts = {"token": "t", "messages": 1, "places": 1, "first": 1, "last": 1, "session_id": pack(session.id)}

    def write(connection: Connection) -> None:
        connection.execute("add_spending", {"session_id": pack(session.id), "day": 1, "dollars": 0.5})
        connection.execute("count_scope", counts)
        connection.one("select_places")  # waits until both have run
        together.wait(20)

    await asyncio.gather(*(asyncio.wrap_future(store.database.writing(write)) for _ in range(2)))
    assert await store.turns.spending(session.owner, date(1970, 1, 1)) == {date(1970, 1, 2): 1.0}
