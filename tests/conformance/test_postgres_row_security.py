"""Row-level security: what acts for a user reads only that user's rows, even with an injected predicate."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import AccessDenied, SettingsError
from contextinfinity.settings import Settings, Storage
from contextinfinity.storage.database import act_for
from contextinfinity.storage.postgres.connection import SCHEMA
from contextinfinity.storage.postgres.named_sql import READS, SERVING_READS
from contextinfinity.storage.postgres.row_security import UNSERVED
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity_testing.builders import exchange
from tests.doors.server import Server, pause
from tests.postgres import secured_database, server_url

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.req("CHATMEM-9", "MEMORY-6")]

ALICE, BOB = Owner(user_id="alice"), Owner(user_id="bob")
SECRET = "kingfisher"  # noqa: S105  a word that only Alice says
OPEN = {"namespace", "vector_count", "word_count", "word_state", "worker"}
"""Tables without user data: counters, embedders and processes."""


class Roles(NamedTuple):
    """A ledger in which Alice and Bob talked through a server, by the URLs of its two roles."""

    owner: str
    serving: str


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Roles:
    """Both talked, and what a turn leaves behind is indexed and remembered."""
    roles = Roles(*secured_database())
    settings = f'[storage]\nurl = "{roles.owner}"\nserving_url = "{roles.serving}&pgbouncer=true"\n'
    server = Server(tmp_path_factory.mktemp("secured"), settings)
    try:
        for user, words in (("bob", "heron"), ("alice", SECRET)):
            made = server.post("/threads", {"user_id": user, "system": f"Speak of the {words}."})
            assert made.status_code == 200, made.text
            thread = made.json()["thread_id"]
            server.ask(f"I love the {words} and live near the {words} river.", thread, user_id=user)
            server.ask(f"Remember that my {words} nests in May.", thread, user_id=user)
            shown = server.http.get(f"/threads/{thread}/messages", params={"user_id": user}).json()
            assert len(shown["messages"]) == 4
            asked, until = {"q": f"{words} river", "user_id": user}, time.monotonic() + 30
            while words not in server.http.get("/search", params=asked).text:  # chunks are made by a job
                pause()
                assert time.monotonic() < until
        assert server.http.get(f"/threads/{thread}/messages", params={"user_id": "bob"}).status_code == 404
    finally:
        assert server.stop() == 0
    return roles


@contextmanager
def transaction(url: str, owner: Owner | None, *, of: str) -> Iterator[psycopg.Connection[Any]]:
    """Begin as the ledger does: the tenant of the owner is set inside the transaction."""
    with psycopg.connect(of, autocommit=True) as every:
        every.execute(f"SET search_path = {SCHEMA}")
        named = "" if owner is None else every.execute("SELECT tenant_of(%s, %s)::text", (owner.org_id, owner.user_id))
        tenant = "" if isinstance(named, str) else named.fetchall()[0][0]
    with psycopg.connect(url) as connection:
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, public; SET LOCAL statement_timeout = '20s'")
        connection.execute("SELECT set_config('contextinfinity.tenant', %s, true)", (tenant,))
        yield connection
        connection.rollback()


def traces_of_alice(roles: Roles) -> Callable[[object], bool]:
    """Return a function that tells whether rows hold an id, a hash or a word of Alice's."""
    with psycopg.connect(roles.owner) as connection:
        connection.execute(f"SET LOCAL search_path = {SCHEMA}")
        alice = connection.execute("SELECT tenant FROM session WHERE user_id = 'alice'").fetchall()[0][0]
        kept: dict[bool, set[object]] = {True: set(), False: set()}
        for table in tables(connection, "tenant"):
            for tenant, *cells in connection.execute(f"SELECT tenant, x.* FROM {table} AS x"):
                kept[tenant == alice] |= {cell for cell in cells if isinstance(cell, (bytes, str)) and len(cell) > 7}
    own = kept[True] - kept[False]
    assert len(own) > 30

    def has_trace(rows: object) -> bool:
        cells = {cell for row in rows for cell in row if not isinstance(cell, (list, dict))}  # type: ignore[attr-defined]
        return bool(cells & own) or SECRET in repr(rows) or str(alice) in repr(rows)

    return has_trace


