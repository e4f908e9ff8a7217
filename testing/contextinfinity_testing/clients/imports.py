"""Tests of a client: imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity_testing.clients.threads import thread_of

TALK = [
    {"role": "user", "content": "Where is the key?", "id": "1", "created_at": "2023-05-08T13:56:00Z"},
    {"role": "assistant", "content": "Under the mat.", "id": "2", "model": "old-model"},
]


def file_of(folder: Path, records: list[dict[str, str]]) -> Path:
    """Write messages to a file and return its path."""
    path = folder / "talk.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


class ImportPromises:
    """Importing."""

    @pytest.mark.req("CLI-1", "LEDGER-6")
    async def test_what_is_imported_is_shown_once(self, client: Client, tmp_path: Path) -> None:
        path = file_of(tmp_path, TALK)
        (first,) = (await client.imports.load(path)).sessions
        (again,) = (await client.imports.load(path)).sessions
        assert (first.added, again.added, again.skipped) == (2, 0, 2)
        (turn,) = (await client.conversations.show(first.thread_id)).turns
        assert (turn.user, turn.assistant, turn.model) == ("Where is the key?", "Under the mat.", "old-model")
        assert turn.created_at.isoformat() == "2023-05-08T13:56:00+00:00"

    @pytest.mark.req("LEDGER-8", "LEDGER-9")
    async def test_an_imported_conversation_goes_on_and_forks_as_any_other(
        self, client: Client, tmp_path: Path
    ) -> None:
        (done,) = (await client.imports.load(file_of(tmp_path, TALK))).sessions
        answered = await client.conversations.ask(done.thread_id, "And the other one?")
        assert (answered.thread_id, answered.turn_seq, answered.outcome) == (done.thread_id, 2, "completed")
        fork = await client.threads.fork(done.thread_id, at=1)
        shown = await client.conversations.show(done.thread_id, branch_id=fork.branch_id)
        assert [turn.user for turn in shown.turns] == ["Where is the key?"]

    async def test_messages_go_where_the_caller_says(self, client: Client, tmp_path: Path) -> None:
        thread = await thread_of(client, "Hello")
        (there,) = (await client.imports.load(file_of(tmp_path, TALK), thread_id=thread)).sessions
        assert there.thread_id == thread
        (new,) = (await client.imports.load(file_of(tmp_path, TALK), thread_id="a name")).sessions
        assert (await client.threads.get("a name")).thread_id == new.thread_id

    async def test_an_import_belongs_to_its_owner(self, client: Client, tmp_path: Path) -> None:
        other = Owner(user_id="other")
        (done,) = (await client.imports.load(file_of(tmp_path, TALK), owner=other, thread_id="a name")).sessions
        assert (await client.threads.get("a name", other)).thread_id == done.thread_id
        with pytest.raises(NotFound):
            await client.threads.get("a name")

    async def test_a_file_of_something_else_is_refused(self, client: Client, tmp_path: Path) -> None:
        path = tmp_path / "diary"
        path.write_text("Dear diary", encoding="utf-8")
        for each in (path, tmp_path / "missing"):
            with pytest.raises(InvalidInput):
                await client.imports.load(each)
        assert await client.threads.list() == ()
