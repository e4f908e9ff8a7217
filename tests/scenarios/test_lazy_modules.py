"""Modules that are slow to load never hold up the event loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONVERSATION = """
import asyncio, sys, threading

from contextinfinity.domain.session import Owner
from contextinfinity.settings import General, ModelSettings, Settings
from contextinfinity.wiring import open_engine

imported = []


def note(event, arguments):
    if event == "import" and threading.current_thread() is threading.main_thread():
        imported.append(arguments[0])


async def main(folder):
    scripted = ModelSettings(provider="scripted", model_id="s")
    settings = Settings(general=General(data_dir=folder, default_model="s"), models={"s": scripted})
    async with open_engine(settings) as engine:
        sys.addaudithook(note)
        first = await engine.ask("new", "I live in Leeds. Who is Donald Trump?")
        await engine.ask(first.thread_id, "who are his children")
        assert await engine.job_runner.drain(100)
        memories = [one.content for one in await engine.memories.list(Owner())]
    assert memories == ["The user lives in Leeds."], memories
    slow = ("memory.table", "memory.extraction", "rewriting.names", "librarian.extract", "text.word_classes")
    print([name for name in imported if name.removeprefix("contextinfinity.") in slow])


asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.sqlite_file("an import may come before the preloading with a slower ledger")
def test_no_slow_module_is_imported_on_the_event_loop(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CONVERSATION, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.stdout.strip(), told.returncode) == ("[]", 0), told.stderr
