"""The history file of a workspace and the ledger hold the same conversation, whichever of them was continued."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity import HistoryStore
from contextinfinity.client.local import LocalClient
from contextinfinity.client.workspace_client import WorkspaceConversations
from contextinfinity.settings import General, ModelSettings, Settings
from contextinfinity.wiring import open_client
from contextinfinity.workspace.history_file import FILE
from tests.doors.cix import Cix

PICTURE = b"\x89PNG\r\n\x1a\n picture"


def machine(data_dir: Path) -> LocalClient:
    """A client on a ledger of its own."""
    models = {"echo": ModelSettings(provider="scripted")}
    return open_client(Settings(general=General(data_dir=str(data_dir), default_model="echo"), models=models))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "harbour.py").write_text("class Harbour: ...\n")
    (root / "logo.png").write_bytes(PICTURE)
    return root


async def questions(client: LocalClient, thread: str) -> list[str]:
    return [turn.user for turn in (await client.conversations.show(thread)).turns]


async def images_of(client: LocalClient, there: WorkspaceConversations, thread: str) -> list[int]:
    return [turn.images for turn in (await there.show(thread)).turns]


@pytest.mark.req("HISTORY-4", "HISTORY-6")
async def test_a_session_that_was_continued_on_another_machine_comes_back_with_its_images(
    tmp_path: Path, repo: Path
) -> None:
    async with machine(tmp_path / "desk") as client:
        there = client.open_workspace(repo)
        desk = (await there.ask("new", "first")).thread_id
        (session,) = there.store.list_sessions()
        name = session["session_id"]
    async with machine(tmp_path / "laptop") as client:
        there = client.open_workspace(repo)
        there.add("logo.png")
        await there.ask(name, "second")
        await there.ask(name, "third")
    async with machine(tmp_path / "desk") as client:
        there = client.open_workspace(repo)
        await there.ask(name, "fourth")
        assert await questions(client, desk) == ["first", "second", "third", "fourth"]
        assert await images_of(client, there, desk) == [0, 1, 0, 0]
    async with machine(tmp_path / "third") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask(name, "fifth")).thread_id
        assert await images_of(client, there, thread) == [0, 1, 0, 0, 0]
        said = [one["content"] for one in there.store.get_session_messages(name) if one["role"] == "user"]
        assert said == ["first", "second", "third", "fourth", "fifth"]


@pytest.mark.req("HISTORY-6")
async def test_a_rolled_back_turn_does_not_come_back_from_the_file(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        await there.ask(thread, "second")
        await client.threads.rollback(thread, to=1)
        await client.open_workspace(repo).ask(thread, "third")
        assert await questions(client, thread) == ["first", "third"]


@pytest.mark.req("HISTORY-6")
async def test_a_turn_that_is_rolled_back_in_the_millisecond_of_its_answer_does_not_come_back(
    tmp_path: Path, repo: Path
) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        await there.ask(thread, "second")
        await client.threads.rollback(thread, to=1)
        session = await there.find_or_import(thread)
        assert session is not None
        same_millisecond = (session.updated_at + timedelta(microseconds=900)).isoformat()
        file = there.store.folder / FILE
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps({**line, "timestamp": same_millisecond}) + "\n" for line in lines))
        await client.open_workspace(repo).ask(thread, "third")
        assert await questions(client, thread) == ["first", "third"]


@pytest.mark.req("HISTORY-6", "SAFE-4")
async def test_a_deleted_turn_does_not_come_back_from_an_old_copy_of_the_file(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        newest = await there.ask(thread, "second")
        file = there.store.folder / "history.jsonl"
        copy = file.read_bytes()
        await client.threads.delete_turn(thread, newest.turn_id)
        file.write_bytes(copy)
        await client.open_workspace(repo).ask(thread, "third")
        assert await questions(client, thread) == ["first", "third"]


@pytest.mark.req("HISTORY-6")
async def test_an_image_that_only_the_ledger_has_gets_into_the_file(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        there.add("logo.png")
        thread = (await there.ask("new", "look")).thread_id
        (there.store.folder / "history.jsonl").unlink()
        again = client.open_workspace(repo)
        await again.ask(thread, "and now?")
        (session,) = again.store.list_sessions()
        first, *_ = again.store.get_session_messages(session["session_id"])
        assert first["images"] == [f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"]


@pytest.mark.req("HISTORY-4")
async def test_answers_of_two_sessions_at_once_are_kept_in_their_own(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        one, two = there.store.new_session(), there.store.new_session()
        await asyncio.gather(there.ask(one, "harbour"), there.ask(two, "lighthouse"))
        for name, word in ((one, "harbour"), (two, "lighthouse")):
            kept = HistoryStore(there.store.folder).get_session_messages(name)
            assert [message["role"] for message in kept] == ["user", "assistant"]
            assert all(word in message["content"] for message in kept)


@pytest.mark.req("HISTORY-6")
async def test_a_repository_that_cannot_be_written_can_be_talked_about(tmp_path: Path, repo: Path) -> None:
    (repo / ".contextinfinity").write_text("no folder can be made here")
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        await there.ask(thread, "second")
        assert await questions(client, thread) == ["first", "second"]


def texts(there: WorkspaceConversations, name: str = "") -> list[str]:
    """The questions of a session as the file has them, and ``a`` for each answer."""
    name = name or there.store.list_sessions()[0]["session_id"]
    kept = HistoryStore(there.store.folder).get_session_messages(name)
    return [one["content"] if one["role"] == "user" else "a" for one in kept]


@pytest.mark.req("HISTORY-1", "HISTORY-6")
@pytest.mark.parametrize(
    "lost", ["the last newline", "a line in the middle", "the first line", "the last lines", "all"]
)
async def test_what_the_file_lost_is_written_again_at_its_place(tmp_path: Path, repo: Path, lost: str) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        for question in ("second", "third"):
            await there.ask(thread, question)
        file = there.store.folder / "history.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        cut = {
            "a line in the middle": [*lines[:2], *lines[3:]],
            "the first line": lines[1:],
            "the last lines": lines[:3],
        }
        file.write_text("".join(cut.get(lost, [])) if lost != "the last newline" else "".join(lines).rstrip("\n"))
        again = client.open_workspace(repo)
        await again.ask(thread, "fourth")
        assert texts(again) == ["first", "a", "second", "a", "third", "a", "fourth", "a"]
        before = file.read_bytes()
        await client.open_workspace(repo).ask(thread, "fifth")
        assert file.read_bytes().startswith(before), "nothing was repaired twice"


@pytest.mark.req("HISTORY-6", "CLI-1")
async def test_the_last_session_is_found_although_its_file_is_gone(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        await there.ask("new", "an older one")
        thread = (await there.ask("new", "first")).thread_id
        (there.store.folder / "history.jsonl").unlink()
        again = client.open_workspace(repo)
        assert await again.last_session() == thread
        await again.ask(await again.last_session(), "second")
        assert texts(again) == ["first", "a", "second", "a"]
        assert await client.open_workspace(tmp_path).last_session() == "new", "another folder has its own"


@pytest.mark.req("HISTORY-4")
async def test_messages_sent_at_once_are_written_turn_by_turn(tmp_path: Path, repo: Path) -> None:
    async with machine(tmp_path / "data") as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        await asyncio.gather(*(there.ask(thread, str(number)) for number in range(5)))
        assert (
            texts(there)
            == ["first", "a", *(text for asked in await questions(client, thread) for text in (asked, "a"))][2:]
        )


@pytest.mark.req("HISTORY-4", "HISTORY-6")
def test_an_answer_that_a_kill_cut_reaches_the_file_before_the_next_one(cix: Cix, repo: Path) -> None:
    cix.script({"pieces": ["one", " two"], "hang": True})
    with cix.start("ask", "first", "--workspace", str(repo), piped=False) as asking:
        asking.until("one two")
        (running,) = HistoryStore(repo / ".contextinfinity").search("first")
        assert running["role"] == "user", "it is in the file while the model answers"
    cix.echo()
    assert cix.ask("second", "--workspace", str(repo), "--session", "last")["outcome"] == "completed"
    (session,) = HistoryStore(repo / ".contextinfinity").list_sessions()
    kept = HistoryStore(repo / ".contextinfinity").get_session_messages(session["session_id"])
    assert [one["content"] for one in kept][:3] == ["first", "one two", "second"]
    assert len(kept) == 4


@pytest.mark.req("HISTORY-6", "CLI-1")
def test_a_session_of_the_file_alone_is_continued_in_a_ledger_that_is_created_for_it(cix: Cix, repo: Path) -> None:
    file = HistoryStore(repo / ".contextinfinity")
    name = file.append_message(None, "user", "first")["session_id"]
    file.append_message(name, "assistant", "the answer")
    cix.folder.mkdir(exist_ok=True)
    assert cix.ask("second", "--workspace", str(repo), "--session", "last")["turn_seq"] == 2
    assert [question for question, _ in cix.said()] == ["first", "second"]
