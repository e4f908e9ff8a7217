"""A process on an encrypted data_dir that is killed in the middle of everything leaves no file that can be read."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import now
from contextinfinity.storage import typed_lines
from contextinfinity.storage.encryption.key_sources import VARIABLE
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.sqlite.vector_table import SqliteVectors
from contextinfinity.wiring import open_client
from tests.recovery import encrypting
from tests.recovery.deleting import in_child, told
from tests.recovery.outages import locked

SAID = "zygomorphic"
QUESTIONS = [f"{words} {SAID}." for words in ("Nobody writes down", "Tell me of", "The first is", "We call it")]
PICTURE = b"\x89PNG\r\n\x1a\n picture of something " + SAID.encode()
INDEX = b"usearch"
CONFIG = """\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
[models.hangs]
provider = "scripted"
path = "hangs.json"
[stream]
fsync_ms = 1
"""
KINDS = {
    "ledger": "data/ledger.db",
    "log of the ledger": "data/ledger.db-wal",
    "journal": "data/streams/*.jsonl",
    "spool": "data/ledger.db-spool/*.spool",
    "vectors": "data/vectors/*.usearch",
    "typed history": "data/chat_history",
    "backup": "data/backups/*.db",
    "history file": "repo/.contextinfinity/history.jsonl",
    "image": "repo/.contextinfinity/images/*",
}


def in_use(root: Path, encrypted: bool) -> None:
    """Make each kind of file, and die while an answer is streamed and the ledger is away."""
    data, repo = root / "data", root / "repo"
    for folder in (data, repo):
        folder.mkdir()
    (data / "config.toml").write_text(CONFIG)
    (data / "hangs.json").write_text(f'[{{"text": "{SAID} " , "hang": true}}]')
    (repo / "picture.png").write_bytes(PICTURE)
    if encrypted:
        encrypting.encrypt(data)
    assert asyncio.run(_killed_in_the_middle(data, repo)) is None


async def _killed_in_the_middle(data: Path, repo: Path) -> None:
    async with open_client(encrypting.settings_of(data)) as client:
        await client.conversations.ask("new", QUESTIONS[2])
    async with open_client(encrypting.settings_of(data)) as client:
        there = client.open_workspace(repo)
        there.add("picture.png")
        first = await there.ask("new", QUESTIONS[3])
        await client._engine.job_runner.drain(100)
        vectors = SqliteVectors(_ledger(client).database, data / "vectors", least=0)
        assert await vectors.build()
        typed_lines.append(data / "chat_history", [typed_lines.TypedLine(f"typed {SAID}", first.thread_id, now())])
        back_up(data / "ledger.db", data / "backups", lambda _: None)
        async for stamped in client.conversations.send("new", QUESTIONS[1], model="hangs"):
            if isinstance(stamped.event, Durability) and stamped.event.durable:
                break
        with locked(data):
            held = await client.conversations.ask("new", QUESTIONS[0])
            assert (held.outcome, held.durability) == ("completed", "local")
            os.kill(os.getpid(), signal.SIGKILL)


def _ledger(client: LocalClient) -> Any:
    return client._engine.store._ledger  # type: ignore[attr-defined]


def readable(root: Path) -> set[str]:
    """Name the kinds of files that can be read."""
    marks = (SAID.encode(), INDEX, PICTURE[:8])
    return {
        kind
        for kind, pattern in KINDS.items()
        if any(mark in path.read_bytes() for path in root.glob(pattern) for mark in marks)
    }


async def questions_in(data: Path) -> list[str]:
    async with open_client(encrypting.settings_of(data)) as client:
        threads = await client.threads.list()
        shown = [await client.conversations.show(thread.thread_id) for thread in threads]
        return sorted(turn.user for conversation in shown for turn in conversation.turns)


@pytest.mark.req("SAFE-2")
def test_a_killed_process_leaves_no_readable_file_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    plain, encrypted = tmp_path / "plain", tmp_path / "encrypted"
    for root in (plain, encrypted):
        root.mkdir()
        assert in_child(lambda root=root: in_use(root, root is encrypted)) == -signal.SIGKILL  # type: ignore[misc]
    assert readable(plain) == {*KINDS}, "the same without encryption: each kind of file holds what was said"
    assert all(any(encrypted.glob(pattern)) for pattern in KINDS.values())
    assert readable(encrypted) == set()
    inputs = {"hangs.json", "picture.png"}
    files = [path for path in encrypted.rglob("*") if path.is_file() and path.name not in inputs]
    assert [path.name for path in files if SAID.encode() in path.read_bytes()] == []
    assert told(lambda: asyncio.run(questions_in(encrypted / "data"))) == QUESTIONS
