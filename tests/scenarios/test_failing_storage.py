"""Turns while storage fails: a locked ledger, a full disk, a slow reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.domain.events import Delta, Event, TurnDone, TurnStarted
from contextinfinity.domain.prompt import Finished, ProviderEvent, ProviderRequest
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.contract import EncodedRequest
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.faults import FailingDisk
from tests.scenarios.conftest import Build


@pytest.mark.req("TURN-9")
async def test_a_ledger_locked_by_another_process_holds_a_turn_up_and_loses_nothing(
    build: Build, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def answer(_: ProviderRequest) -> ScriptedReply:
        asked.set()
        return ScriptedReply(text="in spite of all")

    async with build(answer) as engine:
        turn, _ = await engine.accept("new", "Can you write?")
        other = connect(str(tmp_path / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")
        watching = asyncio.create_task(watched(engine, turn.id))
        await asked.wait()
        assert not watching.done(), "nothing is told before it is durable"
        other.execute("ROLLBACK")
        events = await watching
    assert isinstance(events[-1], TurnDone)
    assert (events[-1].turn.outcome, events[-1].turn.text) == ("completed", "in spite of all")


async def watched(engine: Engine, turn_id: str) -> list[Event]:
    return [stamped.event async for stamped in engine.watch(turn_id)]


class HoldsBack(ScriptedProvider):
    """Says its words, and keeps its last one until it may end."""

    def __init__(self, text: str) -> None:
        super().__init__([text])
        self.may_end = asyncio.Event()

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        async for event in super().stream(written):
            if isinstance(event, Finished):
                await self.may_end.wait()
            yield event


async def refused(disk: FailingDisk) -> None:
    """Wait until the disk has refused a write."""
    async with asyncio.timeout(100):
        while not disk.failed:
            await asyncio.sleep(0)


@pytest.mark.req("TURN-9")
async def test_a_disk_that_is_full_when_the_answer_ends_keeps_it_until_there_is_room(tmp_path: Path) -> None:
    with FailingDisk() as disk:
        provider = HoldsBack("worth keeping")
        models = Models(by_name={"m": Model(name="m", provider=provider, model_id="m")}, default="m")
        store = SqliteStore(tmp_path / "ledger.db", vfs=disk.name)
        async with Engine(store, JournalFolder(tmp_path / "streams"), models) as engine:
            shown = turn_id = ""
            async for event in engine.send("new", "Say something."):
                if isinstance(event, TurnStarted):
                    turn_id = event.turn_id
                if isinstance(event, Delta):
                    shown += event.text
                    if shown == "worth keeping":
                        disk.break_down()
                        provider.may_end.set()
                        await refused(disk)
                        assert (await store.turns.get(turn_id)).phase is Phase.RESPONDING  # type: ignore[union-attr]
                        disk.repair()
                if isinstance(event, TurnDone):
                    assert (event.turn.outcome, event.turn.text) == ("completed", "worth keeping")
        assert shown == "worth keeping"


async def test_a_consumer_slower_than_the_model_gets_everything(build: Build) -> None:
    async with build([ScriptedReply(pieces=tuple(f"{number} " for number in range(3000)))]) as engine:
        heard = ""
        turn_id = ""
        async for event in engine.send("new", "count"):
            if isinstance(event, TurnStarted):
                turn_id = event.turn_id
            if isinstance(event, Delta):
                if not heard:  # dawdle until the whole turn is over
                    async with asyncio.timeout(100):
                        while (turn := await engine.store.turns.get(turn_id)) and turn.phase is not Phase.DONE:
                            await asyncio.sleep(0)
                heard += event.text
    assert heard == "".join(f"{number} " for number in range(3000))


@pytest.mark.req("TURN-11", "TURN-8")
async def test_a_worker_that_was_declared_dead_goes_on_as_another(build: Build) -> None:
    async with build(["before", "after"]) as engine:
        opened = await engine.ask("new", "one")
        (worker,) = await engine.store.workers.list()
        await engine.store.workers.take_over(worker.id, by="somebody else")
        engine.worker_lease.lost.set()
        async with asyncio.timeout(100):
            while [known.id for known in await engine.store.workers.list()] in ([], [worker.id]):
                await asyncio.sleep(0)
        assert (await engine.ask(opened.thread_id, "two")).text == "after"


async def test_a_provider_that_breaks_in_an_unknown_way_ends_its_turn_and_its_step(build: Build) -> None:
    def broken(_: ProviderRequest) -> ScriptedReply:
        raise ZeroDivisionError("oops")

    async with build(broken) as engine:
        answer = await engine.ask("new", "Divide.")
        assert answer.error is not None
        assert (answer.outcome, answer.error.code) == ("failed", "provider")
        assert "ZeroDivisionError: oops" in answer.error.message
        (step,) = await engine.store.turns.steps(answer.turn_id)
        assert step.outcome is not None


@pytest.mark.req("TURN-8", "STREAM-3")
async def test_a_turn_interrupted_while_it_is_being_ended_closes_its_step_and_keeps_what_was_shown(
    build: Build, tmp_path: Path
) -> None:
    async with build([ScriptedReply(text="this far", hang=True)]) as engine:
        async for event in engine.send("new", "Tell me."):
            if isinstance(event, TurnStarted):
                turn_id = event.turn_id
            if isinstance(event, Delta) and event.text == " far":
                break
        other = connect(str(tmp_path / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")  # the end of the turn cannot be written yet
        (answering,) = engine.tasks
        answering.cancel()
        async with asyncio.timeout(100):
            while b'"end"' not in b"".join(path.read_bytes() for path in (tmp_path / "streams").glob("*.jsonl")):
                await asyncio.sleep(0)
        answering.cancel()
        await asyncio.sleep(0)
        other.execute("ROLLBACK")
        await asyncio.wait({answering})
        turn = await engine.store.turns.get(turn_id)
        assert turn is not None
        assert turn.answer is not None
        assert (turn.phase, turn.outcome, turn.answer.rendered_text) == (Phase.FAILED, "incomplete", "this far")
        (step,) = await engine.store.turns.steps(turn_id)
        assert step.outcome is not None


@pytest.mark.req("TURN-2", "TURN-6")
async def test_a_consumer_that_leaves_while_its_message_is_accepted_leaves_no_turn_hanging(build: Build) -> None:
    async with build(lambda _: "answered") as engine:
        for spins in range(40):
            asking = asyncio.create_task(engine.ask(f"thread {spins}", "hello"))
            for _ in range(spins):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait({asking})
        for session in await engine.store.sessions.list(Owner(), limit=100):
            async with asyncio.timeout(30):
                assert (await engine.ask(session.id, "still there?")).text == "answered"
            turns = await engine.store.turns.history(session.active_branch)
            assert {turn.outcome for turn in turns} == {"completed"}


@pytest.mark.req("TURN-11")
async def test_a_turn_cancelled_at_any_moment_is_cancelled_or_answered_and_its_step_is_closed(build: Build) -> None:
    async with build(lambda _: ScriptedReply(text="a b c", hang=True)) as engine:
        for spins in range(60):
            turn, _ = await engine.accept("new", f"moment {spins}")
            for _ in range(spins):
                await asyncio.sleep(0)
            async with asyncio.timeout(30):
                ended = await engine.cancel(turn.id)
            assert (ended.outcome, ended.error) == ("cancelled", None)
            assert all(step.outcome is not None for step in await engine.store.turns.steps(turn.id))


@pytest.mark.req("TURN-11")
async def test_a_waiting_turn_can_be_stopped_from_another_process(build: Build) -> None:
    async with build([ScriptedReply(hang=True)]) as engine, build(["other"]) as other:
        hanging, _ = await engine.accept("new", "hang")
        waiting, _ = await engine.accept(hanging.session_id, "wait")
        async with asyncio.timeout(30):
            stopped = await other.cancel(waiting.id)
            assert stopped.outcome == "cancelled"
            assert (await other.cancel(hanging.id)).outcome == "cancelled"
