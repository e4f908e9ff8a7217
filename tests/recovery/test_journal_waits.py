"""Turns whose journal waits for a shared ledger: which is slow, refuses a step, or has given the turn away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import ToolCallItem, ToolOutputItem, say
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.prompt import Finished
from contextinfinity.domain.turn import NewTurn, Paused, Step
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.recovery import from_journal
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.engine.step import INTERRUPTED, StepProgress, run_tools
from contextinfinity.engine.turn import release_journal
from contextinfinity.errors import TurnLost
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply, ToolCall
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.builders import new_branch, new_step
from tests.unit.storage.test_shared_journals import WORKER, InMemory, begin, folders

__all__ = ["folders"]

REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON step WHEN new.step_index = 1 BEGIN SELECT RAISE(ABORT, 'no'); END"


async def running_turn(folder: Path) -> RunningTurn:
    store = SqliteStore(folder / "ledger.db")
    branch = await new_branch(store)
    turn = await store.turns.accept(NewTurn(branch_id=branch.id, message=say("user", "Hello"), owner=WORKER))
    await store.close()
    return RunningTurn(turn)


@contextmanager
def slow_ledger(shared: InMemory) -> Iterator[threading.Event]:
    """Answer a write when the event is set, or after a long time; the event is not set by then."""
    is_free, shared.is_held = threading.Event(), True

    def answer() -> None:
        shared.wait_for_write()
        is_free.wait(10)
        shared.answer()

    server = threading.Thread(target=answer)
    server.start()
    yield is_free
    server.join()


@pytest.mark.req("TURN-9", "TOOLS-2")
@pytest.mark.parametrize("allow_parallel", [True, False])
async def test_no_tool_runs_for_a_worker_that_was_declared_dead(
    tmp_path: Path, folders: list[JournalFolder], *, allow_parallel: bool
) -> None:
    shared, ran = InMemory(), list[str]()
    folders.append(folder := JournalFolder(tmp_path / "streams", shared=shared))
    running = await running_turn(tmp_path)
    step_id, running.journal = begin(folder, "One moment.")
    tools = Toolbox(mode="enabled", allow_parallel=allow_parallel)
    tools.add(lambda: ran.append("buy"), name="buy", description="Buy it.")
    call = ToolCallItem(call_id="c1", name="buy", arguments={})
    progress = StepProgress(step=new_step(), max_output_tokens=10)
    progress.finished = Finished(outcome=Paused(reason="tool_use"), items=(call,))
    running.journal.sync()
    shared.dead.add(WORKER)
    with pytest.raises(TurnLost):
        await run_tools(tools, running, progress)
    assert ran == []
    assert [entry.event_type for entry in await shared.entries(step_id, 0)] == ["text"]


@pytest.mark.req("TURN-9")
async def test_a_turn_whose_next_step_is_refused_keeps_what_its_tools_said(tmp_path: Path) -> None:
    """The end of the journal waits for its copy, which is not due yet."""
    store = SqliteStore(tmp_path / "ledger.db")
    store.database.writing(lambda connection: connection.raw.execute(REFUSE)).result()
    asks = ScriptedReply(text="One moment.", tools=(ToolCall(name="look", arguments={}, call_id="c1"),))
    models = Models(
        by_name={"m": Model(name="m", provider=ScriptedProvider([asks, "Done."]), model_id="m")}, default="m"
    )
    tools = Toolbox(mode="enabled")
    shared = InMemory()
    tools.add(lambda: "a heron", name="look", description="Look.")
    journals = JournalFolder(tmp_path / "streams", flush_ms=1e8, shared=shared)
    async with Engine(store, journals, models, Setup(tools=tools)) as engine, asyncio.timeout(100):
        turn = await engine.ask("new", "What is there?")
        (step,) = await store.turns.steps(turn.turn_id)
    assert "One moment." in turn.text
    assert [item.call_id for item in step.items if isinstance(item, ToolOutputItem)] == ["c1"]


@pytest.mark.req("TURN-9")
async def test_other_tasks_go_on_while_a_journal_that_is_released_waits_for_a_slow_ledger(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    folders.append(folder := JournalFolder(tmp_path / "streams", shared=shared))
    running = await running_turn(tmp_path)
    with slow_ledger(shared) as is_free:
        _, running.journal = begin(folder, "A heron.")
        asyncio.get_running_loop().call_soon(is_free.set)
        await release_journal(running)
        assert is_free.is_set(), "the loop ran while the journal waited"


@pytest.mark.req("TURN-9")
async def test_recovery_does_not_wait_for_the_end_of_a_journal_to_be_stored(
    tmp_path: Path, folders: list[JournalFolder]
) -> None:
    shared = InMemory()
    folders.append(folder := JournalFolder(tmp_path / "streams", shared=shared))
    step_id, journal = begin(folder, "A heron.")
    journal.close()
    step = Step(
        id=step_id, turn_id=new_id(), step_index=0, provider="scripted", model_id="m", plan=Plan(), started_at=now()
    )
    with slow_ledger(shared) as is_free:
        end, _ = from_journal(folder, step, INTERRUPTED, WORKER)
        assert [entry.event_type for entry in await shared.entries(step_id, 0)] == ["text"]
        is_free.set()
    assert end.answer is not None
    assert end.answer.rendered_text == "A heron."
    assert shared.text_of(step_id) == "A heron."
