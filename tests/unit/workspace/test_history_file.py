from __future__ import annotations

import base64
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from contextinfinity import HistoryStore
from contextinfinity.errors import InvalidInput
from contextinfinity.workspace.history_file import new_message_id, new_session_id

PIXEL = f"data:image/png;base64,{base64.b64encode(b'not really a picture').decode()}"


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return HistoryStore(tmp_path / "history")


@pytest.mark.req("HISTORY-2")
def test_ids_have_their_format_and_are_unique() -> None:
    messages, sessions = [new_message_id() for _ in range(100)], [new_session_id() for _ in range(100)]
    assert len({*messages}) == len({*sessions}) == 100
    assert all(re.fullmatch(r"\d{13}-[0-9a-f]{8}", one) for one in messages)
    assert all(re.fullmatch(r"sess_\d{13}_[0-9a-f]{6}", one) for one in sessions)


@pytest.mark.req("HISTORY-1", "HISTORY-2")
def test_a_message_is_one_json_line_with_the_required_fields(store: HistoryStore) -> None:
    session = store.new_session()
    returned = store.append_message(session, "user", "Grüße\nan alle", files=["a.py"])
    store.append_message(session, "assistant", "Hi", files_modified=["a.py"], edit_results=[{"path": "a.py"}])
    lines = (store.folder / "history.jsonl").read_text().splitlines()
    user, assistant = map(json.loads, lines)
    assert user.items() <= returned.items()
    assert user.keys() == {"id", "session_id", "timestamp", "role", "content", "files"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", user["timestamp"])
    assert (assistant["files_modified"], assistant["edit_results"]) == (["a.py"], [{"path": "a.py"}])
    for message in store.get_session_messages(session):
        assert message.keys() >= {"id", "timestamp", "session_id", "files", "images", "role", "content"}


@pytest.mark.req("HISTORY-3")
def test_sessions_are_kept_apart_and_a_new_store_reads_what_was_written(store: HistoryStore) -> None:
    one, two = store.new_session(), store.new_session()
    store.append_message(one, "user", "first")
    store.append_message(two, "user", "second")
    store.append_message(one, "assistant", "answer")
    for again in (store, HistoryStore(store.folder)):
        assert [message["content"] for message in again.get_session_messages(one)] == ["first", "answer"]
        assert [message["content"] for message in again.get_session_messages(two)] == ["second"]
        assert again.get_session_messages("sess_0_none") == []
        assert again.get_session_messages_for_context("") == []


@pytest.mark.req("HISTORY-3")
def test_sessions_are_listed_by_their_newest_message_with_a_preview(store: HistoryStore) -> None:
    one, two = store.new_session(), store.new_session()
    store.append_message(one, "user", "x" * 300)
    store.append_message(two, "assistant", "short")
    store.append_message(one, "assistant", "newest")
    listed = store.list_sessions()
    assert [session["session_id"] for session in listed] == [one, two]
    assert listed[0].keys() == {"session_id", "timestamp", "message_count", "preview", "first_role"}
    assert (listed[0]["message_count"], listed[0]["preview"], listed[0]["first_role"]) == (2, "x" * 100, "user")
    assert [session["session_id"] for session in store.list_sessions(limit=1)] == [one]
    assert HistoryStore(store.folder / "none").list_sessions() == []


@pytest.mark.req("HISTORY-3")
def test_search_ignores_case_filters_by_role_and_finds_nothing_for_nothing(store: HistoryStore) -> None:
    session = store.new_session()
    for role, content in [("user", "Where is the STRASSE?"), ("assistant", "The straße is here."), ("user", "Thanks")]:
        store.append_message(session, role, content)
    assert [found["content"] for found in store.search("straße")] == ["The straße is here.", "Where is the STRASSE?"]
    assert [found["role"] for found in store.search("straße", role="user")] == ["user"]
    assert len(store.search("s", limit=1)) == 1
    assert store.search("") == store.search("  ") == store.search("nowhere") == []
    assert store.search("Thanks\x00where") == []
    store.append_message(session, "user", "thanks again")
    assert len(store.search("thanks")) == 2


@pytest.mark.req("HISTORY-1")
def test_a_broken_line_is_skipped_with_a_warning_and_nothing_after_it_is_lost(
    store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    session = store.new_session()
    store.append_message(session, "user", "before")
    with (store.folder / "history.jsonl").open("ab") as file:
        deep = b'{"edit_results": [' + b"[" * 100_000
        file.write(b'{"id": "1-2", "role": "tool"}\n\xff\xfe\n' + deep + b'\n{"id": "1-1", "session_id": "' + b"x" * 50)
    with caplog.at_level(logging.WARNING):
        again = HistoryStore(store.folder)
        again.append_message(session, "assistant", "after")
        assert [one["content"] for one in again.get_session_messages(session)] == ["before", "after"]
    assert caplog.text.count("is skipped") == 4


@pytest.mark.req("HISTORY-2")
def test_a_legacy_number_of_images_is_read(store: HistoryStore) -> None:
    store.folder.mkdir()
    line = {"id": "1-1", "session_id": "s", "timestamp": "2025-01-01T00:00:00Z", "role": "user", "content": "x"}
    (store.folder / "history.jsonl").write_text(json.dumps({**line, "images": 2, "unknown": 1}) + "\n")
    (message,) = store.get_session_messages("s")
    assert (message["images"], message["image_count"]) == ([], 2)
    assert store.get_session_messages_for_context("s") == [{"role": "user", "content": "x"}]


@pytest.mark.req("HISTORY-5")
def test_images_are_kept_once_by_content_and_rebuilt_as_data_uris(store: HistoryStore) -> None:
    session = store.new_session()
    for _ in range(2):
        store.append_message(session, "user", "Look", images=[PIXEL], files=["a.py"])
    again = HistoryStore(store.folder)
    first, _ = again.get_session_messages(session)
    assert first["images"] == [PIXEL]
    assert [path.name for path in (store.folder / "images").iterdir()] == first["image_refs"]
    assert again.get_session_messages_for_context(session)[0] == {
        "role": "user",
        "content": "Look",
        "_images": [PIXEL],
    }
    (store.folder / "images" / first["image_refs"][0]).unlink()
    assert again.get_session_messages(session)[0]["images"] == []
    with pytest.raises(InvalidInput):
        store.append_message(session, "user", "x", images=["data:text/html;base64,AAAA"])


@pytest.mark.req("HISTORY-5")
def test_an_image_reference_leads_nowhere_else(store: HistoryStore, tmp_path: Path) -> None:
    session = store.new_session()
    store.append_message(session, "user", "x", images=[PIXEL])
    (tmp_path / "secret.png").write_bytes(b"secret")
    (store.folder / "images" / "link.png").symlink_to(tmp_path / "secret.png")
    line = {"id": "1-1", "session_id": "s", "timestamp": "t", "role": "user", "content": "x"}
    with (store.folder / "history.jsonl").open("a") as file:
        file.write(json.dumps({**line, "image_refs": ["../../secret.png", "link.png", "/etc/passwd", ".png"]}) + "\n")
    assert store.get_session_messages("s")[0]["images"] == []


@pytest.mark.req("HISTORY-1")
def test_a_link_in_place_of_the_file_is_not_written_through(store: HistoryStore, tmp_path: Path) -> None:
    store.folder.mkdir()
    (store.folder / "history.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        store.append_message(None, "user", "x")
    assert not (tmp_path / "victim").exists()


@pytest.mark.req("HISTORY-2")
@pytest.mark.parametrize(("role", "content"), [("system", "x"), ("tool", "x"), ("user", None)])
def test_other_roles_and_other_content_are_refused(store: HistoryStore, role: str, content: str) -> None:
    with pytest.raises(InvalidInput):
        store.append_message(None, role, content)
    assert not store.folder.exists() or store.list_sessions() == []


def _append(folder: str, worker: int) -> None:
    store = HistoryStore(folder)
    for number in range(20):
        store.append_message(f"sess_1_{worker:06}", "user", f"{worker} says {number} " + "x" * 5000)


@pytest.mark.req("HISTORY-1")
def test_processes_and_threads_that_write_at_once_lose_nothing(store: HistoryStore) -> None:
    store.folder.mkdir()
    processes = [get_context("fork").Process(target=_append, args=(str(store.folder), n)) for n in range(2)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: _append(str(store.folder), n), (2, 3)))
    for process in processes:
        process.join()
    assert {one["session_id"]: one["message_count"] for one in store.list_sessions()} == {
        f"sess_1_{worker:06}": 20 for worker in range(4)
    }


@pytest.mark.req("HISTORY-6")
def test_the_session_to_continue_is_the_newest_or_a_newer_empty_one(store: HistoryStore) -> None:
    assert store.restore_session() is None
    one, two = store.new_session(), store.new_session()
    store.append_message(two, "user", "x")
    store.append_message(one, "user", "x")
    assert HistoryStore(store.folder).restore_session() == one
    fresh = store.new_session()
    assert HistoryStore(store.folder).restore_session() == fresh
    store.append_message(two, "user", "y")
    assert HistoryStore(store.folder).restore_session() == two


def test_the_folder_is_ignored_by_git(store: HistoryStore) -> None:
    store.append_message(None, "user", "x")
    assert (store.folder / ".gitignore").read_text() == "*\n"
    assert (store.folder / "history.jsonl").stat().st_mode & 0o077 == 0
