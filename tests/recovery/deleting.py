"""A data_dir with two conversations, and processes that delete one of them and are killed on the way.

``python -m tests.recovery.deleting FOLDER SEED TRIALS`` kills one at a random operation (SQL statements and changes
of files) of each of so many equal parts, starts another process on what is left, and prints what it found wrong as
JSON, one trial a line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from contextinfinity.domain.ids import SessionId, now
from contextinfinity.domain.memory import NewMemory
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import NewTurn
from contextinfinity.engine.engine import Engine
from contextinfinity.settings import load_settings
from contextinfinity.storage import typed_lines
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.standby.spool import Spooled, rewrite
from contextinfinity.wiring import open_engine

DOOMED, KEPT = "zygomorphic", "pterodactyl"
CONFIG = '[general]\ndefault_model = "echo"\n[models.echo]\nprovider = "scripted"\n'


def engine_on(folder: Path) -> Engine:
    """An engine as ``contextinfinity.open`` makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG)
    return open_engine(load_settings(data_dir=folder).settings)


async def talked(engine: Engine, word: str, ttl_hours: float | None = None) -> SessionId:
    """Hold a conversation that contains a word everywhere; return its id."""
    new = NewSession(title=f"on {word}", system=f"Speak of {word}.", external_id=f"{word} talk", ttl_hours=ttl_hours)
    session = await engine.store.sessions.create(new)
    for text in (f"We decided to call it {word}.", f"My dog's name is {word}."):
        assert (await engine.ask(session.id, text)).outcome == "completed"
    await engine.pin(session.id, f"{word} it is")
    memory = NewMemory(owner=session.owner, content=f"likes {word}", thread=session.id, said_at=now())
    await engine.store.memories.add(memory)
    await engine.job_runner.drain(10)
    return session.id


async def prepare(folder: Path, ttl_hours: float | None = None) -> tuple[SessionId, SessionId]:
    """Fill a data_dir with two conversations and every kind of copy of both; return their ids."""
    async with engine_on(folder) as engine:
        ids = await talked(engine, DOOMED, ttl_hours), await talked(engine, KEPT)
        refused = Spooled()
        for session_id, word in zip(ids, (DOOMED, KEPT), strict=True):
            session = await engine.session(session_id)
            turn = NewTurn(id=session_id[:-4] + "beef", branch_id=session.active_branch, message=say("user", word))
            refused.add(NewSession(id=session_id, title=word))
            refused.add(ReplayedTurn(turn_id=turn.id or "", new=turn, said_at=now()))
    copy_everything(folder, ids)
    spools = folder / "ledger.db-spool"
    spools.mkdir(exist_ok=True)
    rewrite(spools / "left.refused", refused)
    return ids


def copy_everything(folder: Path, ids: tuple[SessionId, SessionId]) -> None:
    """Make a backup, copies of journals, and lines of typed history."""
    back_up(folder / "ledger.db", folder / "backups", lambda _: None)
    for journal in (folder / "streams").iterdir():
        shutil.copy(journal, folder / "backups" / journal.name)
        shutil.copy(journal, folder / "backups" / f"{journal.stem}.2.jsonl")
    lines = [
        typed_lines.TypedLine(f"typed {word}", session, now())
        for session, word in zip(ids, (DOOMED, KEPT), strict=True)
    ]
    typed_lines.append(folder / "chat_history", [typed_lines.TypedLine(f"an older release kept {DOOMED}"), *lines])


def holding(folder: Path, word: str) -> list[str]:
    """Return the names of the files of a data_dir that contain a word."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(folder)) for path in files if word.encode() in path.read_bytes())


def in_child(work: Callable[[], object]) -> int:
    """Run a function in another process; return its exit code, negative for a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


class Operations:
    """Counts the operations of this process while it deletes, and kills it with the one of a number."""

    def __init__(self, die_at: int | None) -> None:
        self.done = 0
        self.counting = False
        self._die_at = die_at
        apsw.connection_hooks.append(self._trace)
        sys.addaudithook(self._audit)

    def _trace(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._count

    def _audit(self, event: str, _values: object) -> None:
        if event in ("os.remove", "os.rename", "os.truncate"):
            self._count()

    def _count(self, *_: object) -> bool:
        self.done += self.counting
        if self.counting and self.done == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return True


async def delete(folder: Path, session_id: SessionId, die_at: int | None = None) -> int:
    """Delete a session, or be killed meanwhile; return the number of operations."""
    operations = Operations(die_at)
    async with engine_on(folder) as engine:
        operations.counting = True
        await engine.delete(session_id)
        return operations.done


async def start(folder: Path, words: tuple[str, ...]) -> list[list[str]]:
    """Start an engine and name the files that hold these words while it runs."""
    async with engine_on(folder):
        return [holding(folder, word) for word in words]


def is_untouched(folder: Path, session_id: SessionId) -> bool:
    """Return whether a session's deletion never began. It opens a copy, because opening would finish the deletion."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    ledger = apsw.Connection(str(copy / "ledger.db"))
    begun = ledger.execute("SELECT count(*) FROM deletion").get
    there = ledger.execute("SELECT count(*) FROM session WHERE uuid = ?", (session_id,)).get
    ledger.close()
    shutil.rmtree(copy)
    return bool(there and not begun)


def told(work: Callable[[], object]) -> Any:
    """Run a function in another process and return its result; None if it failed."""
    reading, writing = os.pipe()
    in_child(lambda: os.write(writing, json.dumps(work()).encode()))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return json.loads(pipe.read() or b"null")


def killed(template: Path, work: Path, session_id: SessionId, die_at: int | None) -> int | None:
    """Delete a session in a copy of a data_dir, in a process that dies on the way; None: it died."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)
    took: int | None = told(lambda: asyncio.run(delete(work, session_id, die_at)))
    return took


def main(folder: Path, seed: str, trials: int) -> None:
    """Kill and look, so many times."""
    logging.disable()
    template, work = folder / "template", folder / "work"
    doomed, _ = asyncio.run(prepare(template))  # here, so that children need not import everything
    assert threading.active_count() == 1, "a child would get half of another thread"
    last = killed(template, work, doomed, None)
    assert last is not None
    rng, width = random.Random(seed), last // trials
    for die_at in (1 + part * width + rng.randrange(width) for part in range(trials)):
        died = killed(template, work, doomed, die_at) is None
        untouched = is_untouched(work, doomed)
        left, kept = told(lambda: asyncio.run(start(work, (DOOMED, KEPT)))) or ([], [])
        found: dict[str, object] = {
            "die_at": f"{die_at} of {last}",
            "died": died,
            "untouched": untouched,
            "left": left,
            "kept": kept,
        }
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
