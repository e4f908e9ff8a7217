"""Deleting from a SQLite ledger: nothing of it is left in the files, and nothing else goes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.plan import Front, Plan
from contextinfinity.domain.session import NewSession, Session
from contextinfinity.domain.turn import Completed, Exchange, NewStep, StepEnd, Turn, TurnEnd
from contextinfinity.storage.invariants import is_blank
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.integrity import Inspection
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.vector_table import SqliteVectors
from contextinfinity.storage.sqlite.vector_writes import PACK
from contextinfinity_testing.builders import WORKER, commit_turn, embedding, new_branch, new_turn, slice_of
from contextinfinity_testing.stores.deletions import chat, deleted, expired, folded, told

PRIVATE = "zygomorphic"


async def swept(store: SqliteStore) -> None:
    while await store.deletions.sweep():
        pass


def holds(path: Path, word: str) -> list[str]:
    """Name the files beside a ledger that hold a word."""
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes()]


def size_of(path: Path) -> int:
    return path.stat().st_size


def violations(path: Path) -> list[str]:
    with Inspection(path) as inspection:
        found = inspection.violations(dead=frozenset(), progress=lambda _what, _part: None)
        return [f"{offence.code}: {offence.places}" for offence in found]


async def planned(store: SqliteStore, session: Session, front: Front) -> Turn:
    """Answer a turn whose plan refers to a front."""
    turn = await store.turns.accept(new_turn(session.active_branch, f"{PRIVATE} question"))
    await store.turns.prepare(turn.id, WORKER)
    kept = await store.contents.keep_text(wire.dumps(front).decode())
    step = NewStep(id=new_id(), step_index=0, provider="p", model_id="m", plan=Plan(front=kept))
    await store.turns.open_step(turn.id, WORKER, step)
    end = StepEnd(step_id=step.id, outcome=Completed(), response=PRIVATE.encode())
    answer = say("assistant", f"{PRIVATE} answer")
    turn = await store.turns.finalise(turn.id, WORKER, TurnEnd(outcome="completed", answer=answer, step=end))
    await commit_turn(store, turn)
    return turn


@pytest.mark.req("CHATMEM-4")
async def test_no_word_of_a_deleted_conversation_is_left_in_any_file(ledger: SqliteStore, ledger_path: Path) -> None:
    kept = await chat(ledger, *(told(f"what stays {n}") for n in range(100)))
    session = await ledger.sessions.create(NewSession(title=f"on {PRIVATE}", system=f"Speak of {PRIVATE}."))
    turn = await planned(ledger, session, Front(system="s", summary=f"of {PRIVATE}"))
    await ledger.states.pin(session.active_branch, f"{PRIVATE} is a word")
    await folded(ledger, session.active_branch, 1, f"They spoke of {PRIVATE}.")
    text = turn.user_message.rendered_text
    await ledger.chunks.index(turn.id, [slice_of(text, PRIVATE, embedding=embedding("tiny", 1, 0))])
    assert holds(ledger_path, PRIVATE)
    await deleted(ledger, session.id)
    await swept(ledger)
    assert holds(ledger_path, PRIVATE) == []
    assert size_of(Path(f"{ledger_path}-wal")) == 0
    assert len(await ledger.turns.history(kept.active_branch, limit=1000)) == 100
    assert violations(ledger_path) == []


@pytest.mark.req("CHATMEM-4")
async def test_no_word_of_an_expired_turn_is_left_either(ledger: SqliteStore, ledger_path: Path) -> None:
    session = await chat(ledger, told(f"about {PRIVATE}", hours=30), told("something else"))
    await folded(ledger, session.active_branch, 1, f"They spoke of {PRIVATE}.")
    await expired(ledger, session.id)
    await swept(ledger)
    assert holds(ledger_path, PRIVATE) == []
    assert violations(ledger_path) == []


@pytest.mark.req("CHATMEM-4")
async def test_no_word_of_an_expired_turn_is_left_in_the_metadata_of_later_ones(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    session = await chat(ledger, told("about something", hours=30))
    (first,) = (turn for turn in await ledger.database.read(all_turns) if turn[1] == 1)
    sent = {"as_sent": {first[0]: [{"role": "user", "blocks": [PRIVATE]}], "this": ["mine"]}, "note": "kept"}
    (later,) = await ledger.turns.record(session.active_branch, [replace(told("b"), metadata=sent)])
    assert holds(ledger_path, PRIVATE)
    await expired(ledger, session.id)
    await swept(ledger)
    assert holds(ledger_path, PRIVATE) == []
    left = await ledger.turns.get(later.id)
    assert left is not None
    assert left.metadata == {"as_sent": {"this": ["mine"]}, "note": "kept"}
    assert violations(ledger_path) == []


def all_turns(connection: SqliteConnection) -> list[tuple[str, int]]:
    return list(connection.raw.execute("SELECT uuid, turn_seq FROM turn"))


async def test_texts_that_others_use_stay(ledger: SqliteStore) -> None:
    one = await ledger.sessions.create(NewSession(system="Be brief."))
    other = await ledger.sessions.create(NewSession(system="Be brief."))
    front = Front(system="Be brief.", summary="the same")
    for session in (one, other):
        await planned(ledger, session, front)
        await ledger.states.pin(session.active_branch, "tea")
    sha256 = wire.text_hash(wire.dumps(front).decode()).hex()
    await deleted(ledger, one.id)
    await swept(ledger)
    assert await ledger.contents.text(sha256) is not None
    rest = await ledger.sessions.get(other.id)
    assert rest is not None
    assert rest.system == "Be brief."
    assert (await ledger.states.head(rest.active_branch)).pinned_facts == ("tea",)
    await deleted(ledger, other.id)
    await swept(ledger)
    assert await ledger.contents.text(sha256) is None


async def test_a_text_that_somebody_may_be_about_to_use_waits(ledger: SqliteStore) -> None:
    session = await ledger.sessions.create(NewSession())
    front = Front(system="Of everybody.", summary="")
    await planned(ledger, session, front)
    sha256 = wire.text_hash(wire.dumps(front).decode()).hex()
    await deleted(ledger, session.id)
    await swept(ledger)
    assert await ledger.contents.text(sha256) is not None
    await ledger.database.write(lambda connection: connection.raw.execute("UPDATE text SET kept_at = 0"))
    await swept(ledger)
    assert await ledger.contents.text(sha256) is None


@pytest.mark.req("CHATMEM-4")
async def test_what_was_deleted_leaves_its_ids_and_numbers(ledger: SqliteStore, ledger_path: Path) -> None:
    session = await chat(ledger, told("a", hours=30), told("b"))
    (old, _) = await ledger.index.turns()
    await expired(ledger, session.id)
    await deleted(ledger, session.id)
    rows = connect(str(ledger_path)).execute("SELECT hex(id), kind, seq FROM tombstone ORDER BY kind, seq").fetchall()
    assert rows[0] == (session.active_branch.replace("-", "").upper(), "branch", None)
    assert rows[1] == (session.id.replace("-", "").upper(), "session", None)
    assert rows[2] == (old.id.replace("-", "").upper(), "turn", 1)
    assert rows[3][1:] == ("turn", 2)
    with pytest.raises(apsw.ConstraintError, match="never forgotten"):
        connect(str(ledger_path)).execute("DELETE FROM tombstone")


@pytest.mark.req("CHATMEM-4")
@pytest.mark.parametrize("table", ["turn", "message", "state", "branch", "session"])
async def test_nothing_is_deleted_without_a_deletion(table: str, ledger: SqliteStore, ledger_path: Path) -> None:
    session = await chat(ledger, told("a", hours=30), told("b"))
    await expired(ledger, session.id)
    raw = connect(str(ledger_path))
    raw.execute("PRAGMA foreign_keys = OFF")
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        raw.execute(f"DELETE FROM {table}")
    with pytest.raises(apsw.ConstraintError, match="immutable"):
        raw.execute("UPDATE state SET summary = NULL, covers_turn_seq = 0")


@pytest.mark.req("CHATMEM-4", "CHATMEM-5")
async def test_a_deletion_that_was_cut_off_goes_on(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    session = await chat(store, *(told(f"w{n}") for n in range(10)))
    await store.deletions.delete(session.id, limit=3)
    await store.close()
    again = SqliteStore(ledger_path)
    assert await again.sessions.get(session.id) is None
    assert await again.deletions.due() == (session.id,)
    assert (await expired(again, session.id, limit=3)).turns == 7
    assert await again.deletions.due() == ()
    await again.close()
    assert violations(ledger_path) == []


async def test_vectors_leave_their_packs_and_the_others_stay(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger, NewSession(kind="chat", ttl_hours=24))
    turns = await ledger.turns.record(
        branch.id, [told(f"word{n}", hours=30 if n % 3 == 0 else 0) for n in range(PACK + 40)]
    )
    await ledger.index.fill(
        [
            (turn.id, [slice_of(f"word{n}", f"word{n}", embedding=embedding("tiny", 1, n))])
            for n, turn in enumerate(turns)
        ]
    )
    ids = [(await ledger.chunks.of_turn(turn.id))[0].id for turn in turns]
    before = await ledger.vectors.bodies("tiny", ids)
    await expired(ledger, branch.session_id)
    after = await ledger.vectors.bodies("tiny", ids)
    assert after == tuple(None if n % 3 == 0 else body for n, body in enumerate(before))
    assert (await ledger.vectors.namespaces())[0].placed == sum(body is not None for body in after)


async def test_a_file_of_vectors_is_made_anew_when_much_of_it_is_gone(ledger: SqliteStore, ledger_path: Path) -> None:
    vectors = SqliteVectors(ledger.database, ledger_path.parent / "vectors", least=10)
    session = await chat(ledger, *(told(f"word{n}") for n in range(40)))
    gone = await chat(ledger, *(told(f"other{n}") for n in range(40)))
    for turn in await ledger.index.turns():
        text = turn.user_message.rendered_text
        number = float(text.strip("wordthe"))
        await ledger.index.fill([(turn.id, [slice_of(text, text, embedding=embedding("tiny", 1, number, 3))])])
    assert await vectors.build()
    assert not await vectors.build()
    (before,) = (ledger_path.parent / "vectors").glob("*.usearch")
    await deleted(ledger, gone.id)
    assert await vectors.build()
    (after,) = (ledger_path.parent / "vectors").glob("*.usearch")
    assert after != before
    assert await ledger.sessions.get(session.id) is not None


async def test_a_ledger_gives_its_room_back(ledger: SqliteStore, ledger_path: Path) -> None:
    session = await chat(ledger, *(told(f"{n} " + "x" * 4000) for n in range(300)))
    await ledger.database.write(lambda _: None, wipe=True)
    before = size_of(ledger_path)
    await deleted(ledger, session.id)
    await swept(ledger)
    assert size_of(ledger_path) < before / 2


@pytest.mark.req("CHATMEM-5")
async def test_others_write_while_much_is_deleted(ledger: SqliteStore) -> None:
    session = await chat(ledger, *(told(f"w{n}") for n in range(500)))
    other = await chat(ledger, told("first"))

    async def write() -> None:
        for n in range(20):
            await ledger.turns.record(other.active_branch, [told(f"beside {n}")])

    writing = asyncio.create_task(write())
    assert await deleted(ledger, session.id, limit=20) == 500
    await writing
    assert len(await ledger.turns.history(other.active_branch, limit=100)) == 21


# --- the chat log as a table ---


def statement(values: dict[str, object]) -> str:
    names, signs = ", ".join(values), ", ".join("?" * len(values))
    return f"INSERT INTO conversation_turns ({names}) VALUES ({signs})"


def insert(path: Path, **values: object) -> None:
    """Write a row of the chat log."""
    raw = connect(str(path))
    try:
        raw.execute(statement(values), tuple(values.values()))
    finally:
        raw.close()


ROW = {"user_id": "ada", "turn_number": 1, "query_text": "Who?", "response_text": "Ada."}


@pytest.mark.req("CHATMEM-3")
async def test_the_chat_log_takes_rows_and_they_are_turns(ledger: SqliteStore, ledger_path: Path) -> None:
    session_id, turn_id = new_id(), new_id()
    then = now() - timedelta(hours=2)
    insert(ledger_path, id=turn_id, session_id=session_id, metadata='{"a": 1}', created_at=then.isoformat(), **ROW)
    insert(ledger_path, session_id=session_id, user_id="ada", query_text="And?", response_text="Charles.")
    session = await ledger.sessions.get(session_id)
    assert session is not None
    assert (session.kind, session.owner.user_id, session.ttl_hours) == ("chat", "ada", 24.0)
    first, second = await ledger.turns.history(session.active_branch)
    assert (first.id, first.turn_seq, first.metadata) == (turn_id, 1, {"a": 1})
    assert abs(first.created_at - then) <= timedelta(milliseconds=1)
    assert (second.turn_seq, second.user_message, second.answer) == (
        2,
        say("user", "And?"),
        say("assistant", "Charles."),
    )
    (recorded,) = await ledger.turns.record(session.active_branch, [told("three")])
    assert recorded.turn_seq == 3
    await ledger.index.fill([(turn.id, []) for turn in await ledger.index.uncut()])
    assert violations(ledger_path) == []


@pytest.mark.req("CHATMEM-3")
async def test_any_sqlite_can_write_to_the_chat_log(ledger_path: Path) -> None:
    session_id = new_id()
    await SqliteStore(ledger_path).close()
    row = {"session_id": session_id, **ROW}
    with sqlite3.connect(ledger_path) as other:  # the one that comes with Python, not ours
        other.execute(statement(row), tuple(row.values()))
    with pytest.raises(sqlite3.IntegrityError, match="that number"), other:
        other.execute(statement(row), tuple(row.values()))
    other.close()
    store = SqliteStore(ledger_path)
    session = await store.sessions.get(session_id)
    assert session is not None
    (turn,) = await store.turns.history(session.active_branch)
    assert (turn.user_message, turn.answer) == (say("user", "Who?"), say("assistant", "Ada."))
    await store.close()


@pytest.mark.req("CHATMEM-3")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "that number"),
        ({"turn_number": 0}, "over 0"),
        ({"turn_number": -1}, "over 0"),
        ({"turn_number": "two"}, "over 0"),
        ({"turn_number": 2, "query_text": ""}, "query_text"),
        ({"turn_number": 2, "query_text": " \n\t\u3000\u2028"}, "query_text"),
        ({"turn_number": 2, "query_text": "\u200b \ufeff\u2800"}, "query_text"),
        ({"turn_number": 2, "query_text": "\0\0"}, "query_text"),
        ({"turn_number": 2, "query_text": "x" * 1_000_001}, "1,000,000 characters"),
        ({"turn_number": 2**63 - 1}, "at most"),
        ({"turn_number": 2, "response_text": "  "}, "response_text"),
        ({"turn_number": 2, "response_text": None}, "response_text"),
        ({"turn_number": 2, "user_id": "eve"}, "another user"),
        ({"turn_number": 2, "user_id": ""}, "user_id"),
        ({"turn_number": 2, "session_id": "no-id"}, "session_id"),
        ({"turn_number": 2, "metadata": "[1]"}, "metadata"),
        ({"turn_number": 2, "created_at": "yesterday"}, "created_at"),
        ({"turn_number": 2, "id": "mine"}, "id"),
    ],
)
async def test_the_database_refuses_what_is_no_chat_turn(
    changes: dict[str, object], reason: str, ledger: SqliteStore, ledger_path: Path
) -> None:
    session_id = new_id()
    insert(ledger_path, session_id=session_id, **ROW)
    with pytest.raises(apsw.ConstraintError, match=reason):
        insert(ledger_path, **{"session_id": session_id, **ROW, **changes})
    session = await ledger.sessions.get(session_id)
    assert session is not None
    assert len(await ledger.turns.history(session.active_branch)) == 1


@pytest.mark.req("CHATMEM-3")
def test_the_database_knows_the_same_blanks(ledger: SqliteStore, ledger_path: Path) -> None:
    connection = connect(str(ledger_path))
    ((signs,),) = connection.execute("SELECT signs FROM blank_sign").fetchall()
    connection.close()
    assert set(str(signs)) | {"\0"} == {chr(code) for code in range(sys.maxunicode) if is_blank(chr(code))}


@pytest.mark.req("CHATMEM-3", "CHATMEM-4")
async def test_a_row_of_the_chat_log_is_never_of_the_future_and_gone_with_its_time(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    session_id, old = new_id(), (now() - timedelta(hours=25)).isoformat()
    insert(ledger_path, session_id=session_id, **ROW, created_at="2999-01-01T00:00:00Z")
    insert(ledger_path, session_id=session_id, **{**ROW, "turn_number": 2}, created_at=old)
    session = await ledger.sessions.get(session_id)
    assert session is not None
    (first,) = await ledger.turns.history(session.active_branch)
    assert first.created_at <= now()
    connection = connect(str(ledger_path))
    assert connection.execute("SELECT turn_number FROM conversation_turns").fetchall() == [(1,)]
    connection.close()


@pytest.mark.req("CHATMEM-3", "CHATMEM-4")
async def test_the_chat_log_refuses_a_row_of_another_in_a_deleted_session(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    session_id = new_id()
    insert(ledger_path, session_id=session_id, **ROW)
    await deleted(ledger, session_id)
    row = {"session_id": session_id, **ROW, "turn_number": 2}
    with pytest.raises(apsw.ConstraintError, match="another user"):
        insert(ledger_path, **{**row, "user_id": "eve"})
    insert(ledger_path, **row)


@pytest.mark.req("CHATMEM-3", "CHATMEM-4")
async def test_the_number_of_a_deleted_turn_is_refused(ledger: SqliteStore, ledger_path: Path) -> None:
    session_id = new_id()
    insert(ledger_path, session_id=session_id, created_at="2020-01-01T00:00:00Z", **ROW)
    insert(ledger_path, session_id=session_id, **{**ROW, "turn_number": 2})
    await expired(ledger, session_id)
    with pytest.raises(apsw.ConstraintError, match="not reused"):
        insert(ledger_path, session_id=session_id, **ROW)


@pytest.mark.req("CHATMEM-3")
@pytest.mark.parametrize(("query", "response"), [("", "b"), ("a", " \n"), ("a", None)])
async def test_a_blank_chat_turn_is_refused_whoever_brings_it(
    query: str, response: str | None, ledger: SqliteStore
) -> None:
    session = await chat(ledger)
    answer = None if response is None else say("assistant", response)
    with pytest.raises(Exception, match="blank"):
        await ledger.turns.record(session.active_branch, [Exchange(message=say("user", query), answer=answer)])
    assert await ledger.turns.history(session.active_branch) == ()
    branch = await new_branch(ledger)
    assert await ledger.turns.record(branch.id, [Exchange(message=say("user", query), answer=answer)])
