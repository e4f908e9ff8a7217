"""``cix chat --workspace`` and ``cix ask --workspace``: a conversation about a repository."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from contextinfinity import ContextManager, HistoryStore
from contextinfinity.client.local import LocalClient
from contextinfinity.client.workspace_client import WorkspaceConversations
from contextinfinity.domain.message import ImageBlock
from contextinfinity.domain.session import Owner
from contextinfinity.errors import FileRefused, Refused
from contextinfinity.server.rpc_methods import LLMService, UserState
from contextinfinity.settings import Compaction, General, ModelSettings, Settings
from contextinfinity.settings import Server as ServerSettings
from contextinfinity.wiring import open_client, open_store
from tests.doors.cix import Cix
from tests.doors.server import Server
from tests.doors.terminal import ENTER, TAB, Terminal


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "harbour.py").write_text("class Harbour:\n    def admit(self, ship): ...\n")
    (root / "src" / "ships.py").write_text("def make_ship(): ...\n")
    (root / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n picture")
    return root


def machine(tmp_path: Path, limit: int = 100_000, **more: Any) -> Settings:
    models = {"echo": ModelSettings(provider="scripted", context_limit=limit)}
    return Settings(general=General(data_dir=str(tmp_path / "data"), default_model="echo"), models=models, **more)


def opened(tmp_path: Path, **how: Any) -> LocalClient:
    return open_client(machine(tmp_path, **how))


async def asked(there: WorkspaceConversations, words: str, thread: str = "new") -> tuple[str, list[str], Any]:
    """Ask; return the thread, the texts of the request, and its account."""
    turn = await there.ask(thread, words)
    assert turn.outcome == "completed", turn
    seen = await there.explain(turn.turn_id)
    assert seen.matches, "the request can be written again"
    return turn.thread_id, [*seen.system, *(message.rendered_text for message in seen.messages)], seen


@pytest.mark.req("FILES-3", "FILES-4", "CTX-2")
async def test_a_question_goes_with_map_tree_and_open_files_and_the_front_repeats(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        assert there.add("src/ships.py")
        thread, first, _ = await asked(there, "where is it?")
        assert any(
            text.startswith("# Repository Structure (continued)\n\nsrc/harbour.py\n  class Harbour") for text in first
        )
        assert "# Repository Files\n\n./: logo.png\nsrc/: harbour.py ships.py" in first
        assert "# Working Files\n\nsrc/ships.py\n```\ndef make_ship(): ...\n```" in first
        _, second, seen = await asked(there, "and then?", thread)
        assert second[: len(first)] == [*first[:-1], "where is it?"]
        assert seen.shared_bytes > 0.8 * seen.total_bytes
        for number in range(4):
            _, last, seen = await asked(there, f"again {number}", thread)
        assert not any(text.startswith("# Working Files") for text in last), "the file is in a tier now"
        places = [
            next(n for n, text in enumerate(last) if part in text) for part in ("(L3)", "where is it?", "again 3")
        ]
        assert places == sorted(places)


@pytest.mark.req("FILES-4", "FILES-5")
async def test_the_symbols_that_a_question_is_about_come_right_before_it_and_only_there(
    tmp_path: Path, repo: Path
) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        thread, texts, _ = await asked(there, "who admits a ship?")
        shown = "# Matching Symbols\n\nsrc/harbour.py:2 def admit(self, ship)\nsrc/ships.py:1 def make_ship()"
        assert (texts[-3], texts[-1]) == (shown, "who admits a ship?")
        _, later, seen = await asked(there, "is the harbour closed?", thread)
        assert later[: len(texts) - 3] == texts[:-3]
        assert shown not in later
        assert seen.shared_bytes > 0.6 * seen.total_bytes


@pytest.mark.req("API-8")
async def test_a_workspace_that_contains_the_data_dir_is_for_the_local_user_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        for user, refused in (("ann", True), ("local", False)):
            service = LLMService(
                client.acting_for(Owner(user_id=user)), UserState(), ServerSettings(workspace=str(tmp_path))
            )
            with pytest.raises(Refused, match="data_dir is inside") if refused else nullcontext():
                assert await service.set_selected_files([]) == []


@pytest.mark.req("HISTORY-4", "HISTORY-6")
async def test_file_and_ledger_are_in_step_and_a_difference_is_repaired(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        thread = (await there.ask("new", "first")).thread_id
        (session,) = there.store.list_sessions()
        kept = [one["content"] for one in there.store.get_session_messages(session["session_id"])]
        assert [kept[0], len(kept)] == ["first", 2]
        await client.threads.find(thread)  # a person talks to the same thread without the workspace
        await super(WorkspaceConversations, there).ask(thread, "elsewhere")
        again = client.open_workspace(repo)
        await again.ask(session["session_id"], "back")
        said = [
            one["content"] for one in again.store.get_session_messages(session["session_id"]) if one["role"] == "user"
        ]
        assert said == ["first", "elsewhere", "back"]
    async with open_client(machine(tmp_path / "another")) as client:
        there = client.open_workspace(repo)
        thread = (await there.ask(session["session_id"], "on another machine")).thread_id
        assert [turn.user for turn in (await client.conversations.show(thread)).turns] == [*said, "on another machine"]


@pytest.mark.req("BUDGET-7")
async def test_files_that_do_not_fit_are_dropped_with_a_warning(tmp_path: Path, repo: Path) -> None:
    (repo / "large.txt").write_text("word " * 9000)
    async with opened(tmp_path, limit=8000) as client:
        there = client.open_workspace(repo)
        heard: list[str] = []
        there.warn = heard.append
        there.add("large.txt")
        there.add("src/ships.py")
        _, texts, _ = await asked(there, "what is large?")
        assert there.workspace.files.get_files() == ["src/ships.py"]
        assert len(heard) == 1
        assert "large.txt" in heard[0]
        assert not any("word word" in text for text in texts)
        assert any("large.txt: left out, the prompt was too large." in text for text in texts)
        (user, *_) = there.store.search("what is large", role="user")
        assert user["files"] == ["large.txt", "src/ships.py"], "what was open when it was asked"


@pytest.mark.req("FILES-2")
async def test_a_fold_takes_the_history_out_of_the_tiers(tmp_path: Path, repo: Path) -> None:
    small = Compaction(compaction_trigger_tokens=3000, verbatim_window_tokens=60, min_verbatim_exchanges=1)
    async with opened(tmp_path, compaction=small) as client:
        there = client.open_workspace(repo)
        there.workspace.tracker.target = 1
        there.add("src/ships.py")
        thread = (await there.ask("new", "first")).thread_id
        for number in range(6):
            await asked(there, f"question {number} " + "about ships " * 10, thread)
        assert any(key.startswith("history:") for key in there.workspace.tracker.items)
        assert await client.folds.fold(thread) is not None
        session = await there.find_or_import(thread)
        assert session is not None
        while not (await there._engine.store.states.head(session.active_branch)).covers_turn_seq:
            await asyncio.sleep(0)  # it is committed by a job
        _, texts, _ = await asked(there, "after the fold", thread)
        assert "the history was replaced" in {move.reason for move in there.workspace.tracker.moves}
        assert len([text for text in texts if "after the fold" in text]) == 1


@pytest.mark.req("FILES-1", "HISTORY-5")
async def test_an_image_goes_with_the_next_message_by_its_path(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        assert there.add("logo.png")
        assert not there.add("none.png")
        (repo / "notes.png").write_text("I am a text.")
        (repo / ".contextinfinity" / "shot.png").parent.mkdir(exist_ok=True)
        (repo / ".contextinfinity" / "shot.png").write_bytes((repo / "logo.png").read_bytes())
        for refused in ("notes.png", ".contextinfinity/shot.png"):
            with pytest.raises(FileRefused):
                there.add(refused)
        turn = await there.ask("new", "what is this?")
        seen = await there.explain(turn.turn_id)
        assert any(isinstance(block, ImageBlock) for block in seen.messages[-1].blocks)
        (session,) = there.store.list_sessions()
        assert there.store.get_session_messages(session["session_id"])[0]["images"]


@pytest.mark.req("CLI-1")
def test_one_question_about_a_repository_and_the_last_session_goes_on(cix: Cix, repo: Path) -> None:
    first = cix.ask("where is Harbour handled?", "--workspace", str(repo))
    assert first["outcome"] == "completed"
    again = cix.ask("and ships?", "--workspace", str(repo), "--session", "last")
    assert again["thread_id"] == first["thread_id"]
    shown = cix("context", "last")
    assert "workspace" in shown.stdout
    assert "identical to what was sent" in shown.stderr + shown.stdout
    (session,) = HistoryStore(repo / ".contextinfinity").list_sessions()
    assert session["message_count"] == 4
    assert cix("ask", "x", "--workspace", str(repo / "none")).exit_code == 2


@pytest.mark.req("CLI-1")
def test_the_commands_of_a_workspace_at_a_terminal(cix: Cix, repo: Path) -> None:
    cix.echo()
    with Terminal(cix.folder, "chat", "--workspace", str(repo), columns=200) as terminal:
        terminal.until(terminal.waits)
        (repo / "src" / "new file.py").write_text("")
        for typed, completed in {
            "src/NE": "src/new file.py",
            "./src/new f": "./src/new file.py",
            f"{repo}/src/shi": f"{repo}/src/ships.py",
            "sr": "src/",
            "src/ha": "src/harbour.py",
        }.items():
            terminal.type(f"\x15/add {typed}{TAB}")
            terminal.until(f"/add {completed}")
        terminal.type(ENTER)
        terminal.until("src/harbour.py goes with your next messages.")
        terminal.until(terminal.waits)
        for line, shown in {
            "/files": "src/harbour.py",
            "/map src/ships": "def make_ship()",
            "/tiers": "active",
            "/add ../secret": "contains '..'",
            "/add logo.png": "logo.png goes with your next message.",
            "/drop src/harbour.py": "is closed",
            "/files ": "No file is open.",
            "/history": "begins",
            "/url http://127.0.0.1/": "not a public address",
        }.items():
            assert shown in terminal.say(line)


def test_a_workspace_is_not_combined_with_a_server_but_shares_its_ledger(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        cix = Cix(server.folder)
        refused = cix("ask", "--workspace", str(repo), "--server", server.url, "where?")
        assert (refused.exit_code, "Leave --server out" in refused.stderr) == (2, True)
        thread = cix.json("ask", "--workspace", str(repo), "where is the keeper?")["thread_id"]
        assert [one["thread_id"] for one in cix.json("sessions", "--server", server.url)["sessions"]] == [thread]
    finally:
        server.stop()


@pytest.mark.req("FILES-4")
def test_outside_a_workspace_its_commands_say_so(cix: Cix) -> None:
    cix.echo()
    with Terminal(cix.folder, "chat", "--plain") as terminal:
        terminal.until(terminal.waits)
        assert "This chat has no workspace." in terminal.say("/files")


@pytest.mark.req("FILES-1", "FILES-4")
async def test_a_file_that_disappears_is_named_and_a_page_can_be_dropped(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        heard: list[str] = []
        there.warn = heard.append
        there.add("src/ships.py")
        there.workspace.pages["https://example.com/"] = "What the page says."
        thread, texts, _ = await asked(there, "first")
        assert any("What the page says." in text for text in texts)
        assert there.workspace.breakdown()["urls"]["https://example.com/"] > 0
        (repo / "src" / "ships.py").unlink()
        del there.workspace.pages["https://example.com/"]
        _, texts, _ = await asked(there, "second", thread)
        assert not any("What the page says." in text for text in texts)
        assert heard == ["No longer in the context: src/ships.py. The file is gone or can no longer be read."]


async def test_what_a_conversation_writes_into_the_repository_is_private(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        there.add("logo.png")
        await there.ask("new", "what is it?")
        written = [path for path in there.store.folder.rglob("*") if path.is_file() and path.name != "symbols.cache"]
        assert {path.name: path.stat().st_mode & 0o777 for path in written} == {path.name: 0o600 for path in written}
        assert {"history.jsonl", "session"} < {path.name for path in written}


PRIVATE = "the zygomorphic heron of my neighbour"


def places_with(folder: Path, word: str = "zygomorphic") -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]


@pytest.mark.req("SAFE-4", "SAFE-8")
async def test_a_deletion_reaches_the_history_file_and_the_images_of_a_workspace(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        kept, _, _ = await asked(there, "what is a gnomon?")
        there.add("logo.png")
        thread, _, _ = await asked(there, PRIVATE)
        await asked(there, "and a sundial?", thread)
        (image,) = (there.store.folder / "images").iterdir()
        shown = await client.conversations.show(thread)
        turn = await client.threads.delete_turn(thread, shown.turns[0].turn_id, scan=True)
        assert {one.place: one.found for one in turn.places}["workspace history"] == 0
        assert (places_with(tmp_path), image.exists()) == ([], False)
        said = [line["content"] for line in there.store.search("a")]
        assert "and a sundial?" in said
        assert "what is a gnomon?" in said
        await asked(there, f"again {PRIVATE}", thread)
        await client.threads.delete(thread, scan=True)
        assert places_with(tmp_path) == []
        assert [one["preview"] for one in there.store.list_sessions()] == ["what is a gnomon?"]
        await asked(there, "still there?", kept)


@pytest.mark.req("SAFE-8")
async def test_a_killed_deletion_is_finished_in_the_history_file_by_the_next_start(tmp_path: Path, repo: Path) -> None:
    async with opened(tmp_path) as client:
        there = client.open_workspace(repo)
        thread, _, _ = await asked(there, PRIVATE)
    store = open_store(machine(tmp_path))
    await store.deletions.begin(thread)  # and the process is killed
    await store.close()
    assert "history.jsonl" in places_with(tmp_path)
    async with opened(tmp_path):
        pass
    assert places_with(tmp_path) == []


@pytest.mark.req("SAFE-4")
async def test_a_deleted_history_of_a_context_manager_does_not_come_back(tmp_path: Path, repo: Path) -> None:
    def manager() -> ContextManager:
        return ContextManager("echo", repo, settings=machine(tmp_path))

    with manager() as one:
        one.add_exchange(PRIVATE, "I see.")
    async with opened(tmp_path) as client:
        (thread,) = await client.threads.list()
        await client.threads.delete(thread.thread_id)
    assert places_with(tmp_path) == []
    with manager() as one:
        assert one.get_history() == []
