"""What the database itself refuses from every writer: here a plain connection past all our code."""

from __future__ import annotations

import os
import stat
from itertools import product
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.domain.turn import TRANSITIONS, Phase, TurnEnd
from contextinfinity.errors import LedgerReadOnly
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    commit_turn,
    failed_turn,
    new_branch,
    new_turn,
    slice_of,
)


@pytest.fixture
async def vandal(ledger: SqliteStore, ledger_path: Path) -> apsw.Connection:
    """A connection to a ledger with something of everything in it."""
    session = await ledger.sessions.create(NewSession(system="Be brief."))
    turn = await answer_turn(ledger, session.active_branch, "What is the code word?", "It is heron.")
    await ledger.chunks.index(turn.id, [slice_of("What is the code word?", "code word")])
    return connect(str(ledger_path))


CHANGES = [
    "UPDATE message SET text = 'something else'",
    "UPDATE message SET content_hash = x'00'",
    "DELETE FROM message",
    "UPDATE turn SET user_message = answer",
    "UPDATE turn SET answer = NULL",
    "UPDATE turn SET answer = user_message",
    "UPDATE turn SET turn_seq = turn_seq + 1",
    "UPDATE turn SET branch_id = x'00'",
    "UPDATE turn SET state_after = NULL",
    "DELETE FROM turn",
    "UPDATE state SET covers_turn_seq = 0",
    "UPDATE state SET summary = 1",
    "DELETE FROM state",
    "UPDATE step SET items = NULL",
    "UPDATE step SET outcome = NULL",
    "DELETE FROM step",
    "UPDATE plan SET body = '{}'",
    "UPDATE chunk SET end = end - 1",
    "UPDATE text SET body = 'Be long.'",
    "UPDATE turn SET outcome = 'failed'",
    "UPDATE turn SET error = '{}'",
    "UPDATE turn SET metadata = '{}'",
    "UPDATE turn SET model = 'another'",
    "UPDATE response SET body = x'00'",
    "UPDATE branch SET last_turn_seq = 0, fork_seq = 0, base_state = x'00'",
    "DELETE FROM plan",
    "DELETE FROM branch",
    "DELETE FROM session",
    "UPDATE turns SET user_message_json = '{}'",
    "UPDATE conversation_turns SET query_text = 'x'",
]
"""What no writer may do to a ledger, on any database."""
REPLACEMENTS = [
    "REPLACE INTO message SELECT key, session_id, role, 'something else', NULL, content_hash FROM message",
    "REPLACE INTO state SELECT id, session_id, branch_id, state_seq, parent_id, turn_seq, 0, reason, 1, pins, "
    "token_count_est, created_at, schema_version FROM state",
    "REPLACE INTO text SELECT key, hash, 'Be long.', kept_at FROM text",
    "REPLACE INTO plan SELECT turn_id, step_index, session_id, '{}' FROM plan",
    "REPLACE INTO response SELECT step_id, session_id, x'00' FROM response",
    "REPLACE INTO turn (id, session_id, branch_id, turn_seq, phase, state_before, user_message, created_at, "
    "updated_at) SELECT id, session_id, branch_id, turn_seq, 'Done', state_before, answer, 0, 0 FROM turn",
]


@pytest.mark.req("LEDGER-4")
@pytest.mark.parametrize("change", [*CHANGES, *REPLACEMENTS])
@pytest.mark.parametrize("recursive", ["ON", "OFF"], ids=["ours", "anybody"])
def test_what_was_said_cannot_be_changed(vandal: apsw.Connection, change: str, recursive: str) -> None:
    vandal.execute(f"PRAGMA recursive_triggers = {recursive}")  # off, as it is on a connection of another program
    vandal.execute("PRAGMA foreign_keys = OFF")
    before = dump(vandal)
    with pytest.raises((apsw.ConstraintError, apsw.SQLError), match=r"immutable|because it is a view"):
        vandal.execute(change)
    assert dump(vandal) == before


CLOSE = "UPDATE turn SET answer = (SELECT max(key) FROM message), outcome = 'completed' WHERE turn_seq = 2"