def tables(connection: psycopg.Connection[Any], with_column: str = "") -> list[str]:
    """List the ledger's tables, or those with a column."""
    asked = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' ORDER BY 1"
    found = [name for (name,) in connection.execute(asked, (SCHEMA,))]
    columns = "SELECT 1 FROM pg_attribute WHERE attrelid = (%s)::regclass AND attname = %s"
    return [
        n for n in found if not with_column or connection.execute(columns, (f"{SCHEMA}.{n}", with_column)).fetchone()
    ]


def injected(sql: str, lists: dict[str, str]) -> tuple[str, list[Any]]:
    """Make every condition of a statement true; lists get Alice's ids, all other values are NULL."""
    endless = "RECURSIVE" in sql  # a walk whose every step is allowed does not end
    sql = re.sub(r"\b(WHERE|HAVING) ", r"\1 true OR ", sql, count=int(endless))
    values: list[Any] = []
    for match in re.finditer(r"(?:(\w+_each|word_places|find_own_rows)\()?%(?:\(\w+\))?s", sql):
        values.append(lists.get(match[1] or ""))
    return re.sub(r"%\(\w+\)s", "%s", sql), values


def leaking(url: str, owner: Owner | None, roles: Roles, statements: dict[str, bytes]) -> set[str]:
    """Run every read with all conditions true; return the names of those that show something of Alice's."""
    has_trace, found = traces_of_alice(roles), set()
    with psycopg.connect(roles.owner) as connection:
        connection.execute(f"SET LOCAL search_path = {SCHEMA}")
        ids = " UNION ".join(f"SELECT encode(id, 'hex') FROM {table}" for table in ("turn", "session", "memory"))
        lists = {"bytes_each": json.dumps([name for (name,) in connection.execute(ids)])}
        lists["ints_each"] = json.dumps([key for (key,) in connection.execute("SELECT key FROM message")])
    lists |= {"json_each": json.dumps(["river"]), "find_own_rows": json.dumps(["river"])}
    with transaction(url, owner, of=roles.owner) as connection:
        for name, sql in statements.items():
            text = sql.decode()
            if not text.startswith(("SELECT", "WITH")) or re.search(
                r"\b(INSERT|UPDATE|DELETE|nextval|count_word)\b", text
            ):
                continue
            try:
                with connection.transaction(force_rollback=True):
                    rows = connection.execute(*injected(text, lists)).fetchall()
            except (psycopg.errors.DataError, psycopg.errors.CardinalityViolation, psycopg.ProgrammingError) as error:
                if isinstance(error, psycopg.errors.SyntaxError):
                    raise AssertionError(f"{name}: {error}") from error
                continue
            if has_trace(rows):
                found.add(name)
    return found


def test_injected_predicates_read_nothing_of_another_user(roles: Roles) -> None:
    as_maintenance = leaking(roles.owner, None, roles, dict(READS))
    assert len(as_maintenance) > 60, "the injected conditions do not find what is there"
    assert leaking(roles.serving, ALICE, roles, dict(SERVING_READS)) >= as_maintenance - {"find_rows"}
    assert leaking(roles.serving, BOB, roles, dict(SERVING_READS)) == set()
    assert leaking(roles.serving, None, roles, dict(SERVING_READS)) == set()


def test_every_table_with_user_data_forces_policies_on_every_role(roles: Roles) -> None:
    with psycopg.connect(roles.owner) as connection:
        secured = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND relrowsecurity "
            "AND relforcerowsecurity AND (SELECT count(*) FROM pg_policy WHERE polrelid = pg_class.oid) = 2",
            (SCHEMA,),
        )
        assert set(tables(connection)) - {name for (name,) in secured} == OPEN | set(UNSERVED)
        for table in tables(connection, "tenant"):
            unowned = connection.execute(f"SELECT count(*) FROM {SCHEMA}.{table} WHERE tenant IS NULL").fetchall()
            assert unowned == [(0,)], table
        views = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'v'"
        invoker = " AND reloptions @> ARRAY['security_invoker=true']"
        assert (
            connection.execute(views, (SCHEMA,)).fetchall() == connection.execute(views + invoker, (SCHEMA,)).fetchall()
        )


