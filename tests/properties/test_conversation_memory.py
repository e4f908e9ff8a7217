"""Document D's twelve properties of a conversation memory, for any conversation."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextinfinity import ConversationMemory
from contextinfinity.compat.chat_sessions import Turn
from contextinfinity.domain.ids import now
from contextinfinity.errors import LedgerAway
from contextinfinity.storage.invariants import is_blank
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.standby.store import StandbyStore
from tests.ledgers import open_store
from tests.recovery.outages import SOON, locked

FEATURE = "Feature: chatgpt-style-conversation-memory"
AT_LEAST_A_HUNDRED = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")  # what is text for every door
words = st.text(characters, min_size=1, max_size=60).filter(lambda text: not is_blank(text))
users = st.text(characters, min_size=1, max_size=128)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(characters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=5,
)
metadata = st.dictionaries(st.text("abcdef", min_size=1, max_size=8), json_values, max_size=4)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chats")


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[ConversationMemory]:
    with ConversationMemory(folder) as opened:
        opened.store_turn(str(uuid.uuid4()), "ada", "query", "response")  # begins the periodic clean-up
        opened.cleanup_old_conversations()  # ends after it, so that it deletes nothing under a test
        yield opened


def texts(turns: list[Turn]) -> list[tuple[str, str]]:
    return [(turn.query_text, turn.response_text) for turn in turns]


def stored(memory: ConversationMemory, said: list[tuple[str, str]], user_id: str = "ada") -> str:
    """Store a conversation and return its session."""
    session_id = memory.create_session(user_id)
    for query, response in said:
        memory.store_turn(session_id, user_id, query, response)
    return session_id


def insert(folder: Path, **row: Any) -> None:
    """Write a row of the chat log, past all checks but the database's own."""
    raw = connect(str(folder / "ledger.db"))
    try:
        names, signs = ", ".join(row), ", ".join("?" * len(row))
        raw.execute(f"INSERT INTO conversation_turns ({names}) VALUES ({signs})", tuple(row.values()))
    finally:
        raw.close()


def going_on(folder: Path) -> ConversationMemory:
    """Open a memory that notices soon when its ledger is away, and when it is back."""
    path = folder / "ledger.db"
    return ConversationMemory(store=lambda: StandbyStore(open_store(path), folder / "ledger.db-spool", SOON))


@contextmanager
def heard() -> Iterator[list[logging.LogRecord]]:
    """Hear of all that fails."""
    records: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    ear, logger = Ear(logging.ERROR), logging.getLogger("contextinfinity")
    logger.addHandler(ear)
    try:
        yield records
    finally:
        logger.removeHandler(ear)


