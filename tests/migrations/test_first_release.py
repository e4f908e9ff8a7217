"""A data_dir of the first release opens: its ledger with a log, journals and the spool of a killed process.

The sample was made by release 0.1.0 (schema version 13): a forked thread with a pin, a thread of another user, a
deleted one; then one process was killed while it answered, and one while the ledger was locked.
"""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

import pytest

import contextinfinity as cix
from contextinfinity.domain.session import Owner
from contextinfinity.storage.sqlite.integrity import Inspection
from contextinfinity.storage.sqlite.migrate import migrations

SAMPLE = Path(__file__).parents[1] / "samples" / "first_release" / "data_dir.tar.xz"
ECHO = '[general]\ndefault_model = "echo"\n[models.echo]\nprovider = "scripted"\n'


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    with tarfile.open(SAMPLE) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "config.toml").write_text(ECHO)
    return tmp_path


@pytest.mark.req("LEDGER-7", "TURN-8", "TURN-13")
async def test_everything_of_the_first_release_is_found_and_goes_on(data_dir: Path) -> None:
    async with cix.open(data_dir=data_dir) as engine:
        store = engine.store
        (thread,) = await store.sessions.list(Owner())
        turns = await store.turns.history(thread.active_branch)
        assert [turn.user_message.rendered_text[:12] for turn in turns] == [
            "My name is A",
            "The keeper o",
            "Is the tower",
        ]
        assert (await store.states.head(thread.active_branch)).pinned_facts == ("The deadline is the 3rd of May.",)
        (_, fork) = await store.branches.list(thread.id)
        assert "foghorns" in (await store.turns.history(fork.id))[-1].user_message.rendered_text
        assert {memory.content for memory in await store.memories.list(Owner())} == {
            "The user lives in Leeds.",
            "The user's name is Ada.",
        }
        assert "Tom Barrow" in (await engine.search("keeper of the harbour light")).hits[0].text

        bea = await store.sessions.find(Owner(user_id="bea"), "holiday-plan")
        assert bea is not None
        _, killed, spooled = await store.turns.history(bea.active_branch)
        assert (killed.user_message.rendered_text[:11], killed.outcome) == ("Said before", "completed")
        assert killed.text.startswith("You said: "), "its journal holds the whole answer"
        assert (spooled.user_message.rendered_text[:10], spooled.outcome) == ("Said while", "completed")

        reply = await engine.ask(thread.id, "And on Mondays?")
        assert (reply.turn_seq, reply.outcome) == (4, "completed")
        await engine.context(turns[-1].id)
    assert not list((data_dir / "ledger.db-spool").glob("*.spool"))


@pytest.mark.req("LEDGER-6", "LEDGER-7")
async def test_a_ledger_of_the_first_release_is_whole_after_its_upgrade(data_dir: Path) -> None:
    async with cix.open(data_dir=data_dir):
        pass
    with sqlite3.connect(data_dir / "ledger.db") as ledger:
        (version,) = ledger.execute("SELECT max(version) FROM schema_version").fetchone()
    assert version == migrations()[-1].version
    with Inspection(data_dir / "ledger.db") as looked_over:
        assert list(looked_over.violations(dead=(), progress=lambda _what, _part: None)) == []
    assert b"XYLOPHONE" not in (data_dir / "ledger.db").read_bytes()
