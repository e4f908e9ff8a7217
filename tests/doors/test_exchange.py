"""Import and export at the command line and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from contextinfinity.exchange.cix_format import write_cix
from contextinfinity.storage.encryption.protection import MEMORY
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import final_turn, new_branch
from tests.doors.cix import Cix
from tests.doors.server import Server
from tests.house.repository import ROOT

SAMPLES = ROOT / "tests" / "samples" / "exports"


@pytest.fixture
def other(tmp_path: Path) -> Cix:
    folder = tmp_path / "other"
    folder.mkdir()
    made = Cix(folder)
    made.echo()
    return made


@pytest.mark.req("CLI-1", "CLI-3")
def test_export_import_export_is_identical_with_branches_plans_pins_memories_and_images(
    cix: Cix, other: Cix, tmp_path: Path
) -> None:
    cix("import", str(SAMPLES / "chatgpt.zip"))
    thread = cix.ask("My name is Ada and I live in Basel.")["thread_id"]
    cix("pin", "last", "Be brief.")
    cix("fork", "last", "--at", "0")
    cix("remember", "likes tea", "--tag", "user:local")
    cix("remember", "names a swan", "--tag", f"thread:{thread}")
    first, second, third = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    assert cix("export", str(first)).exit_code == 0
    done = other.json("import", str(first))["sessions"]
    assert sum(one["added"] for one in done) == sum(one["messages"] for one in done) > 0
    assert other("export", str(second)).exit_code == 0
    assert second.read_bytes() == first.read_bytes()
    assert all(one["added"] == 0 for one in other.json("import", str(first))["sessions"])
    assert other("export", "-", "--format", "cix").stdout_bytes == first.read_bytes()
    findings = json.loads(other("doctor", "--json").stdout)["findings"]
    assert [one["code"] for one in findings if one["severity"] == "broken"] == []
    assert other.json("search", "potatoes")["hits"], "what was imported is found at once"
    plan = other.json("context", other.turns(session="last")[-1]["turn_id"])
    assert plan, "plans come along"
    other("export", "--session", "last", str(third))
    assert third.read_bytes().count(b'\n{"session":') == 1
    kept = [(words in first.read_bytes(), words in third.read_bytes()) for words in (b"likes tea", b"names a swan")]
    assert kept == [(True, False), (True, True)], "memories of a conversation go with it, a user's with all of them"


@pytest.mark.req("CLI-3")
def test_messages_and_markdown_are_written_and_read_back(cix: Cix, other: Cix, tmp_path: Path) -> None:
    cix("import", str(SAMPLES / "chatgpt.zip"))
    lines, again = tmp_path / "messages.jsonl", tmp_path / "again.jsonl"
    cix("export", str(lines), "--format", "jsonl")
    done = json.loads(cix("import", str(lines), "--json").stdout)["sessions"]
    assert all(one["added"] == 0 for one in done), "each message once"
    other("import", str(lines))
    other("export", str(again), "--format", "jsonl")
    said = [
        sorted(str((one["role"], one["content"])) for one in map(json.loads, path.read_text("utf-8").splitlines()))
        for path in (lines, again)
    ]
    assert said[0] == said[1]
    folder = tmp_path / "notes"
    folder.mkdir()
    cix("export", str(folder), "--format", "markdown")
    (beds,) = folder.glob("2024-06-01-Raised-beds*.md")
    text = beds.read_text("utf-8")
    assert text.startswith("# Raised beds on a balcony\n")
    assert text.count("## Branch ") == 2
    assert "Potatoes need 40 cm" in text.split("## Branch ")[0]
    assert len(list(folder.iterdir())) == 4


@pytest.mark.req("CLI-3")
def test_a_cix_file_cannot_reach_into_conversations_of_others(cix: Cix, tmp_path: Path) -> None:
    turn = cix.ask("Mine.")
    file = tmp_path / "mine.jsonl"
    cix("export", str(file))
    assert "belongs to another user" in cix("import", str(file), "--user", "mallory").stderr
    said = cix.turns(session=turn["thread_id"])
    assert [one["user"] for one in said] == ["Mine."]
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for line in lines:
        if "turn" in line:
            line["turn"]["branch_id"] = "00000000-0000-7000-8000-000000000000"
        if "session" in line:
            line["session"]["id"] = "01a1e609-b1af-7000-b18a-000000000001"
        if "end" in line:
            line["end"]["session"] = "01a1e609-b1af-7000-b18a-000000000001"
    broken = tmp_path / "broken.jsonl"
    broken.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert "is on no branch" in cix("import", str(broken)).stderr
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1][:4]))
    assert "ends within the conversation" in cix("import", str(cut)).stderr
    newer = tmp_path / "newer.jsonl"
    newer.write_text('{"format":"cix","version":2}\n', "utf-8")
    assert "upgrade to import it" in cix("import", str(newer)).stderr


@pytest.mark.req("CLI-3", "API-14")
def test_a_server_imports_a_file_and_exports_only_what_is_the_users(server: Server) -> None:
    http = server.http
    data = (SAMPLES / "claude.zip").read_bytes()
    done = http.post("/import", content=data, params={"user_id": "importer"}).json()["sessions"]
    assert [one["added"] for one in done] == [2, 1, 6, 4]
    again = http.post("/import", content=data, params={"user_id": "importer"}).json()["sessions"]
    assert [one["added"] for one in again] == [0, 0, 0, 0]
    mine = http.get("/export", params={"user_id": "importer", "format": "markdown"})
    assert mine.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "# Sourdough timing" in mine.text
    assert "Sourdough" not in http.get("/export", params={"user_id": "nobody", "format": "markdown"}).text
    thread = done[1]["thread_id"]
    assert http.get("/export", params={"user_id": "nobody", "thread_id": thread}).status_code == 404
    whole = http.get("/export", params={"user_id": "importer", "thread_id": thread}).content
    moved = http.post("/import", content=whole, params={"user_id": "nobody"})
    assert moved.status_code == 422, "a conversation of another user stays theirs"
    assert thread not in http.get("/export", params={"user_id": "nobody"}).text
    refused = http.post("/import", content=b"PK\x03\x04 broken", params={"user_id": "importer"})
    assert (refused.status_code, refused.json()["detail"].startswith("The file cannot be read")) == (422, True)
    form = http.post("/import", files={"file": b"[]"})
    assert (form.status_code, form.json()["hint"]) == (415, "Send the file itself as the body.")


@pytest.mark.req("CLI-3")
def test_the_command_line_imports_and_exports_at_a_server(cix: Cix, server: Server, tmp_path: Path) -> None:
    where = ("--server", server.url, "--user", "remote-user")
    file = str(SAMPLES / "librechat.json")
    (done,) = cix.json("import", file, *where)["sessions"]
    assert done["added"] == 5
    out = tmp_path / "out.md"
    assert cix("export", str(out), *where).exit_code == 0
    assert out.read_text("utf-8").startswith("# Tide tables")


@pytest.mark.req("CLI-1")
def test_a_backup_is_made_beside_a_server_and_is_a_whole_private_ledger(server: Server, tmp_path: Path) -> None:
    server.http.post("/threads", json={"title": "kept"})
    file = tmp_path / "copy.db"
    live = Cix(server.folder)
    assert live.json("backup", str(file))["bytes"] == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    assert "exists already" in live("backup", str(file)).stderr
    folder = tmp_path / "restored"
    folder.mkdir()
    file.rename(folder / "ledger.db")
    assert "kept" in {one["title"] for one in Cix(folder).json("sessions")["sessions"]}


@pytest.mark.req("SAFE-2", "SAFE-3")
def test_an_upload_is_held_in_the_data_dir_and_in_memory_where_that_is_encrypted(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = tmp_path_factory.mktemp("sealed"), tmp_path_factory.mktemp("disk")
    monkeypatch.setenv("TMPDIR", str(disk))
    sealed = Server(folder)
    places: set[Path] = set()

    def body(said: bytes) -> Iterator[bytes]:
        nonlocal places
        yield b'{"messages": [{"role": "user", "content": "The quagga'
        end = monotonic() + 30
        while not places and monotonic() < end:
            for link in Path(f"/proc/{sealed.process.pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # it was closed meanwhile
                    places |= {target.parent} if "cix-import-" in (target := link.readlink()).name else set()
        yield said + b'"}]}\n'

    try:
        assert sealed.http.post("/import", content=body(b" wakes."), params={"user_id": "ann"}).status_code == 200
        assert places == {folder}
        sealed.stop()
        assert Cix(folder)("encrypt", "--key-file", str(disk / "key")).exit_code == 0
        places.clear()
        sealed.start()
        done = sealed.http.post("/import", content=body(b" sleeps."), params={"user_id": "ann"})
        assert (done.status_code, places) == (200, {MEMORY})
        assert done.json()["sessions"][0]["added"] == 1
    finally:
        sealed.stop()
    assert list(disk.iterdir()) == [disk / "key"]


@pytest.mark.req("CLI-3")
def test_all_users_are_exported_each_to_a_file_that_is_that_users_again(cix: Cix, tmp_path: Path) -> None:
    for user in ("anna", "../ben"):
        cix.ask(f"from {user}", "--user", user)
    (folder := tmp_path / "all").mkdir()
    files = cix.json("export", "--all-users", str(folder))["files"]
    assert sorted(Path(one["file"]).name for one in files) == ["anna.cix.jsonl", "ben.cix.jsonl"]
    (tmp_path / "other").mkdir()
    other = Cix(tmp_path / "other")
    other.echo()
    assert other("import", str(folder / "anna.cix.jsonl"), "--user", "anna").exit_code == 0
    (copy := tmp_path / "again").mkdir()
    assert other("export", "--all-users", str(copy)).exit_code == 0
    assert (copy / "anna.cix.jsonl").read_bytes() == (folder / "anna.cix.jsonl").read_bytes()
    assert cix("export", "--all-users", str(tmp_path / "no-folder")).exit_code == 2


async def test_a_turn_that_no_state_includes_yet_is_exported_and_committed_where_it_is_imported(
    other: Cix, ledger: SqliteStore, tmp_path: Path
) -> None:
    branch = await new_branch(ledger)
    await final_turn(ledger, branch.id, "Who wrote Faust?", "Goethe.")
    file = tmp_path / "out.cix"
    file.write_bytes(b"".join([piece async for piece in write_cix(ledger, [branch.session_id])]))
    assert other.json("import", str(file))["sessions"][0]["added"] == 2
    assert other.said() == [("Who wrote Faust?", "Goethe.")]
    other.ask("And when?", "--session", "last")
    findings = json.loads(other("doctor", "--json").stdout)["findings"]
    assert [one["code"] for one in findings if one["severity"] == "broken"] == []
    assert [turn["phase"] for turn in other.turns()] == ["Done", "Done"]
