from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.errors import InvalidInput, LedgerClosed
from contextinfinity.workspace import ContextManager
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
    for user, assistant in (("Q", ""), ("", "A"), ("Q", None), ("Q", "\ud800")):
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
