"""What an exchange costs besides its commits: reads of the ledger, and tasks on the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine_setup import Remembering, RetrievalParts, Rewriting, Setup
from contextinfinity.storage.sqlite.named_sql import QUERIES
from tests.scenarios.desk import Desk

QUESTION = "How far is the harbour from the old lighthouse?"
MOST_READS = 6


class Started:
    """A task factory that counts the tasks by the names of their coroutines."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
        self.names[work.__qualname__] += 1
        return asyncio.Task(work, loop=loop, **how)


class Statements:
    """A connection hook that counts the statements of every connection."""

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()

    def __call__(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._traced

    def _traced(self, _cursor: object, statement: str, _values: object) -> bool:
        self.texts[statement] += 1
        return True


@pytest.mark.req("TURN-14")
async def test_an_exchange_reads_and_starts_only_what_it_needs(tmp_path: Path) -> None:
    chosen, statements, started = built_in(), Statements(), Started()
    retrieval = RetrievalParts(embedders=Embedders(lambda: chosen))
    setup = Setup(retrieval=retrieval, remembering=Remembering(), rewriting=Rewriting())
    apsw.connection_hooks.append(statements)
    try:
        async with Desk(tmp_path, setup=setup) as desk:
            for _ in range(3):
                await desk.ask(QUESTION)
                await desk.settle()
            statements.texts.clear()
            asyncio.get_running_loop().set_task_factory(started)
            await desk.ask(QUESTION)
            asyncio.get_running_loop().set_task_factory(None)
            by_timer = statements.texts[QUERIES["select_cancelled"]]
            reads = statements.texts["BEGIN"] - by_timer
            await desk.settle()
    finally:
        apsw.connection_hooks.remove(statements)
    assert reads <= MOST_READS
    assert started.names.pop("watch_for_cancels", 1) == 1, "it goes on from one exchange to the next for a while"
    assert started.names == {
        "Lifecycle._accept": 1,
        "TurnRunner.answer": 1,
        "StepRunner._open": 1,
        "JobRunner._run_one": 1,
    }
    assert not statements.texts[QUERIES["select_origins"]], "the job read a turn that this process has just written"
