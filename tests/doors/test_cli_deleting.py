"""``cix delete`` and ``cix cleanup`` at the command line."""

from __future__ import annotations

import pytest

from contextinfinity.compat.conversation_memory import ConversationMemory
from contextinfinity.storage.sqlite.connection import connect
from tests.doors.cix import Cix


@pytest.mark.req("CLI-1", "CHATMEM-4")
def test_a_conversation_is_deleted_only_with_yes(cix: Cix) -> None:
    thread = cix.ask("The heron stood still.")["thread_id"]
    refused = cix("delete", thread)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert [each["thread_id"] for each in cix.json("sessions")["sessions"]] == [thread]
    deleted = cix.json("delete", thread, "--yes")
    assert (deleted["thread_id"], deleted["turns"], deleted["remaining"]) == (thread, 1, [])
    assert [place["found"] for place in deleted["places"]] == [0] * len(deleted["places"])
    assert cix.json("sessions")["sessions"] == []
    assert cix("delete", thread, "--yes").exit_code == 1
    assert cix.json("search", "heron")["hits"] == []


@pytest.mark.req("CLI-1", "CHATMEM-5")
def test_a_clean_up_says_what_it_deleted(cix: Cix) -> None:
    with ConversationMemory(cix.folder) as memory:
        session_id = memory.create_session("local")
        memory.store_turn(session_id, "local", "young", "r")
    raw = connect(str(cix.folder / "ledger.db"))
    row = (session_id, "local", "old", "r", "2020-01-01T00:00:00Z")
    names = "session_id, user_id, query_text, response_text, created_at"
    raw.execute(f"INSERT INTO conversation_turns ({names}) VALUES (?, ?, ?, ?, ?)", row)
    raw.close()
    result = cix.json("cleanup")
    assert (result["sessions_deleted"], result["turns_deleted"], result["errors"]) == (0, 1, [])
    assert result["execution_time"] > 0
    assert "0 conversations and 0 turns" in cix("cleanup").stderr