@pytest.mark.req("CHATMEM-1", "CHATMEM-2", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(query=words, response=words, user_id=users, extra=metadata)
def test_property_1(memory: ConversationMemory, query: str, response: str, user_id: str, extra: dict[str, Any]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 1: Turn Storage Completeness."""
    session_id = str(uuid.uuid4())
    before = now()
    turn = memory.store_turn(session_id, user_id, query, response, extra)
    assert memory.get_session_history(session_id) == [turn]
    assert (turn.session_id, turn.user_id, turn.turn_number) == (session_id, user_id, 1)
    assert (turn.query_text, turn.response_text, turn.metadata) == (query, response, extra)
    assert before <= turn.created_at <= now()
    assert uuid.UUID(turn.id)


@pytest.mark.req("CHATMEM-1", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(asked=st.lists(users, min_size=1, max_size=5))
def test_property_2(memory: ConversationMemory, asked: list[str]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 2: Session ID Uniqueness and Format."""
    made = [memory.create_session(user_id) for user_id in asked]
    assert len(set(made)) == len(asked)
    assert all(str(uuid.UUID(session_id)) == session_id for session_id in made)


@pytest.mark.req("CHATMEM-2", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(one=pairs, other=pairs)
def test_property_3(memory: ConversationMemory, one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 3: Session Isolation."""
    first, second = memory.create_session("ada"), memory.create_session("ada")
    for turns, session_id in ((one, first), (other, second)):
        for query, response in turns:
            memory.store_turn(session_id, "ada", query, response)
    for turns, session_id in ((one, first), (other, second)):
        found = memory.get_session_history(session_id)
        assert texts(found) == turns
        assert {turn.session_id for turn in found} == {session_id}
    memory.delete_session(first)
    assert texts(memory.get_session_history(second)) == other


@pytest.mark.req("CHATMEM-8", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(said=pairs, more=pairs)
def test_property_4(memory: ConversationMemory, said: list[tuple[str, str]], more: list[tuple[str, str]]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 4: Session Continuity."""
    session_id = stored(memory, said)
    assert texts(memory.get_session_history(session_id.upper())) == said
    for query, response in more:
        assert memory.store_turn(session_id, "ada", query, response).session_id == session_id
    assert texts(memory.get_session_history(session_id)) == said + more
    newest = memory.get_session_history(session_id, limit=len(more))
    assert texts(newest) == more
    assert texts(memory.get_context_for_query(session_id, "And then?").history) == said + more


@pytest.mark.req("CHATMEM-10", "CHATMEM-11")
@AT_LEAST_A_HUNDRED
@given(
    wrong=st.text(max_size=60) | st.none() | st.integers() | st.uuids().map(lambda made: made.hex),
    query=words,
)
def test_property_5(memory: ConversationMemory, wrong: Any, query: str) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 5: Invalid Session Handling."""
    unknown = str(uuid.uuid4())
    for session_id in (wrong, unknown):
        assert memory.get_session_history(session_id) == []
        assert memory.delete_session(session_id) == 0
        context = memory.get_context_for_query(session_id, query)
        assert (context.history, context.query) == ([], query)
    with pytest.raises(ValueError, match="session_id"):
        memory.store_turn(wrong, "ada", query, "response")
    assert memory.store_turn(unknown, "ada", query, "response").turn_number == 1


@pytest.mark.req("CHATMEM-4", "CHATMEM-5", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(ages=st.lists(st.floats(0, 23.9) | st.floats(24.1, 1000), min_size=1, max_size=8))
def test_property_6(memory: ConversationMemory, folder: Path, ages: list[float]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 6: TTL Enforcement."""
    session_id = str(uuid.uuid4())
    for number, age in enumerate(ages, 1):
        said_at = (now() - timedelta(hours=age)).isoformat()
        row = {"turn_number": number, "query_text": f"q{number}", "response_text": "r", "created_at": said_at}
        insert(folder, session_id=session_id, user_id="ada", **row)
    young = [number for number, age in enumerate(ages, 1) if age < 24]
    assert [turn.turn_number for turn in memory.get_session_history(session_id)] == young
    result = memory.cleanup_old_conversations()
    assert (result.turns_deleted, result.errors) == (len(ages) - len(young), ())
    assert result.sessions_deleted == int(not young)
    assert result.execution_time >= 0
    assert [turn.turn_number for turn in memory.get_session_history(session_id)] == young
    assert memory.store_turn(session_id, "ada", "next", "r").turn_number == len(ages) + 1


@pytest.mark.req("CHATMEM-8", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(numbers=st.lists(st.integers(1, 1000), min_size=1, max_size=8, unique=True), limit=st.integers(-1, 60))
def test_property_7(memory: ConversationMemory, folder: Path, numbers: list[int], limit: int) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 7: Chronological Ordering."""
    session_id = str(uuid.uuid4())
    for number in numbers:
        row = {"turn_number": number, "query_text": f"q{number}", "response_text": "r"}
        insert(folder, session_id=session_id, user_id="ada", **row)
    in_order = sorted(numbers)
    assert [turn.turn_number for turn in memory.get_session_history(session_id)] == in_order
    newest = memory.get_session_history(session_id, limit)
    assert [turn.turn_number for turn in newest] == (in_order[-limit:] if limit > 0 else [])


@pytest.mark.sqlite_file("it opens the file beside the store")
@pytest.mark.req("CHATMEM-6", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(said=pairs, other=pairs)
def test_property_8(folder: Path, said: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 8: Graceful Degradation on Database Failure."""
    place = folder / "away"
    with going_on(place) as memory:
        first = memory.create_session("ada")
        with locked(place):
            second = memory.create_session("bob")
            for session_id, user_id, turns in ((first, "ada", said), (second, "bob", other)):
                for number, (query, response) in enumerate(turns, 1):
                    turn = memory.store_turn(session_id, user_id, query, response)
                    assert (turn.turn_number, turn.durability) == (number, "local")
                assert texts(memory.get_session_history(session_id)) == turns
            assert memory.is_degraded
    with going_on(place) as again:
        assert not again.is_degraded
        for session_id, turns in ((first, said), (second, other)):
            found = again.get_session_history(session_id)
            assert texts(found) == turns
            assert {turn.durability for turn in found} == {"ledger"}


@pytest.mark.req("CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(said=pairs, beside=pairs, query=words)
def test_property_9(
    memory: ConversationMemory, said: list[tuple[str, str]], beside: list[tuple[str, str]], query: str
) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 9: Memory Layer Independence."""
    session_id = stored(memory, [("Ann and Mary met.", "Yes, they did."), *said])
    asked = memory.get_context_for_query(session_id, "Where does she live?")
    stored(memory, beside)
    memory.cleanup_old_conversations()
    memory.get_context_for_query(session_id, query)
    again = memory.get_context_for_query(session_id, "Where does she live?")
    assert again == asked, "what is stored elsewhere changes nothing of what is asked back"
    assert texts(memory.get_session_history(session_id))[1:] == said, "and asking stores nothing"


@pytest.mark.req("CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(said=pairs, hours=st.floats(0, 23.9))
def test_property_10(folder: Path, said: list[tuple[str, str]], hours: float) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 10: Long-Term Memory Persistence."""
    place = folder / "restarted"
    with ConversationMemory(place) as memory:
        session_id = stored(memory, said)
        then = (now() - timedelta(hours=hours)).isoformat()
    insert(place, session_id=session_id, user_id="ada", query_text="q", response_text="r", created_at=then)
    with ConversationMemory(place) as again:
        again.cleanup_old_conversations()
        assert texts(again.get_session_history(session_id)) == [*said, ("q", "r")]


blanks = st.text(" \t\r\n\x0b\x0c\x1c\x85\xa0\u2003\u2028\u3000", max_size=5)


@pytest.mark.req("CHATMEM-3", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(said=pairs, blank=blanks, number=st.integers(-(2**31), 0))
def test_property_11(
    memory: ConversationMemory, folder: Path, said: list[tuple[str, str]], blank: str, number: int
) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 11: Database Constraint Compliance."""
    session_id = stored(memory, said)
    good = {"turn_number": len(said) + 1, "query_text": "q", "response_text": "r"}
    for wrong in ({"query_text": blank}, {"response_text": blank}, {"turn_number": number}, {"turn_number": len(said)}):
        with pytest.raises(apsw.ConstraintError):
            insert(folder, session_id=session_id, user_id="ada", **{**good, **wrong})
    assert texts(memory.get_session_history(session_id)) == said
    insert(folder, session_id=session_id, user_id="ada", **good)


@pytest.mark.sqlite_file("it opens the file beside the store")
@pytest.mark.req("CHATMEM-7", "CHATMEM-10")
@AT_LEAST_A_HUNDRED
@given(user_id=users, said=st.lists(words, min_size=1, max_size=3))
def test_property_12(folder: Path, user_id: str, said: list[str]) -> None:
    """Feature: chatgpt-style-conversation-memory, Property 12: Error Logging with Context."""
    place = folder / "failing"
    with going_on(place) as memory:
        session_id = memory.create_session(user_id)
        with locked(place), heard() as records:
            for text in said:
                memory.store_turn(session_id, user_id, f"{text} zygomorphic", "response")
            with pytest.raises(LedgerAway):
                memory.delete_session(session_id)
    kept, deleted = records
    for record, operation, whose in ((kept, "record", user_id), (deleted, "delete_session", None)):
        told = record.__dict__
        assert (told["operation"], told["session_id"], told["user_id"]) == (operation, session_id, whose)
        assert "holds the ledger" in told["error"]
        assert record.levelno == logging.ERROR
        assert f"operation={operation} session_id={session_id}" in record.getMessage()
        assert "zygomorphic" not in record.getMessage()


def test_every_property_names_its_feature_number_and_title() -> None:
    for number in range(1, 13):
        said = globals()[f"test_property_{number}"].__doc__
        assert said is not None
        assert said.startswith(f"{FEATURE}, Property {number}: ")
