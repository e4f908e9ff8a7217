"""Whatever happens to a conversation, requests that use cached turns are byte for byte those that read everything."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import say
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Problem
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.turn_cache import MOST_BYTES
from contextinfinity.errors import ContextInfinityError
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.storage.journal import JournalFolder
from contextinfinity_testing.builders import exchange
from tests.ledgers import open_store
from tests.sizes import sized

CEILINGS = Ceilings(fold_trigger=400, verbatim_window=60, summary=120)
KINDS = ("ask", "ask", "elsewhere", "fail", "cut", "again", "pin", "unpin", "fold", "undo", "fork", "rollback")
LOGS = ("log", "reply", "record", "expire", "delete")
Step = tuple[str, int]
LOGGED: list[Step] = [
    *(("log", 1), ("ask", 1), ("log", 2), ("reply", 2), ("ask", 2), ("fail", 1), ("again", 1)),
    *(("ask", 1), ("expire", 1), ("elsewhere", 3)),
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS + LOGS), st.integers(1, 30)), min_size=6, max_size=25)


class World:
    """One ledger that two processes use; ``requests`` are the bytes that models were sent."""

    def __init__(self, folder: Path, cached_bytes: int) -> None:
        self._path = folder / "ledger.db"
        self.requests: list[bytes] = []
        self._reply: ScriptedReply | str = "Fine."
        self._thread = ""
        self._count = 0
        setup = Setup(ceilings=CEILINGS, fold_pause=timedelta(), cached_bytes=cached_bytes)
        provider = ScriptedProvider(self._script)
        models = {name: Model(name=name, provider=provider, model_id=name) for name in ("m", "gpt-4o")}
        self.engines = [
            Engine(open_store(self._path), JournalFolder(folder / name), Models(by_name=models, default="m"), setup)
            for name in ("here", "elsewhere")
        ]

    def _script(self, request: ProviderRequest) -> ScriptedReply | str:
        self.requests.append(msgspec.json.encode(request.prompt))
        return self._reply

    async def live(self, steps: list[Step]) -> list[bytes]:
        """Do the steps, and ask once more; return the requests."""
        async with AsyncExitStack() as stack:
            for engine in self.engines:
                await stack.enter_async_context(engine)
            await self._begin()
            for kind, number in [*steps, ("ask", 1), ("elsewhere", 1)]:
                with suppress(ContextInfinityError):  # nothing to undo, no such pin
                    await self._do(kind, number)
                for engine in self.engines:
                    assert await engine.job_runner.drain(100, folds=True)
        return self.requests

    async def _begin(self) -> None:
        self._thread = (await self.engines[0].store.sessions.create(NewSession(ttl_hours=24))).id

    async def _do(self, kind: str, number: int) -> None:
        engine, turns = self.engines[0], self.engines[0].store.turns
        branch = (await engine.session(self._thread)).active_branch
        newest = await turns.history(branch, limit=1)
        last = newest[-1].turn_seq if newest else 0
        match kind:
            case "ask" | "elsewhere" | "fail" | "cut" | "again":
                await self._ask(kind, number)
            case "pin":
                await engine.pin(self._thread, f"Fact {number % 4}.")
            case "unpin":
                await engine.unpin(self._thread, number % 3)
            case "fold":
                await engine.fold(self._thread)
            case "undo":
                await engine.unfold(self._thread)
            case "fork":
                made = await engine.fork(self._thread, at=number % (last + 1))
                await engine.store.sessions.activate(made.session_id, made.id)
            case "rollback":
                await self.engines[number % 2].rollback(self._thread, to=number % (last + 1))
            case "log":
                await self.engines[number % 2].store.turns.log(branch, say("user", f"Logged {number}."))
            case "reply":
                await self.engines[number % 2].store.turns.log(branch, say("assistant", f"Replied {number}."))
            case "record":
                await turns.record(branch, [exchange(f"Recorded {number}", "Noted.")] * (number % 5))
            case "expire":
                await self._expire(number)
            case "delete":
                await self.engines[number % 2].delete(self._thread)
                await self._begin()

    async def _ask(self, kind: str, number: int) -> None:
        self._count += kind != "again"
        words = f"Question {self._count}: " + "word " * number
        self._reply = {
            "fail": ScriptedReply(error=Problem(code="provider", message="away")),
            "cut": ScriptedReply(text="It begins", cut_after=1),
        }.get(kind, f"Answer {self._count}.")
        engine = self.engines[kind == "elsewhere"]
        model = "gpt-4o" if number % 7 == 0 else None
        await engine.ask(self._thread, words if kind != "again" else f"Question {self._count}: word ", model=model)

    async def _expire(self, number: int) -> None:
        """Let the oldest turns be older than their time to live."""
        raw = apsw.Connection(str(self._path))
        raw.set_busy_timeout(10_000)
        raw.execute("DROP TRIGGER IF EXISTS turn_content_is_immutable")
        raw.execute("UPDATE turn SET created_at = created_at - 2 * 86400000 WHERE turn_seq <= ?", (number % 6,))
        raw.execute("UPDATE expiry SET due = 0")
        raw.close()
        if number % 2:
            await self.engines[1].clean_up()


@pytest.mark.sqlite_file("it opens the file beside the store")
@pytest.mark.req("CTX-3", "CTX-8", "SAFE-4")
@given(steps=STEPS, cached_bytes=st.sampled_from([MOST_BYTES, 3_000]))
@example(steps=LOGGED, cached_bytes=MOST_BYTES)
@settings(deadline=None, max_examples=sized(6, 500))
def test_requests_are_the_same_with_and_without_cached_turns(steps: list[Step], cached_bytes: int) -> None:
    def requests(size: int) -> list[bytes]:
        with TemporaryDirectory() as folder:
            return asyncio.run(World(Path(folder), size).live(steps))

    assert requests(cached_bytes) == requests(0)
