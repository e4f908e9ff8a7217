"""An engine with a scripted model, and everything that the model was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.scripted import ABILITIES, ScriptedProvider, ScriptedReply
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.connection import BUSY_SECONDS
from tests.ledgers import open_store


class Desk:
    """Use it as ``async with Desk(folder) as desk``; ``replies`` are said in turn, then ``Fine.``"""

    def __init__(
        self,
        folder: Path,
        *replies: ScriptedReply | str,
        setup: Setup | None = None,
        abilities: Abilities = ABILITIES,
        fold_pause: timedelta = timedelta(),
        patience: float = BUSY_SECONDS,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "ledger.db"
        self.prompts: list[Prompt] = []
        self.thread = "new"
        waiting = list(replies)

        def script(request: ProviderRequest) -> ScriptedReply | str:
            self.prompts.append(request.prompt)
            return waiting.pop(0) if waiting else "Fine."

        model = Model(name="m", provider=ScriptedProvider(script, abilities), model_id="m")
        models = Models(by_name={"m": model}, default="m")
        setup = replace(setup or Setup(), fold_pause=fold_pause)
        store = open_store(self.path, patience=patience)
        self.engine = Engine(store, JournalFolder(folder / "streams"), models, setup)

    async def __aenter__(self) -> Desk:
        await self.engine.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.engine.close()

    async def ask(self, text: str, **how: Any) -> str:
        """Send a message in the conversation of this desk, and return the turn's id."""
        turn = await self.engine.ask(self.thread, text, **how)
        self.thread = turn.thread_id
        return turn.turn_id

    async def settle(self) -> None:
        """Wait until all background jobs are done."""
        assert await self.engine.job_runner.drain(100, folds=True)

    async def until_done(self, turn_id: str, pause: float = 0.001) -> None:
        """Wait until the background work of one turn is done."""
        await self.until(turn_id, lambda turn: turn.phase is Phase.DONE, pause)

    async def until(self, turn_id: str, is_so: Callable[[Turn], bool], pause: float = 0.001) -> None:
        """Wait until something is true of a turn."""
        async with asyncio.timeout(100):
            while (turn := await self.engine.store.turns.get(turn_id)) is None or not is_so(turn):
                await asyncio.sleep(pause)

    async def branch(self) -> str:
        """Return the active branch."""
        return (await self.engine.session(self.thread)).active_branch

    async def head(self) -> State:
        """Return the branch's committed state."""
        return await self.engine.store.states.head(await self.branch())

    async def plan(self, turn_id: str) -> Plan:
        """Return the plan of a turn's last request."""
        return await self.engine.context(turn_id)

    @property
    def shown(self) -> list[tuple[str, str]]:
        """What the model was shown last, as (role, text)."""
        return said(self.prompts[-1].messages)


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Return messages as (role, text)."""
    return [(message.role, message.rendered_text) for message in messages]