def test_the_serving_role_can_neither_learn_nor_forge_a_tenant(roles: Roles) -> None:
    has_trace = traces_of_alice(roles)
    with transaction(roles.serving, BOB, of=roles.owner) as connection:
        for attempt in (
            "SELECT tenant_of('', 'alice')",
            *(f"SELECT * FROM {table}" for table in UNSERVED),
            "UPDATE session SET tenant = gen_random_uuid()",
            "UPDATE session SET user_id = 'alice'",
            "ALTER TABLE session DISABLE ROW LEVEL SECURITY",
            "SET LOCAL ROLE cix_owner",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(attempt)
        for forged in ("set_config('contextinfinity.tenant', '', true)", "set_config('row_security', 'off', true)"):
            with connection.transaction(force_rollback=True):
                sql = f"SELECT id, user_id FROM session WHERE user_id = 'nobody' OR {forged} IS NOT NULL"
                try:
                    rows = connection.execute(sql).fetchall()
                except psycopg.errors.InsufficientPrivilege:
                    continue
                assert not has_trace(rows)
        for table in tables(connection, "tenant"):
            assert not has_trace(connection.execute(f"SELECT * FROM {table}").fetchall()), table


@pytest.fixture
async def store(roles: Roles, tmp_path: Path) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(roles.owner, tmp_path, serving_url=roles.serving)
    yield store
    await store.close()


async def test_a_session_of_another_user_can_be_neither_seen_nor_taken(store: PostgresStore) -> None:
    act_for(ALICE)
    hers = await store.sessions.create(NewSession(owner=ALICE, id=new_id()))
    await store.turns.record(hers.active_branch, [exchange("a")])
    act_for(BOB)
    assert await store.sessions.get(hers.id) is None
    assert await store.turns.history(hers.active_branch) == ()
    with pytest.raises(AccessDenied):
        await store.sessions.create(NewSession(owner=BOB, id=hers.id))
    with pytest.raises(AccessDenied):
        await store.sessions.create(NewSession(owner=ALICE))
    act_for(None)
    seen = await store.sessions.get(hers.id)
    assert seen is not None
    assert seen.owner == ALICE


async def test_the_same_text_and_blob_of_two_users_are_kept_twice(store: PostgresStore, roles: Roles) -> None:
    for owner in (ALICE, BOB):
        act_for(owner)
        assert await store.contents.keep_text("the same words") == await store.contents.keep_text("the same words")
        blob = await store.contents.keep_blob(b"the same bytes", "image/png")
        assert await store.contents.blob(blob) == (b"the same bytes", "image/png")
    with psycopg.connect(roles.owner) as connection:
        for table, column in (("text", "body = 'the same words'"), ("blob", "body = 'the same bytes'")):
            counted = connection.execute(
                f"SELECT count(*), count(DISTINCT tenant) FROM {SCHEMA}.{table} WHERE {column}"
            )
            assert counted.fetchall() == [(2, 2)]
    act_for(Owner(user_id="carol"))
    assert await store.contents.blob(blob) is None


async def test_what_maintenance_creates_is_its_owners(store: PostgresStore) -> None:
    hers = await store.sessions.create(NewSession(owner=ALICE, system="Answer in rhymes."))
    await store.turns.record(hers.active_branch, [exchange("a")])
    pinned = await store.states.pin(hers.active_branch, "Ships on Friday.")
    act_for(ALICE)
    seen = await store.sessions.get(hers.id)
    assert seen is not None
    assert seen.system == "Answer in rhymes."
    assert (await store.states.head(hers.active_branch)) == pinned
    assert (await store.turns.history(hers.active_branch))[0].user_message == say("user", "a")


@pytest.mark.parametrize("role", ["postgres", "cix_owner"])
def test_a_serving_role_that_policies_do_not_bind_is_refused(role: str, roles: Roles, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"would not apply to the role {role}"):
        PostgresStore(roles.owner, tmp_path, serving_url=roles.owner.replace("cix_owner@", f"{role}@"))
    with pytest.raises(SettingsError, match="different databases"):
        PostgresStore(roles.owner, tmp_path, serving_url=server_url().replace("//postgres:@", "//cix_serving@"))
    assert Settings(storage=Storage(serving_url=roles.serving)).storage.serving_url == roles.serving
