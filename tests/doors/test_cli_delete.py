"""Deletion with proof, and retention, at the command line and over HTTP."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.connection import connect
from tests.doors.cix import Cix
from tests.doors.server import Server

PRIVATE = "the zygomorphic heron of my neighbour"
PLACES = {
    *("ledger rows", "ledger file", "write-ahead log", "journals", "spool", "vectors", "typed history"),
    *("own backups", "named backups", "workspace history", "other files"),
}


def files_with(folder: Path, word: str = "zygomorphic") -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]


def found(deleted: dict[str, object]) -> dict[str, int]:
    return {one["place"]: one["found"] for one in deleted["places"]}  # type: ignore[attr-defined]


@pytest.mark.req("SAFE-4", "SAFE-8")
def test_a_deleted_turn_leaves_no_byte_and_the_report_lists_every_place(cix: Cix) -> None:
    cix.ask("what is a gnomon")
    cix.ask(PRIVATE, "--session", "last")
    cix.ask("and a sundial", "--session", "last")
    assert cix("delete", "last", "--turn", "2").exit_code == 2
    deleted = cix.json("delete", "last", "--turn", "2", "--yes")
    assert set(found(deleted)) == PLACES
    assert not any(found(deleted).values())
    assert files_with(cix.folder) == []
    assert [question for question, _ in cix.said()] == ["what is a gnomon", "and a sundial"]
    cix.ask("again", "--session", "last")
    assert [question for question, _ in cix.said()][-1] == "again"


@pytest.mark.req("SAFE-4", "SAFE-8")
def test_backups_lose_a_deleted_turn_and_those_of_a_person_are_named(cix: Cix, tmp_path: Path) -> None:
    cix.ask(PRIVATE)
    cix.ask("more", "--session", "last")
    elsewhere = tmp_path / "elsewhere.db"
    (cix.folder / "backups").mkdir(mode=0o700)
    assert cix("backup", str(elsewhere)).exit_code == 0
    assert cix("backup", str(cix.folder / "backups" / "ledger-own.db")).exit_code == 0
    deleted = cix.json("delete", "last", "--turn", "1", "--yes")
    assert found(deleted)["named backups"] > 0
    assert any(str(elsewhere) in sentence for sentence in deleted["remaining"])
    assert set(files_with(tmp_path)) == {"elsewhere.db"}


@pytest.mark.req("SAFE-4")
def test_a_user_is_deleted_with_memories_and_nobody_else(cix: Cix) -> None:
    cix.ask(f"{PRIVATE}, said anna", "--user", "anna")
    cix.ask("what is a gnomon", "--user", "ben")
    cix("remember", "Anna keeps a zygomorphic garden", "--tag", "user:anna")
    assert cix("delete", "--all", "--user", "anna").exit_code == 2
    deleted = cix.json("delete", "--all", "--user", "anna", "--yes")
    assert (deleted["user_id"], deleted["conversations"], deleted["turns"]) == ("anna", 1, 1)
    assert deleted["memories"] >= 1
    assert not any(found(deleted).values())
    assert files_with(cix.folder) == []
    assert cix.json("sessions", "--user", "anna")["sessions"] == []
    assert len(cix.json("sessions", "--user", "ben")["sessions"]) == 1
    everything = cix.json("delete", "--everything", "--yes")
    assert everything["conversations"] == 1
    assert cix.json("sessions", "--user", "ben")["sessions"] == []


@pytest.mark.req("SAFE-4", "API-14")
def test_over_http_a_turn_and_a_user_are_deleted_by_their_owner_only(server: Server) -> None:
    client = server.http
    made = client.post("/threads", json={"user_id": "cleo"}).json()["thread_id"]
    turn = client.post(f"/threads/{made}/messages", json={"content": PRIVATE, "user_id": "cleo"}).json()["turn_id"]
    assert client.delete(f"/threads/{made}/turns/{turn}", params={"user_id": "dan"}).status_code == 404
    deleted = client.delete(f"/threads/{made}/turns/{turn}", params={"user_id": "cleo", "scan": True}).json()
    assert (deleted["turn_id"], found(deleted)) == (turn, {"ledger rows": 0})
    assert client.delete("/threads", params={"user_id": "cleo", "confirm": "dan"}).status_code == 422
    gone = client.delete("/threads", params={"user_id": "cleo", "confirm": "cleo"}).json()
    assert (gone["conversations"], gone["places"]) == (1, [])
    assert client.get(f"/threads/{made}", params={"user_id": "cleo"}).status_code == 404


def age(cix: Cix, days: int) -> None:
    """Make all turns older, which no verb can."""
    raw = connect(str(cix.folder / "ledger.db"))
    guard = raw.execute("SELECT sql FROM sqlite_schema WHERE name = 'turn_content_is_immutable'").get
    with raw:
        raw.execute("DROP TRIGGER turn_content_is_immutable")
        raw.execute("UPDATE turn SET created_at = created_at - ? * 86400000", (days,))
        raw.execute("UPDATE session SET created_at = created_at - ? * 86400000", (days,))
        raw.execute(guard)
    raw.close()


@pytest.mark.req("SAFE-7")
def test_retention_is_set_for_the_store_a_user_and_a_conversation(cix: Cix) -> None:
    cix.ask(PRIVATE)
    cix.ask("from anna", "--user", "anna")
    cix.ask("from ben", "--user", "ben")
    assert cix.json("retention", "last")["ttl_hours"] is None
    assert cix.json("retention", "last", "1y")["ttl_hours"] == 8760
    assert cix("retention", "last", "soon").exit_code == 2
    age(cix, 40)
    with (cix.folder / "config.toml").open("a") as file:
        file.write("\n[retention]\nhours = 2400\n[retention.users.anna]\nhours = 24\n")
    assert cix.json("cleanup")["turns_deleted"] == 1
    assert cix.json("sessions", "--user", "anna")["sessions"] == []
    assert cix.json("retention", "last")["ttl_hours"] == 2400
    assert cix.json("retention", "last", "30d")["ttl_hours"] == 720
    assert cix.json("cleanup")["turns_deleted"] == 1
    assert files_with(cix.folder) == []
    assert len(cix.json("sessions", "--user", "ben")["sessions"]) == 1


def raw_responses(cix: Cix) -> object:
    with closing(connect(str(cix.folder / "ledger.db"))) as raw:
        return raw.execute("SELECT count(*) FROM response").get


@pytest.mark.req("SAFE-7")
def test_raw_responses_are_deleted_earlier_than_their_turns_if_the_settings_say_so(cix: Cix) -> None:
    cix.ask("what is a gnomon")
    said = cix.said()
    cix.json("cleanup")
    assert raw_responses(cix) == 1
    with (cix.folder / "config.toml").open("a") as file:
        file.write("\n[retention]\nraw_response_hours = 1e-9\n")
    assert cix.json("cleanup")["turns_deleted"] == 0
    assert raw_responses(cix) == 0
    assert cix.said() == said
