"""An import while the ledger comes and goes: it follows what is held of its conversation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from contextinfinity.domain.session import Owner
from contextinfinity.exchange.importer import import_file
from tests.recovery.outages import locked, until
from tests.recovery.test_deletion_away import standby


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6")
async def test_messages_go_into_a_conversation_that_had_to_be_held(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    lines = [
        {"role": role, "content": f"{role} {n}", "thread_id": "mine"}
        for n in range(3)
        for role in ("user", "assistant")
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = standby(tmp_path)
    with locked(tmp_path):
        importing = asyncio.create_task(import_file(store, file, owner=Owner()))
        await until(lambda: store.health().spool_depth > 0)
    imported = await importing
    assert [session.added for session in imported.sessions] == [6]
    session = await store.sessions.find(Owner(), "mine")
    assert session is not None
    said = [turn.user_message.rendered_text for turn in await store.turns.history(session.active_branch)]
    assert said == ["user 0", "user 1", "user 2"]
    await store.close()