@pytest.fixture
async def logged(ledger: SqliteStore, vandal: apsw.Connection) -> apsw.Connection:
    """A connection to a ledger in whose only branch a question was logged, as its second turn."""
    (session,) = await ledger.sessions.list(Owner())
    await ledger.turns.log(session.active_branch, say("user", "And the lake?"))
    return vandal


@pytest.mark.req("LEDGER-4", "THREAD-13")
def test_a_turn_recorded_without_an_answer_is_given_one_once(logged: apsw.Connection) -> None:
    logged.execute(CLOSE)
    before = dump(logged)
    for change in ("answer = 1", "answer = NULL", "outcome = NULL", "outcome = 'failed'"):
        with pytest.raises(apsw.ConstraintError, match="immutable"):
            logged.execute(f"UPDATE turn SET {change} WHERE turn_seq = 2")
    assert dump(logged) == before


@pytest.mark.req("LEDGER-4", "THREAD-13")
@pytest.mark.parametrize(
    "change",
    [
        "answer = 1",
        "answer = 1, outcome = 'incomplete'",
        "outcome = 'completed'",
        "outcome = 'failed'",
        "answer = 1, outcome = 'completed', model = 'another'",
        "answer = 1, outcome = 'completed', metadata = '{}'",
        "answer = 1, outcome = 'completed', user_message = 2",
    ],
)
def test_nothing_else_of_a_recorded_turn_can_be_changed(logged: apsw.Connection, change: str) -> None:
    before = dump(logged)
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        logged.execute(f"UPDATE turn SET {change} WHERE turn_seq = 2")
    assert dump(logged) == before


@pytest.mark.req("LEDGER-4", "THREAD-13")
@pytest.mark.parametrize("after", ["turn", "fork"])
async def test_what_others_went_on_from_cannot_be_answered(
    logged: apsw.Connection, ledger: SqliteStore, after: str
) -> None:
    (session,) = await ledger.sessions.list(Owner())
    if after == "turn":
        await ledger.turns.accept(new_turn(session.active_branch, "next"))
    else:
        await ledger.branches.fork(session.active_branch)
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        logged.execute(CLOSE)


