"""A sample of the scenarios on PostgreSQL. With ``CONTEXTINFINITY_TEST_LEDGER=postgresql`` the others run there too."""

from __future__ import annotations

import pytest

from tests.ledgers import BACKEND
from tests.scenarios.test_a_turn import (
    test_a_cancelled_answer_keeps_what_was_shown,
    test_a_message_is_durable_before_anything_else_and_its_answer_before_the_end,
    test_a_thread_goes_on_under_its_own_id_and_under_a_foreign_one,
    test_fork_rollback_and_pin_through_the_engine,
    test_messages_wait_their_turn_and_are_answered_in_order,
)
from tests.scenarios.test_deleting import (
    test_a_deleted_conversation_is_gone_with_its_journals,
    test_the_next_prompt_holds_what_is_left_and_says_nothing_of_the_rest,
)
from tests.scenarios.test_memories import (
    test_forget_that_forgets,
    test_what_was_said_in_one_conversation_is_known_in_the_next,
)

__all__ = [
    "test_a_cancelled_answer_keeps_what_was_shown",
    "test_a_deleted_conversation_is_gone_with_its_journals",
    "test_a_message_is_durable_before_anything_else_and_its_answer_before_the_end",
    "test_a_thread_goes_on_under_its_own_id_and_under_a_foreign_one",
    "test_forget_that_forgets",
    "test_fork_rollback_and_pin_through_the_engine",
    "test_messages_wait_their_turn_and_are_answered_in_order",
    "test_the_next_prompt_holds_what_is_left_and_says_nothing_of_the_rest",
    "test_what_was_said_in_one_conversation_is_known_in_the_next",
]

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.req("LEDGER-10")]


@pytest.fixture(autouse=True)
def on_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND, "postgresql")
