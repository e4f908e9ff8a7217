"""Small windows, long chains, branches in motion: what the model sees when things are tight."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.events import Delta
from contextinfinity.domain.message import TextBlock, ToolResultBlock
from contextinfinity.domain.prompt import Abilities
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import AuxiliaryModels, Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.errors import Refused
from contextinfinity.providers.scripted import ABILITIES, ScriptedProvider, ScriptedReply, ToolCall
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.builders import exchange
from tests.ledgers import open_store
from tests.scenarios.desk import Desk

SMALL = Abilities(context_limit=2048, max_output_tokens=2048, known=True)


def look(at: str) -> str:
    """Look at something."""
    return f"{at} seen. " * 250


def tools(mode: str = "enabled") -> Toolbox:
    box = Toolbox(mode=mode)  # type: ignore[arg-type]
    box.add(look)
    return box


def calls(at: str, call_id: str = "c1") -> ScriptedReply:
    return ScriptedReply(tools=(ToolCall(name="look", arguments={"at": at}, call_id=call_id),))


@pytest.mark.req("CTX-10", "CTX-3")
async def test_a_branch_made_while_an_answer_runs_waits_for_it_and_shows_it_for_ever(tmp_path: Path) -> None:
    async with Desk(tmp_path, "one", ScriptedReply(text="two words", hang=True), "three") as desk:
        await desk.ask("1")
        running, _ = await desk.engine.accept(desk.thread, "2")
        async for stamped in desk.engine.watch(running.id):
            if isinstance(stamped.event, Delta):
                break
        branch = await desk.engine.fork(desk.thread)
        other = asyncio.create_task(desk.engine.ask(desk.thread, "3", branch_id=branch.id))
        await desk.engine.cancel(running.id)
        turn = await other
        assert ("user", "2") in desk.shown
        assert "[stopped here]" in str(desk.shown)
        assert (await desk.engine.explain(turn.turn_id)).matches


@pytest.mark.req("BUDGET-9", "BUDGET-10")
async def test_pins_are_limited_by_the_window_so_that_every_turn_still_fits(tmp_path: Path) -> None:
    async with Desk(tmp_path, abilities=SMALL) as desk:
        await desk.ask("Hello.")
        await desk.engine.pin(desk.thread, "This holds: " + "it is so. " * 20)
        with pytest.raises(Refused, match="may use 112 tokens"):
            await desk.engine.pin(desk.thread, "This too: " + "it is so. " * 20)
        turn = await desk.engine.ask(desk.thread, "And now?")
        assert turn.outcome == "completed"


@pytest.mark.req("BUDGET-3", "BUDGET-9")
async def test_tool_results_fit_into_a_small_window(tmp_path: Path) -> None:
    asked = [calls(f"place {number}", f"c{number}") for number in range(4)]
    async with Desk(tmp_path, *asked, "All seen.", setup=Setup(tools=tools()), abilities=SMALL) as desk:
        turn = await desk.engine.ask("new", "Look around.")
        assert (turn.outcome, turn.text, turn.error) == ("completed", "All seen.", None)
        steps = await desk.engine.store.turns.steps(turn.turn_id)
        for step in steps:
            assert step.plan.budget is not None
            assert step.plan.tokens <= step.plan.budget.input_limit
            assert (await desk.engine.explain(turn.turn_id, step_index=step.step_index)).matches


@pytest.mark.req("BUDGET-3", "CTX-3")
async def test_a_chain_of_calls_that_a_client_runs_goes_on_for_ever(tmp_path: Path) -> None:
    window = replace(SMALL, context_limit=6000)
    asked = [calls(f"place {number}", f"c{number}") for number in range(30)]
    async with Desk(tmp_path, *asked, setup=Setup(tools=tools("parse_only")), abilities=window) as desk:
        turn = await desk.engine.ask("new", "Look around.")
        for number in range(24):
            assert (turn.outcome, turn.error) == ("paused", None), number
            seen = (TextBlock(text=look(f"place {number}")),)
            result = ToolResultBlock(tool_use_id=f"c{number}", content=seen)
            turn = await desk.engine.ask(turn.thread_id, (result,))
        assert (await desk.engine.explain(turn.turn_id)).matches


@pytest.mark.req("CTX-3")
async def test_turns_that_could_never_fit_are_named_and_the_front_stands_still(tmp_path: Path) -> None:
    setup = Setup(folds=False)
    async with Desk(tmp_path, setup=setup, abilities=SMALL) as desk:
        first = await desk.ask("Hello.")
        await desk.settle()
        store = desk.engine.store
        long = [exchange(f"question {number} " * 40, "answer " * 60) for number in range(150)]
        await store.turns.record(await desk.branch(), long)
        plans = [await desk.plan(await desk.ask(f"Now {number}?")) for number in range(2)]
        for plan in plans:
            assert plan.left_out[0].what.startswith("turns 1–")
            assert (await desk.plan(first)).front != plan.front
        assert plans[0].front == plans[1].front, "no number in front changes from request to request"


@pytest.mark.req("CTX-2", "BUDGET-9")
async def test_standing_memories_keep_to_their_share(tmp_path: Path) -> None:
    async def memories(turn: Turn) -> str:
        return "\n".join(f"Fact {number}: the user likes tea of kind {number}." for number in range(500))

    async with Desk(tmp_path, setup=Setup(helpers=AuxiliaryModels(memories=memories)), abilities=SMALL) as desk:
        await desk.ask("Hello.")
        shown = desk.prompts[-1].system[1]
    assert "Fact 0: the user likes tea of kind 0." in shown
    assert shown.endswith("."), "no fact is cut in the middle"
    assert len(shown) < 2100


@pytest.mark.req("FILES-5")
async def test_a_front_is_new_once_and_not_with_every_step(tmp_path: Path) -> None:
    async with Desk(tmp_path, calls("a"), calls("b"), "Done.", setup=Setup(tools=tools())) as desk:
        turn = await desk.engine.ask("new", "Look around.")
        steps = await desk.engine.store.turns.steps(turn.turn_id)
    assert [step.plan.epoch_reason for step in steps] == ["first", None, None]


@pytest.mark.req("FILES-5", "LEDGER-9")
async def test_a_switch_to_a_model_without_tools_and_back_keeps_the_epoch(tmp_path: Path) -> None:
    able, unable = ABILITIES, replace(ABILITIES, tools=False)
    by_name = {
        name: Model(name=name, provider=ScriptedProvider(["Fine."], abilities), model_id=name)
        for name, abilities in (("able", able), ("unable", unable))
    }
    store, journals = open_store(tmp_path / "ledger.db"), JournalFolder(tmp_path / "streams")
    models = Models(by_name=by_name, default="able")
    async with Engine(store, journals, models, Setup(tools=tools())) as engine:
        thread, reasons = "new", []
        for name in ("able", "unable", "able", "unable"):
            turn = await engine.ask(thread, "Hello.", model=name)
            thread = turn.thread_id
            told = await engine.explain(turn.turn_id)
            reasons.append(told.plan.epoch_reason)
            assert told.matches
            assert bool(told.body["prompt"].get("tools")) == (name == "able")
    assert reasons == ["first", None, None, None]
