"""Every client keeps every promise of the contract."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.testing.clients import ClientSuite, suite_settings
from contextinfinity.testing.clients.talking import hanging
from contextinfinity.wiring import open_client


class TestLocalClient(ClientSuite):
    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[Client]:
        async with open_client(suite_settings(tmp_path)) as client:
            yield client

    @pytest.mark.req("CTX-9")
    async def test_each_request_logs_where_it_went(self, client: Client, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, logger="contextinfinity.engine.engine")
        first = await client.conversations.ask("new", "one")
        await client.conversations.ask(first.thread_id, "two")
        await client.conversations.ask(first.thread_id, "three")
        thread, branch = first.thread_id, first.branch_id
        assert [record.message for record in caplog.records if record.name == "contextinfinity.engine.engine"] == [
            f"thread {thread} created, branch {branch}, turn 1, turns loaded 0",
            f"thread {thread} found, branch {branch}, turn 2, turns loaded 1",
            f"thread {thread} found, branch {branch}, turn 3, turns loaded 2",
        ]

    async def test_closing_marks_what_does_not_come_to_an_end(self, client: Client, tmp_path: Path) -> None:
        turn_id, _ = await hanging(client)
        await client.close(answer_seconds=0)
        async with open_client(suite_settings(tmp_path)) as later:
            turns = (await later.conversations.show((await later.threads.find("last")).thread_id)).turns
        assert [(turn.turn_id, turn.outcome, turn.assistant) for turn in turns] == [
            (turn_id, "incomplete", "one two three")
        ]


def test_no_promise_of_the_suite_hides_another() -> None:
    names = Counter(name for part in ClientSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