@pytest.mark.req("LEDGER-4")
async def test_a_turn_of_the_engine_that_ended_without_an_answer_keeps_none(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    branch = await new_branch(ledger)
    await failed_turn(ledger, branch.id, "lost")
    stopped = await ledger.turns.accept(new_turn(branch.id, "stopped"))
    await ledger.turns.prepare(stopped.id, WORKER)
    await commit_turn(ledger, await ledger.turns.finalise(stopped.id, WORKER, TurnEnd(outcome="cancelled")))
    connection = connect(str(ledger_path))
    for seq in (1, 2):
        for outcome in ("outcome", "'completed'"):
            with pytest.raises(apsw.ConstraintError, match="immutable"):
                connection.execute(f"UPDATE turn SET answer = 1, outcome = {outcome} WHERE turn_seq = {seq}")


HEADS = ["head_seq = head_seq + 1", "head_seq = 0", "head_state = base_state"]


@pytest.mark.req("LEDGER-5")
@pytest.mark.parametrize("change", ["head_state = randomblob(16)", *HEADS])
def test_a_head_cannot_point_past_a_state(vandal: apsw.Connection, change: str) -> None:
    with pytest.raises(
        apsw.ConstraintError, match=r"head: a branch (points only to a state of its session|never goes)"
    ):
        vandal.execute(f"UPDATE branch SET {change}")


@pytest.mark.req("TURN-1")
@pytest.mark.parametrize("phase", Phase)
def test_no_phase_follows_that_the_table_does_not_allow(vandal: apsw.Connection, phase: Phase) -> None:
    now = Phase(vandal.execute("SELECT phase FROM turn").get)
    assert now is Phase.INDEXED
    if phase in TRANSITIONS[now] | {now}:
        vandal.execute("UPDATE turn SET phase = ?", (phase.value,))
        return
    with pytest.raises(apsw.ConstraintError, match="phase: a turn cannot go"):
        vandal.execute("UPDATE turn SET phase = ?", (phase.value,))


@pytest.mark.req("TURN-1")
def test_the_database_knows_the_same_transitions_as_the_code(vandal: apsw.Connection) -> None:
    trigger = vandal.execute("SELECT sql FROM sqlite_schema WHERE name = 'turn_phase_follows'").get
    refuses = trigger[trigger.index("WHEN NEW") + 4 : trigger.index("BEGIN")]
    asked = refuses.replace("OLD.phase", ":old").replace("NEW.phase", ":new")
    allowed = {
        (old, new)
        for old, new in product(Phase, repeat=2)
        if old is not new and not vandal.execute(f"SELECT {asked}", {"old": old.value, "new": new.value}).get
    }
    assert allowed == {(old, new) for old, after in TRANSITIONS.items() for new in after}


@pytest.mark.req("TURN-1")
def test_a_second_open_turn_on_a_branch_is_refused(vandal: apsw.Connection) -> None:
    same = "session_id, branch_id, state_before, user_message, created_at, updated_at"
    for place in (2, 3):
        vandal.execute(
            f"INSERT INTO turn (id, turn_seq, phase, {same}) "
            f"SELECT randomblob(16), {place}, 'Accepted', {same} FROM turn WHERE turn_seq = 1"
        )
    vandal.execute("UPDATE turn SET phase = 'ContextPrepared' WHERE turn_seq = 2")
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        vandal.execute("UPDATE turn SET phase = 'ContextPrepared' WHERE turn_seq = 3")


@pytest.mark.req("LEDGER-4")
def test_the_same_words_indexed_again_change_nothing(vandal: apsw.Connection) -> None:
    before = dump(vandal)
    columns = (
        "id, session_id, branch_id, turn_id, side, start, end, summary, chunk_type, token_est, content_hash, created_at"
    )
    others = columns.replace("summary", "'other'")
    vandal.execute(f"REPLACE INTO chunk ({columns}) SELECT {others} FROM chunk")
    assert dump(vandal) == before


@pytest.mark.req("LEDGER-4")
def test_a_deletion_opens_its_own_session_only(vandal: apsw.Connection) -> None:
    vandal.execute("INSERT INTO deletion VALUES (randomblob(16), 'somebody else', 0)")
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        vandal.execute("DELETE FROM message")
    vandal.execute("INSERT INTO deletion SELECT id, 'asked for', 0 FROM session")
    vandal.execute("DELETE FROM message")
    assert vandal.execute("SELECT count(*) FROM message").get == 0


async def test_the_file_and_its_journals_are_private(ledger: SqliteStore, ledger_path: Path) -> None:
    await ledger.sessions.create(NewSession())
    made = sorted(ledger_path.parent.glob("ledger.db*"))
    assert [path.name for path in made] == ["ledger.db", "ledger.db-identity", "ledger.db-shm", "ledger.db-wal"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("a file where the folder should be")
    with pytest.raises(LedgerReadOnly, match=r"in the way.ledger\.db cannot be opened.*choose another data_dir"):
        SqliteStore(tmp_path / "in the way" / "ledger.db")


def test_a_wide_umask_changes_nothing(ledger_path: Path) -> None:
    before = os.umask(0)
    try:
        SqliteStore(ledger_path).database.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(ledger_path.stat().st_mode) == 0o600


def dump(connection: apsw.Connection) -> list[object]:
    tables = ("message", "turn", "state", "step", "plan", "chunk", "text", "branch")
    return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.mark.req("LEDGER-4")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE origin SET external_id = 'other'",
        "UPDATE origin SET hash = x'00'",
        "DELETE FROM origin",
        "REPLACE INTO origin SELECT message_key, place, session_id, answers, 'x', 1, hash, NULL, NULL FROM origin",
        "REPLACE INTO origin SELECT message_key, 7, session_id, 0, external_id, mark, hash, NULL, NULL FROM origin",
    ],
)
async def test_where_a_message_came_from_never_changes(ledger: SqliteStore, ledger_path: Path, change: str) -> None:
    branch = await new_branch(ledger)
    await ledger.imports.add(branch.id, [ImportedMessage(message=say("user", "Hello."), place=0, external_id="m0")])
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        connect(str(ledger_path)).execute(change)
