"""The shape of a ledger: equal to its migrations, the reference names, look-ups by index, old and foreign files."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import LedgerForeign, LedgerTooNew
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.migrate import (
    Migration,
    migrate,
    migrations,
    objects,
    objects_of_migrations,
    version_of,
)
from contextinfinity.storage.sqlite.named_sql import QUERIES
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn
from tests.cases import each

REFERENCE = {
    "sessions": "id created_at title active_branch",
    "branches": "id session_id created_at base_state head_state head_seq label",
    "states": "id session_id branch_id state_seq parent_id summary pinned_facts token_count_est created_at "
    "schema_version",
    "turns": "id session_id branch_id turn_seq state_before state_after phase user_message_json "
    "final_assistant_message_json primary_provider primary_model created_at updated_at",
    "steps": "id turn_id step_index provider model_id request_json response_json normalized_items_json outcome_json "
    "stream_path stream_displayed_bytes stream_durable_bytes started_at ended_at",
    "jobs": "id job_type turn_id state attempts last_error created_at updated_at",
    "chunks": "id session_id branch_id source_turn rendered_text summary embedding_model embedding_dim embedding "
    "chunk_type token_est content_hash created_at",
    "retrievals": "turn_id chunk_id similarity rank",
    "conversation_turns": "id session_id user_id turn_number query_text response_text created_at metadata",
}


@pytest.mark.req("LEDGER-7")
def test_migrations_are_numbered_in_order() -> None:
    numbers = [step.version for step in migrations()]
    assert numbers == sorted(set(numbers))


@pytest.mark.req("METRICS-1")
async def test_turns_of_the_release_before_have_no_latencies_and_new_ones_do(ledger_path: Path) -> None:
    older = connect(str(ledger_path))
    migrate(older, str(ledger_path), migrations()[: [step.name for step in migrations()].index("turn_latencies")])
    older.execute(
        "INSERT INTO conversation_turns (session_id, user_id, query_text, response_text) VALUES (?, 'local', 'q', 'a')",
        (new_id(),),
    )
    older.close()
    store = SqliteStore(ledger_path)
    (session,) = await store.sessions.list(Owner())
    (turn,) = await store.turns.history(session.active_branch)
    assert (turn.text, turn.latency_ms) == ("a", {})
    await answer_turn(store, session.active_branch, "more")
    await store.close()


@pytest.mark.req("LEDGER-7")
@pytest.mark.parametrize("name", REFERENCE)
async def test_the_reference_schema_can_be_read_with_any_sqlite(
    name: str, ledger: SqliteStore, ledger_path: Path
) -> None:
    session = await ledger.sessions.create(NewSession(title="A talk", system="Be brief."))
    await answer_turn(ledger, session.active_branch, "What is the code word?", "The code word is heron.")
    with sqlite3.connect(ledger_path) as other:
        cursor = other.execute(f"SELECT * FROM {name}")
        columns = [column[0] for column in cursor.description]
        assert columns[: len(REFERENCE[name].split())] == REFERENCE[name].split()
        rows = cursor.fetchall()
    other.close()
    assert len(rows) == {"states": 2, "jobs": 3, "chunks": 0, "retrievals": 0}.get(name, 1)


@pytest.mark.req("LEDGER-7")
async def test_a_chat_log_shows_what_was_said(ledger: SqliteStore, ledger_path: Path) -> None:
    session = await ledger.sessions.create(NewSession())
    turn = await answer_turn(ledger, session.active_branch, "Who?", "Ada.")
    row = connect(str(ledger_path)).execute("SELECT * FROM conversation_turns").get
    assert row[:6] == (turn.id, session.id, "local", 1, "Who?", "Ada.")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row[6])


@pytest.mark.req("LEDGER-7")
@each(
    ("question", "index"),
    [
        ("SELECT * FROM session WHERE org_id = '' AND user_id = 'u' ORDER BY updated_at DESC", "session_by_owner"),
        ("SELECT * FROM session WHERE user_id = 'u'", "session_by_user"),
        ("SELECT * FROM conversation_turns WHERE session_id = 'x'", "session_by_uuid"),
        ("SELECT * FROM turns WHERE session_id = 'x'", "session_by_uuid"),
        ("SELECT * FROM chunks WHERE session_id = 'x'", "session_by_uuid"),
        ("SELECT * FROM sessions WHERE id = 'x'", "session_by_uuid"),
        ("SELECT * FROM branch WHERE session_id = x'00'", "branch_by_session"),
        ("SELECT * FROM branch WHERE parent_id = x'00' AND fork_seq >= 3", "branch_by_parent"),
        ("SELECT * FROM turn WHERE created_at < 0", "turn_by_created_at"),
        ("SELECT * FROM turn WHERE branch_id = x'00' AND turn_seq > 3", "PRIMARY KEY"),
        ("SELECT * FROM turn WHERE id = x'00'", "sqlite_autoindex_turn"),
        ("SELECT count(*) FROM turn WHERE phase NOT IN ('Done', 'Failed')", "turn_unfinished"),
        ("SELECT * FROM step WHERE turn_id = x'00'", "step_by_turn"),
    ],
)
def test_look_ups_use_an_index(question: str, index: str) -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}")]
    assert any(index in step for step in steps), steps
    assert not [
        step for step in steps if re.match(r"MATERIALIZE|SCAN (?!b VIRTUAL|i VIRTUAL|\(|f VIRTUAL|turn USING)", step)
    ], steps


SMALL = (
    r"line|chain|CONSTANT|json_each|job|j\b|worker|namespace|near\b|d VIRTUAL|word_state|k VIRTUAL|"
    r"keyword VIRTUAL|uncut|w\b|deletion|loose_text|used VIRTUAL|l\b|kind VIRTUAL|pragma_freelist|st\b|u\b|"
    r"\(subquery|[df]\Z|turn USING INDEX turn_unfinished"
)
"""What may be read from end to end: it never holds much, or was chosen by an index."""


@pytest.mark.req("LEDGER-7")
def test_no_statement_scans_a_table_that_grows() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    scans = {}
    for name, sql in QUERIES.items():
        bound = re.sub(r":\w+|\?\d?", "x'00'", sql)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {bound}")]
        if found := [step for step in plan if re.match(rf"SCAN (?!{SMALL})", step)]:
            scans[name] = found
    seldom = {
        *("select_idle_texts", "select_idle_blobs", "select_held_texts", "select_planned_texts"),
        "select_deleted_since",  # when a backup is purged
        "select_owners_transfer",  # when a ledger is moved to another database
        *("count_rows_of_sessions", "count_rows_of_turns", "select_saying"),  # when a deletion is proved
        "select_turns_deleted_since",  # when a backup is purged
        "expire_as_shortened",  # when a limit of the settings was shortened
        "select_sessions_of_all",  # when the conversations of all users are listed
    }
    assert set(scans) == seldom, "these run on a reader"


@pytest.mark.req("LEDGER-7", "COMPACT-1")
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("select_newest_fold", "COVERING INDEX state_by_fold (branch_id=? AND state_seq<?)"),
        ("select_next_job", "SEARCH r USING INDEX one_running_job (branch_id=? AND <expr>=?)"),
        ("select_next_due", "SEARCH r USING INDEX one_running_job (branch_id=? AND <expr>=?)"),
    ],
)
def test_what_is_asked_after_every_turn_uses_its_own_index(name: str, step: str) -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    bound = re.sub(r":\w+", "x'00'", QUERIES[name])
    assert step in " / ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {bound}"))


@pytest.mark.req("LEDGER-7", "API-7")
def test_finding_a_thread_sorts_nothing_however_many_begin_alike() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    for name, sql in sql_files.load("contextinfinity.storage.ledger", "sql/prefix_hashes.sql").items():
        bound = re.sub(r":session_id\b", "NULL", sql)
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + re.sub(r":\w+|\?", "x'00'", bound))]
        assert not [step for step in plan if "TEMP B-TREE" in step], name


@pytest.mark.req("LEDGER-7")
async def test_a_ledger_of_every_earlier_schema_opens_and_keeps_what_it_holds(ledger_path: Path) -> None:
    for version in range(1, len(migrations())):
        path = ledger_path.with_name(f"schema-{version}.db")
        older = connect(str(path))
        migrate(older, str(path), migrations()[:version])
        older.execute("INSERT INTO text (hash, body, kept_at) VALUES (x'01', 'kept', 0)")
        older.close()
        store = SqliteStore(path)
        await store.sessions.create(NewSession())
        await store.close()
        opened = connect(str(path))
        assert opened.execute("SELECT body FROM text").get == "kept"
        assert objects(opened) == objects_of_migrations()


@pytest.mark.req("LEDGER-7")
def test_a_migration_that_fails_leaves_the_old_shape(ledger_path: Path) -> None:
    connection = connect(str(ledger_path))
    migrate(connection, str(ledger_path))
    before = objects(connection)
    broken = Migration(migrations()[-1].version + 1, "broken", "CREATE TABLE half (done); SELECT no_such_function();")
    with pytest.raises(apsw.SQLError):
        migrate(connection, str(ledger_path), (*migrations(), broken))
    assert objects(connection) == before
    assert version_of(connection, str(ledger_path)) == migrations()[-1].version


@pytest.mark.req("LEDGER-7")
def test_a_ledger_of_a_newer_release_is_left_alone(ledger_path: Path) -> None:
    connection = connect(str(ledger_path))
    migrate(connection, str(ledger_path))
    connection.execute("INSERT INTO schema_version VALUES (999, 'future', 0)")
    connection.close()
    with pytest.raises(LedgerTooNew, match=r"schema 999.*Upgrade ContextInfinity"):
        SqliteStore(ledger_path)


def test_a_database_of_another_program_is_left_alone(ledger_path: Path) -> None:
    with sqlite3.connect(ledger_path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = ledger_path.read_bytes()
    with pytest.raises(LedgerForeign, match="another program"):
        SqliteStore(ledger_path)
    assert ledger_path.read_bytes()[100:] == before[100:]


def test_a_file_that_is_no_database_is_left_alone(ledger_path: Path) -> None:
    ledger_path.write_text("Dear diary, " * 100)
    with pytest.raises(LedgerForeign, match="is not a ledger"):
        SqliteStore(ledger_path)
    assert ledger_path.read_text().startswith("Dear diary")


@pytest.mark.req("LEDGER-7")
@pytest.mark.parametrize("looks", range(2))
def test_a_file_that_another_process_makes_a_ledger_while_it_is_looked_at_is_no_foreign_one(
    ledger_path: Path, looks: int
) -> None:
    connection, seen = connect(str(ledger_path)), 0

    def made_meanwhile(*_: object) -> bool:
        nonlocal seen
        if seen == looks:
            SqliteStore(ledger_path).database.close()
        seen += 1
        return True

    connection.exec_trace = made_meanwhile
    assert version_of(connection, str(ledger_path)) in (0, migrations()[-1].version)


@pytest.mark.req("LEDGER-7")
def test_processes_that_open_an_empty_file_at_once_all_get_a_ledger(ledger_path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys\n"
        "from contextinfinity.storage.sqlite.store import SqliteStore\n"
        "from contextinfinity.domain.session import NewSession\n"
        "async def main():\n"
        "    store = SqliteStore(pathlib.Path(sys.argv[1]))\n"
        "    await store.sessions.create(NewSession())\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, str(ledger_path)]) for _ in range(6)]
    assert [process.wait() for process in started] == [0] * 6
    assert connect(str(ledger_path)).execute("SELECT count(*) FROM session").get == 6
