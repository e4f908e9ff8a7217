from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.errors import InvalidInput, LedgerClosed
from contextinfinity.prompt.layout import SUMMARY, UNDERSTOOD
from contextinfinity.workspace.context_manager import ContextManager
from tests.unit.workspace.rooms import MODEL, SMALL, answer, machine, question

Open = Callable[..., ContextManager]

Q, A = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}


@pytest.fixture(params=["in memory", "in the ledger"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open managers, all on one repository or each in memory; they are closed with the test."""
    root = tmp_path if request.param == "in the ledger" else None
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(
            ContextManager(MODEL, **{"repo_root": root, "settings": machine(tmp_path / "data"), **how})
        )


@pytest.mark.req("MANAGER-1")
def test_messages_of_all_four_roles_come_back_as_they_were_added(opened: Open) -> None:
    said = [
        {"role": "system", "content": "Be brief."},
        Q,
        A,
        A,
        Q,
        Q,
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": "It is 42.\n"},
    ]
    context = opened()
    for message in said:
        context.add_message(**message)
    assert context.get_history() == said


@pytest.mark.req("MANAGER-1")
def test_an_exchange_is_added_whole_or_not_at_all(opened: Open) -> None:
    context = opened()
    context.add_exchange("Q", "A")
    for user, assistant in (("", "A"), ("Q", None), ("Q", "\ud800")):
        with pytest.raises(InvalidInput):
            context.add_exchange(user, assistant)  # type: ignore[arg-type]
    assert context.get_history() == [Q, A]


@pytest.mark.req("MANAGER-1")
def test_changing_the_copy_changes_nothing(opened: Open) -> None:
    context = opened()
    context.add_exchange("Q", "A")
    copy = context.get_history()
    copy[0]["content"] = "changed"
    copy.clear()
    assert context.get_history() == [Q, A]


@pytest.mark.req("MANAGER-1")
def test_setting_a_history_replaces_all_of_it(opened: Open) -> None:
    context = opened()
    context.add_exchange("old", "older")
    new = [A, Q, Q, A, {"role": "system", "content": "S"}]
    context.set_history([*new[:-1], {**new[-1], "files": ["a.py"]}])
    assert context.get_history() == new
    context.add_message("user", "more")
    assert context.get_history() == [*new, {"role": "user", "content": "more"}]
    context.set_history([])
    assert context.get_history() == []


def talked(context: ContextManager, first: int, last: int, *, round_trips: bool = False) -> list[dict[str, Any]]:
    for number in range(first, last):
        context.add_exchange(question(number), answer(number))
        if context.compact_history_if_needed() and round_trips:
            context.set_history(context.get_history())
    return context.get_history()


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in the ledger"])
def test_reading_a_history_and_setting_it_again_changes_nothing(tmp_path: Path, kept: bool) -> None:
    histories = []
    for name in ("read", "set"):
        (folder := tmp_path / name).mkdir()
        how = {"settings": machine(folder / "data"), "compaction_config": SMALL}
        with ContextManager(MODEL, folder if kept else None, **how) as context:  # type: ignore[arg-type]
            histories.append(talked(context, 0, 36, round_trips=name == "set"))
    assert histories[0][0]["content"].startswith(SUMMARY)
    assert histories[0] == histories[1], "no summary is made of a summary, however often"


@pytest.mark.req("MANAGER-1")
def test_a_saved_history_with_its_summary_can_be_loaded_elsewhere(opened: Open, tmp_path: Path) -> None:
    roomy = {**SMALL, "summary_budget_tokens": 800}
    saved = talked(opened(compaction_config=roomy), 0, 12)
    (tmp_path / "repository").mkdir()
    how = {"settings": machine(tmp_path / "other"), "compaction_config": roomy}
    with ContextManager(MODEL, tmp_path / "repository", **how) as loaded:  # type: ignore[arg-type]
        loaded.set_history(saved)
        assert loaded.get_history() == saved
        (summary, understood, *_) = talked(loaded, 12, 14, round_trips=True)
    assert understood["content"] == UNDERSTOOD
    for number in range(10):
        assert f" we decided to write chapter {number} first" in summary["content"]
    assert summary["content"].count(SUMMARY) == 1
    assert "no. 1" not in summary["content"], "entries of a summary stay entries; they are not quoted as a message"


@pytest.mark.req("MANAGER-1")
def test_an_answer_without_text_and_content_of_parts_are_kept(opened: Open) -> None:
    context = opened()
    pixel = base64.b64encode(b"GIF89a").decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{pixel}"}}
    parts: list[dict[str, Any]] = [{"type": "text", "text": "What is this?"}, picture]
    empty = {"role": "assistant", "content": ""}
    context.add_exchange("Q", "")
    context.add_message("user", parts)
    context.add_message("assistant", "")
    context.add_message("user", [{"type": "text", "text": "Plain "}, {"type": "text", "text": "words"}])
    shown: dict[str, Any] = {"role": "user", "content": parts}
    history: list[dict[str, Any]] = [Q, empty, shown, empty, {"role": "user", "content": "Plain words"}]
    assert context.get_history() == history
    context.set_history(history)
    assert context.get_history() == history
    assert context.history_token_count() > 0
    for wrong in ([], [{"type": "text"}], [{"type": "image_url", "image_url": {"url": "C:/a.png"}}]):
        with pytest.raises(InvalidInput, match="content"):
            context.add_message("user", wrong)
    with pytest.raises(InvalidInput, match="content"):
        context.add_message("assistant", [picture])


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize(
    "message", [None, "Q", {}, {"role": "user"}, {"role": "user", "content": None}, {"role": "nobody", "content": "Q"}]
)
def test_a_history_that_cannot_be_set_leaves_the_old_one(opened: Open, message: Any) -> None:
    context = opened()
    context.add_exchange("Q", "A")
    with pytest.raises(InvalidInput):
        context.set_history([Q, message])
    assert context.get_history() == [Q, A]


@pytest.mark.req("MANAGER-1")
def test_a_cleared_history_is_empty_and_goes_on(opened: Open) -> None:
    context = opened()
    context.clear_history()
    assert context.get_history() == []
    context.add_exchange("Q", "A")
    context.clear_history()
    assert (context.get_history(), context.history_token_count()) == ([], 0)
    context.add_message("assistant", "A")
    assert context.get_history() == [A]


@pytest.mark.parametrize("content", ["", "  \n", None, 7, b"Q", ["Q"], "\udcff"])
@pytest.mark.req("MANAGER-1")
def test_what_is_no_text_is_refused_in_words(opened: Open, content: Any) -> None:
    context = opened()
    with pytest.raises(InvalidInput, match=r"content|message"):
        context.add_message("user", content)
    assert context.get_history() == []


@pytest.mark.parametrize("role", ["", "User", "developer", None, 3, []])
@pytest.mark.req("MANAGER-1")
def test_an_unknown_role_is_refused_with_those_there_are(opened: Open, role: Any) -> None:
    with pytest.raises(InvalidInput, match="user, assistant, system, tool"):
        opened().add_message(role, "Q")


@pytest.mark.req("MANAGER-1")
def test_the_cache_tiers_hear_of_every_history_that_is_not_merely_longer(tmp_path: Path) -> None:
    class Tracked(ContextManager):
        heard = 0

        def reregister_history_items(self) -> None:
            self.heard += 1

    with Tracked(MODEL, settings=machine(tmp_path), compaction_config=SMALL) as context:
        context.set_history([{"role": "user", "content": question(0)}])
        for number in range(12):
            context.add_exchange(question(number), answer(number))
        assert context.heard == 1
        assert context.compact_history_if_needed() is not None
        assert context.heard == 2
        assert context.compact_history_if_needed() is None
        assert context.emergency_truncate() == 0
        assert context.heard == 2
        context.clear_history()
        assert context.heard == 3


@pytest.mark.req("MANAGER-1")
def test_reregistering_leaves_the_history_alone(opened: Open) -> None:
    context = opened()
    context.add_exchange("Q", "A")
    context.reregister_history_items()
    assert context.get_history() == [Q, A]


def test_after_it_was_closed_it_refuses_in_words(opened: Open) -> None:
    context = opened()
    context.close()
    context.close()
    for use in (context.get_history, context.clear_history, context.should_compact, context.emergency_truncate):
        with pytest.raises(LedgerClosed, match="This ContextManager is closed"):
            use()
    with pytest.raises(LedgerClosed):
        context.add_message("user", "Q")
