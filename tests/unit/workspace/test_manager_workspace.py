"""A ContextManager on a repository: files, tiers, the history file, the window."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity import ContextManager, HistoryStore
from contextinfinity.errors import FileRefused, InvalidInput, NotFound
from contextinfinity.settings import ModelSettings
from tests.unit.workspace.rooms import MODEL, SMALL, answer, machine, question

Open = Callable[..., ContextManager]
PIXEL = f"data:image/gif;base64,{base64.b64encode(b'GIF89a').decode()}"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    for name in ("alpha", "beta", "gamma"):
        (root / "src" / f"{name}.py").write_text(f"def {name}_entry(value: int) -> int:\n    return value\n")
    return root


@pytest.fixture
def opened(repo: Path, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(
            ContextManager(MODEL, **{"repo_root": repo, "settings": machine(tmp_path / "data"), **how})
        )


def text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def ask(context: ContextManager, words: str = "now") -> list[dict[str, Any]]:
    """One exchange; returns the request."""
    context.add_message("user", words)
    messages = context.assemble_tiered_messages(words)
    context.add_message("assistant", "An answer.")
    context.response_received()
    return messages


def placed(messages: list[dict[str, Any]], words: str) -> list[int]:
    return [number for number, message in enumerate(messages) if words in text(message)]


@pytest.mark.req("MANAGER-1", "FILES-2")
def test_there_is_a_tracker_only_with_a_repository(opened: Open) -> None:
    assert opened().tracker is not None
    assert opened(repo_root=None).tracker is None


@pytest.mark.req("FILES-3", "FILES-4")
def test_the_flat_prompt_has_the_map_the_tree_the_files_and_the_history(opened: Open) -> None:
    context = opened()
    context.add_exchange("earlier", "said")
    context.files.add_file("src/beta.py")
    messages = context.assemble_messages("now", images=[PIXEL], system="Be brief.")
    assert text(messages[0]).startswith("Be brief.\n\n# Repository Structure\n\nsrc/alpha.py\n  def alpha_entry")
    assert text(messages[1]) == "# Repository Files\n\nsrc/: alpha.py beta.py gamma.py"
    assert text(messages[3]).startswith("# Working Files\n\nsrc/beta.py\n```\ndef beta_entry")
    assert [text(message) for message in messages[-3:]] == ["earlier", "said", "now"]
    assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url"]
    assert context.estimate_prompt_tokens("now") > 0


@pytest.mark.req("FILES-3", "FILES-5")
def test_an_open_file_stands_in_one_place_and_moves_into_a_tier_that_then_repeats(opened: Open, repo: Path) -> None:
    context = opened(cache_target_tokens=1)
    (repo / "src" / "beta.py").write_text('def beta_entry(): ...\n"""' + "a word " * 1200 + '"""\n')
    ask(context)
    context.files.add_file("src/beta.py")
    first = ask(context)
    assert placed(first, "beta_entry") == placed(first, "# Working Files")
    last = [ask(context) for _ in range(8)][-1]
    assert not placed(last, "# Working Files"), "all files graduated"
    assert len(placed(last, "beta_entry")) == 1
    again = ask(context)
    front = placed(last, "# Repository Files")[0]
    assert again[:front] == last[:front]
    assert sum("cache_control" in json.dumps(message) for message in again) in range(1, 5)


@pytest.mark.req("FILES-2", "FILES-3")
def test_a_changed_file_leaves_its_tier_at_once_with_a_logged_reason(opened: Open, repo: Path) -> None:
    context = opened(cache_target_tokens=1)
    context.files.add_file("src/beta.py")
    for _ in range(6):
        ask(context)
    (repo / "src" / "beta.py").write_text("def beta_changed(): ...\n")
    messages = ask(context)
    assert placed(messages, "beta_changed") == placed(messages, "# Working Files") != []
    assert not placed(messages, "beta_entry")
    assert context.tracker is not None
    assert "changed" in {move.reason for move in context.tracker.moves}


@pytest.mark.req("FILES-3", "HISTORY-4")
def test_a_message_that_was_added_before_the_call_is_not_shown_twice(opened: Open) -> None:
    messages = ask(opened(), "only once")
    assert len(placed(messages, "only once")) == 1


@pytest.mark.req("FILES-2", "MANAGER-1")
def test_compaction_purges_the_history_from_the_tiers(opened: Open) -> None:
    context = opened(cache_target_tokens=1, compaction_config=SMALL)
    context.files.add_file("src/beta.py")
    for number in range(8):
        context.add_exchange(question(number), answer(number))
        context.assemble_tiered_messages("now")
        context.response_received()
    assert context.tracker is not None
    assert any(key.startswith("history:") and item.tier == "L3" for key, item in context.tracker.items.items())
    assert context.compact_history_if_needed() is not None
    assert not any(key.startswith("history:") for key in context.tracker.items)
    context.assemble_tiered_messages("now")
    assert {item.n for key, item in context.tracker.items.items() if key.startswith("history:")} <= {0, 3}


@pytest.mark.req("MANAGER-1", "FILES-2")
@pytest.mark.parametrize("replaced", ["clear_history", "new_session", "set_history"])
def test_a_history_that_is_replaced_or_cleared_leaves_the_tiers(opened: Open, replaced: str) -> None:
    context = opened()
    context.add_exchange("Q", "A")
    context.assemble_tiered_messages("now")
    assert context.tracker is not None
    assert "history:0" in context.tracker.items
    getattr(context, replaced)(*([[]] if replaced == "set_history" else []))
    assert not any(key.startswith("history:") for key in context.tracker.items)


@pytest.mark.req("MANAGER-1")
def test_init_compactor_switches_compaction_on(opened: Open) -> None:
    for root in (None, opened().files.root):
        context = opened(repo_root=root)
        for number in range(12):
            context.add_exchange(question(number), answer(number))
        before = context.get_history()
        assert not context.should_compact()
        context.init_compactor(SMALL)
        assert context.get_history() == before
        assert context.should_compact()
        assert context.compact_history_if_needed() is not None


@pytest.mark.req("BUDGET-7")
def test_files_are_shed_largest_first_with_a_warning_only_where_needed(tmp_path: Path, opened: Open) -> None:
    heard: list[dict[str, Any]] = []
    models = {"small": ModelSettings(provider="openai_chat", model_id="some-llama", context_limit=4096)}
    settings = replace(machine(tmp_path / "small"), models=models)
    with ContextManager("small", settings=settings, on_event=heard.append) as context:
        for name, count in {"small.py": 100, "large.py": 2500, "middle.py": 1500}.items():
            context.files.add_file(name, "word " * count)
        assert context.shed_files_if_needed() == ["large.py"]
        assert context.shed_files_if_needed() == []
        assert context.files.get_files() == ["middle.py", "small.py"]
        assert context.estimate_prompt_tokens() <= 0.9 * 4096
    (event,) = heard
    assert (event["type"], event["files"]) == ("files_shed", ["large.py"])
    assert "large.py" in event["message"]


@pytest.mark.req("HISTORY-4", "HISTORY-6")
def test_messages_are_in_the_history_file_and_a_new_manager_restores_them(opened: Open, repo: Path) -> None:
    context = opened()
    context.add_message("user", "first")
    store = HistoryStore(repo / ".contextinfinity")
    (session,) = store.list_sessions()
    assert [one["content"] for one in store.get_session_messages(session["session_id"])] == ["first"]
    context.add_message("assistant", "second")
    context.close()
    state = opened().get_current_state()
    assert state["session_id"] == session["session_id"]
    assert [one["content"] for one in state["messages"]] == ["first", "second"]
    assert state["selected_files"] == []


@pytest.mark.req("HISTORY-6")
def test_a_repository_that_moves_to_another_machine_brings_its_history(opened: Open, tmp_path: Path) -> None:
    opened().add_exchange("Q", "A")
    other = opened(settings=machine(tmp_path / "other"))
    assert [one["content"] for one in other.get_history()] == ["Q", "A"]


@pytest.mark.req("HISTORY-6")
def test_a_history_of_another_tool_is_read_and_continued(opened: Open, repo: Path) -> None:
    store = HistoryStore(repo / ".ac-dc")
    store.append_message(None, "user", "from before")
    context = opened()
    assert [one["content"] for one in context.get_history()] == ["from before"]
    context.add_message("assistant", "and on")
    assert len(store.get_session_messages(str(store.session_id))) == 2
    assert not (repo / ".contextinfinity").exists()


@pytest.mark.req("HISTORY-6")
@pytest.mark.parametrize("lost", ["line", "ledger"])
def test_what_only_the_file_or_only_the_ledger_has_is_repaired_at_start(
    opened: Open, repo: Path, tmp_path: Path, lost: str
) -> None:
    context = opened()
    for number in range(3):
        context.add_exchange(f"Q{number}", f"A{number}")
    context.close()
    path = repo / ".contextinfinity" / "history.jsonl"
    if lost == "line":
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]) + b'{"id": "torn')
    else:
        store = HistoryStore(path.parent)
        store.append_message(store.restore_session(), "user", "Q3")
    expected = [f"{side}{number}" for number in range(3) for side in "QA"] + (["Q3"] if lost == "ledger" else [])
    again = opened()
    assert [one["content"] for one in again.get_history()] == expected
    (session,) = again.list_sessions()
    assert session["message_count"] == len(expected)


@pytest.mark.req("HISTORY-6")
def test_sessions_are_loaded_with_images_continued_and_cleared(opened: Open) -> None:
    context = opened()
    shown: list[dict[str, Any]] = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    context.add_exchange(shown, "I see.")
    (first,) = context.list_sessions()
    assert context.new_session() != first["session_id"]
    assert context.get_history() == []
    context.add_exchange("Other", "Yes")
    assert len(context.list_sessions()) == 2
    loaded = context.load_session(first["session_id"])
    assert (loaded["session_id"], loaded["messages"][0]["images"]) == (first["session_id"], [PIXEL])
    assert context.get_history()[0]["content"] == shown
    context.add_message("user", "more")
    assert context.list_sessions(limit=1)[0]["message_count"] == 3
    with pytest.raises(NotFound):
        context.load_session("sess_0_000000")


@pytest.mark.req("HISTORY-3")
def test_search_falls_back_to_the_history_in_memory(opened: Open, repo: Path) -> None:
    context = opened()
    context.add_exchange("Where is the Needle?", "Here.")
    assert [one["role"] for one in context.search_history("needle")] == ["user"]
    (repo / ".contextinfinity" / "history.jsonl").unlink()
    assert [one["content"] for one in context.search_history("NEEDLE", role="user")] == ["Where is the Needle?"]
    assert context.search_history("needle", role="assistant") == context.search_history("") == []


@pytest.mark.req("HISTORY-1")
def test_a_repository_that_cannot_be_written_still_has_a_history(
    opened: Open, repo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (repo / ".contextinfinity").write_text("a file is in the way")
    with caplog.at_level(logging.WARNING):
        context = opened()
        context.add_exchange("Q", "A")
    assert len(context.get_history()) == 2
    assert "is not written" in caplog.text


@pytest.mark.req("FILES-1")
def test_a_folder_of_history_that_leads_outside_is_refused(opened: Open, repo: Path, tmp_path: Path) -> None:
    (repo / ".contextinfinity").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="symbolic link"):
        opened()
    (repo / ".contextinfinity").unlink()
    with pytest.raises(FileRefused):
        opened().files.add_file("../data/ledger.db")


@pytest.mark.req("FILES-2")
def test_the_breakdown_names_the_tiers_and_the_files(opened: Open) -> None:
    context = opened()
    context.files.add_file("src/beta.py")
    ask(context)
    shown = context.get_context_breakdown()
    assert shown["tiers"].keys() == {"L0", "L1", "L2", "L3", "active"}
    assert shown["files"].keys() == {"src/beta.py"}
    assert 0 < shown["total"] < shown["window"]
