"""An engine whose ledger goes away and comes back, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw

from contextinfinity.domain.events import Event, FinishedTurn, TurnDone
from contextinfinity.domain.prompt import Finished, ProviderEvent
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.contract import EncodedRequest
from contextinfinity.providers.scripted import Script, ScriptedProvider, echo
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.connection import BUSY_SECONDS, connect
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore

SOON = Bounds(patience=0.05, first_pause=0.01, longest_pause=0.05)


class HoldsBack(ScriptedProvider):
    """Says its words, and keeps its last one until it may end."""

    def __init__(self, script: Script = echo) -> None:
        super().__init__(script)
        self.may_end = asyncio.Event()
        self.said = asyncio.Event()

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Wait before the end."""
        async for event in super().stream(written):
            if isinstance(event, Finished):
                self.said.set()
                await self.may_end.wait()
            yield event


@asynccontextmanager
async def engine_on(
    folder: Path,
    provider: ScriptedProvider | None = None,
    *,
    vfs: str | None = None,
    bounds: Bounds = SOON,
    patience: float = BUSY_SECONDS,
) -> AsyncIterator[Engine]:
    """An engine as ``contextinfinity.open`` makes it, that asks for its ledger more often and ends without delay."""
    model = Model(name="m", provider=provider or ScriptedProvider(echo), model_id="m")
    store = StandbyStore(
        SqliteStore(folder / "ledger.db", vfs=vfs, patience=patience), folder / "ledger.db-spool", bounds
    )
    async with Engine(store, JournalFolder(folder / "streams"), Models(by_name={"m": model}, default="m")) as engine:
        yield engine
        await engine.close(job_seconds=0)


@contextmanager
def locked(folder: Path) -> Iterator[apsw.Connection]:
    """Lock the ledger as another process would."""
    other = connect(str(folder / "ledger.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        if other.in_transaction:
            other.execute("ROLLBACK")
        other.close()


async def until(state: Callable[[], bool]) -> None:
    """Wait for a state."""
    async with asyncio.timeout(100):
        while not state():
            await asyncio.sleep(0)


async def back(engine: Engine) -> None:
    """Wait until the ledger has everything again."""
    await until(lambda: engine.health().status == "ready")


async def heard(engine: Engine, turn_id: str) -> tuple[list[Event], FinishedTurn]:
    """Return all events of a turn, up to its end."""
    events = [stamped.event async for stamped in engine.watch(turn_id)]
    assert isinstance(events[-1], TurnDone)
    return events, events[-1].turn


async def said(engine: Engine, thread_id: str) -> list[tuple[int, str, str]]:
    """Return the turns in the ledger: (turn_seq, question, answer)."""
    session = await engine.session(thread_id)
    turns = await engine.store.turns.history(session.active_branch, limit=1000)
    assert all(turn.durability == "ledger" and turn.has_place for turn in turns)
    return [(turn.turn_seq, turn.user_message.rendered_text, turn.text) for turn in turns]
