"""An engine on a real ledger, with a model that follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.scripted import Script, ScriptedProvider, ScriptedReply, echo
from contextinfinity.storage.journal import JournalFolder
from contextinfinity_testing.vendors import FakeVendors
from tests.ledgers import open_store
from tests.scenarios.wires import KEYS, engine_at

Scripted = Script | list[ScriptedReply | str]
Build = Callable[[Scripted], Engine]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def engine(script: Scripted) -> Engine:
        model = Model(name="built-in", provider=ScriptedProvider(script), model_id="scripted-1")
        models = Models(by_name={"built-in": model}, default="built-in")
        return Engine(open_store(tmp_path / "ledger.db"), JournalFolder(tmp_path / "streams"), models)

    return engine


@pytest.fixture
async def talk(build: Build) -> AsyncIterator[Callable[[Scripted], object]]:
    """Open an engine with a script; it is closed with the test."""
    async with AsyncExitStack() as stack:

        async def opened(script: Scripted = echo) -> Engine:
            engine = await stack.enter_async_context(build(script))
            stack.push_async_callback(engine.close, answer_seconds=0.2, job_seconds=0.2)  # answers may hang by plan
            return engine

        yield opened


@pytest.fixture
async def vendors(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeVendors]:
    """The vendors on this machine, and the keys that open their doors."""
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    async with FakeVendors() as there:
        yield there


@pytest.fixture
async def engine(vendors: FakeVendors, tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine whose models are at the vendors."""
    async with engine_at(vendors, tmp_path) as here:
        yield here
