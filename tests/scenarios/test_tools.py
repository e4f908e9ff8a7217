"""Tools: three modes, and whatever a tool does becomes its result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import contextinfinity
from contextinfinity.domain.events import Event, FinishedTurn, ToolCalled, TurnDone, TurnStarted
from contextinfinity.domain.message import Message, TextBlock, ToolOutputItem, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Completed, Paused, Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.prompt.prompt_sections import render_turn
from contextinfinity.providers.scripted import ABILITIES, Script, ScriptedProvider, ScriptedReply, ToolCall
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.tools.toolbox import Toolbox
from tests.ledgers import open_store


def asks(*names: str, text: str = "One moment.", **arguments: Any) -> ScriptedReply:
    """A reply that asks for tools."""
    tools = tuple(ToolCall(name=name, arguments=arguments, call_id=f"c{n}") for n, name in enumerate(names, start=1))
    return ScriptedReply(text=text, tools=tools)


class Desk:
    """An engine with a scripted model and a toolbox, and all the model was ever shown."""

    def __init__(self, folder: Path, replies: list[ScriptedReply | str] | Script, box: Toolbox) -> None:
        self.shown: list[ProviderRequest] = []
        scripted = ScriptedProvider(replies)

        async def script(request: ProviderRequest) -> ScriptedReply | str:
            self.shown.append(request)
            told = scripted._script(request)
            return told if isinstance(told, ScriptedReply | str) else await told

        model = Model(name="m", provider=ScriptedProvider(script), model_id="m")
        models = Models(by_name={"m": model}, default="m")
        self.engine = Engine(
            open_store(folder / "ledger.db"), JournalFolder(folder / "streams"), models, Setup(tools=box)
        )

    def results(self) -> list[tuple[str, bool]]:
        """What the model was sent in the last request, as (text, is_error)."""
        last = self.shown[-1].prompt.messages[-1]
        return [
            ("".join(part.text for part in block.content if isinstance(part, TextBlock)), block.is_error)
            for block in last.blocks
            if isinstance(block, ToolResultBlock)
        ]


Desks = Callable[..., Desk]


@pytest.fixture
def desk(tmp_path: Path) -> Desks:
    def make(replies: list[ScriptedReply | str] | Script, *tools: Callable[..., Any], **how: Any) -> Desk:
        box = Toolbox(**{"mode": "enabled", **how})
        for tool in tools:
            box.add(tool)
        return Desk(tmp_path, replies, box)

    return make


def look(at: str = "the lake") -> str:
    """Look at something."""
    return f"I see {at}."


async def said(engine: Engine, text: str = "Look!") -> tuple[list[Event], FinishedTurn]:
    events = [event async for event in engine.send("new", text)]
    assert isinstance(events[-1], TurnDone)
    return events, events[-1].turn


@pytest.mark.req("TOOLS-1", "TOOLS-2")
async def test_tools_are_run_until_the_model_answers(desk: Desks) -> None:
    here = desk([asks("look", at="the sky"), asks("look", at="the sea", text=""), "Blue, both."], look)
    async with here.engine as engine:
        events, turn = await said(engine)
        assert (turn.outcome, turn.text) == ("completed", "One moment.\n\nBlue, both.")
        steps = await engine.store.turns.steps(turn.turn_id)
        assert [step.outcome for step in steps] == [Paused(reason="tool_use"), Paused(reason="tool_use"), Completed()]
        assert [step.inputs for step in steps] == [
            (),
            (ToolOutputItem(call_id="c1", output=[{"type": "text", "text": "I see the sky."}]),),
            (ToolOutputItem(call_id="c1", output=[{"type": "text", "text": "I see the sea."}]),),
        ]
        assert all(step.response for step in steps)
        assert len({step.plan.request_sha256 for step in steps}) == 3
    calls = [(event.arguments, event.output) for event in events if isinstance(event, ToolCalled)]
    assert calls == [
        ({"at": "the sky"}, None),
        (None, [{"type": "text", "text": "I see the sky."}]),
        ({"at": "the sea"}, None),
        (None, [{"type": "text", "text": "I see the sea."}]),
    ]


@pytest.mark.req("TOOLS-2")
async def test_later_prompts_show_calls_and_results_in_their_order(desk: Desks) -> None:
    here = desk([asks("look", at="the sky"), "Blue.", "As I said."], look)
    async with here.engine as engine:
        _, turn = await said(engine)
        await engine.ask(turn.thread_id, "And?")
    roles = [message.role for message in here.shown[-1].prompt.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert here.shown[-1].prompt.messages[:3] == here.shown[1].prompt.messages[:3], "word for word as it was shown then"


@pytest.mark.req("TOOLS-1")
async def test_disabled_no_tool_is_offered_and_a_call_is_an_error(desk: Desks) -> None:
    ran: list[str] = []

    def tool() -> None:
        ran.append("it ran")

    here = desk([asks("tool"), "Fine."], tool, mode="disabled")
    async with here.engine as engine:
        events, turn = await said(engine)
        assert turn.error is not None
        assert (turn.outcome, turn.phase, turn.error.code) == ("failed", Phase.FAILED, "tools_disabled")
        assert "tool" in turn.error.message
        assert here.shown[0].prompt.tools == ()
        assert any(isinstance(event, ToolCalled) and event.output is None for event in events), "it is shown"
        assert (await engine.ask(turn.thread_id, "Go on.")).outcome == "completed"
    assert ran == []


@pytest.mark.req("TOOLS-1")
async def test_parse_only_calls_are_shown_and_not_run(desk: Desks) -> None:
    here = desk([asks("look", "look", at="the sky")], look, mode="parse_only")
    async with here.engine as engine:
        events, turn = await said(engine)
    assert (turn.outcome, turn.text) == ("paused", "One moment.")
    assert [tool.name for tool in here.shown[0].prompt.tools] == ["look"]
    assert [event.output for event in events if isinstance(event, ToolCalled)] == [None, None]
    assert len(here.shown) == 1


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model(desk: Desks) -> None:
    def broken() -> str:
        raise ValueError("the lens is cracked")

    replies = [asks("broken"), asks("missing"), asks("look", height=3), "I give up."]
    here = desk(list(replies), broken, look)
    told = []
    async with here.engine as engine:
        async for event in engine.send("new", "Look!"):
            if isinstance(event, TurnDone):
                assert event.turn.outcome == "completed"
    for request in here.shown[1:]:
        (result,) = [block for block in request.prompt.messages[-1].blocks if isinstance(block, ToolResultBlock)]
        assert result.is_error
        told.append("".join(part.text for part in result.content if isinstance(part, TextBlock)))
    assert told[0] == "ValueError: the lens is cracked"
    assert "missing" in told[1]
    assert "look" in told[1], "it says which tools there are"
    assert "height" in told[2]


async def test_a_tool_that_takes_too_long_is_left_behind(desk: Desks) -> None:
    hanging = threading.Event()

    async def sleepy() -> str:
        await asyncio.Event().wait()
        return "never"

    def stuck() -> str:
        hanging.wait()
        return "never"

    here = desk([asks("sleepy"), asks("stuck"), "Too slow."], sleepy, stuck, timeout_seconds=0.01)
    async with here.engine as engine:
        _, turn = await said(engine)
        assert turn.outcome == "completed"
    hanging.set()
    assert here.results() == [("stuck took longer than 0.01 s and was cancelled.", True)]


async def test_rounds_are_bounded(desk: Desks) -> None:
    here = desk([asks("look")], look, max_rounds=3)
    async with here.engine as engine:
        _, turn = await said(engine)
    assert turn.error is not None
    assert (turn.outcome, turn.error.code) == ("failed", "tool_rounds")
    assert "max_rounds" in turn.error.hint
    assert len(here.shown) == 4


@pytest.mark.parametrize("parallel", [True, False])
async def test_tools_run_at_once_or_one_after_the_other(desk: Desks, parallel: bool) -> None:
    inside, most = 0, 0
    both = asyncio.Event()

    async def count() -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 2 or not parallel:
            both.set()
        await both.wait()
        inside -= 1
        return str(most)

    here = desk([asks("count", "count"), "Done."], count, allow_parallel=parallel)
    async with here.engine as engine:
        _, turn = await said(engine)
    assert turn.outcome == "completed"
    assert most == (2 if parallel else 1)
    assert len(here.results()) == 2


async def test_results_stand_in_the_order_of_their_calls(desk: Desks) -> None:
    second_done = asyncio.Event()

    async def first() -> str:
        await second_done.wait()
        return "first"

    async def second() -> str:
        second_done.set()
        return "second"

    here = desk([asks("first", "second"), "Done."], first, second, allow_parallel=True)
    async with here.engine as engine:
        await said(engine)
    assert here.results() == [("first", False), ("second", False)]


async def test_a_person_stops_a_turn_while_a_tool_runs(desk: Desks) -> None:
    begun = asyncio.Event()
    left = asyncio.Event()

    async def endless(at: str) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return "never"

    here = desk([asks("look", "endless", at="the sky"), "Fine."], look, endless)
    async with here.engine as engine:
        turn_id = ""
        async for event in engine.send("new", "Look!"):
            if isinstance(event, TurnStarted):
                turn_id = event.turn_id
            if isinstance(event, ToolCalled) and event.name == "endless":
                await begun.wait()
                stopped = await engine.cancel(turn_id)
                assert (stopped.outcome, stopped.text) == ("cancelled", "One moment.")
        assert left.is_set(), "the tool is not left running"
        turn = await engine.store.turns.get(turn_id)
        assert turn is not None
        messages = render_turn(turn, None)
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert shown_results(messages[2]) == ["I see the sky.", "[not run]"]
        assert messages[3].rendered_text == "[stopped here]"
        assert (await engine.ask(stopped.thread_id, "Go on.")).outcome == "completed"


def shown_results(message: Message) -> list[str]:
    blocks = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    return ["".join(part.text for part in block.content if isinstance(part, TextBlock)) for block in blocks]


async def test_a_late_watcher_hears_of_the_tools_too(desk: Desks) -> None:
    here = desk([asks("look", at="the sky"), "Blue."], look)
    async with here.engine as engine:
        live, turn = await said(engine)
        late = [stamped.event async for stamped in engine.watch(turn.turn_id)]
        ids = [stamped.id async for stamped in engine.watch(turn.turn_id) if stamped.id]
        rest = [stamped.event async for stamped in engine.watch(turn.turn_id, after=ids[-3])]
    tools = [event for event in live if isinstance(event, ToolCalled)]
    assert [event for event in late if isinstance(event, ToolCalled)] == tools
    assert isinstance(rest[-1], TurnDone)


async def test_the_calls_of_a_turn_are_blocks_of_its_answer_only_where_it_ends_with_them(desk: Desks) -> None:
    here = desk([asks("look", at="the sky")], look, mode="parse_only")
    async with here.engine as engine:
        _, turn = await said(engine)
        kept = await engine.store.turns.get(turn.turn_id)
        (step,) = await engine.store.turns.steps(turn.turn_id)
    assert kept is not None
    assert kept.answer is not None
    assert kept.answer.blocks == (
        TextBlock(text="One moment."),
        ToolUseBlock(tool_use_id="c1", name="look", input={"at": "the sky"}),
    )
    assert kept.rounds == ()
    assert len(step.items) == 2


@pytest.mark.req("TOOLS-1")
async def test_a_model_that_cannot_call_tools_answers_and_the_log_and_the_plan_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(name="small", provider=ScriptedProvider(["Yes."], replace(ABILITIES, tools=False)), model_id="small")
    models, box = Models(by_name={"small": model}, default="small"), Toolbox(mode="enabled")
    box.add(lambda city: city, name="weather", description="Tell the weather.")
    store, journals = open_store(tmp_path / "ledger.db"), JournalFolder(tmp_path / "streams")
    async with Engine(store, journals, models, Setup(tools=box)) as engine:
        for _ in range(2):
            turn = await engine.ask("new", "Do I need an umbrella?")
        plan = await engine.context(turn.turn_id)
    assert [left.reason for left in plan.left_out if left.what == "tools"] == ["small cannot call tools"]
    assert "tools" not in {section.name for section in plan.sections}, "they were not sent"
    warnings = [record.getMessage() for record in caplog.records if "cannot call tools" in record.getMessage()]
    assert len(warnings) == 1, "once is enough"
    assert "answers without weather" in warnings[0]


@pytest.mark.req("TOOLS-1")
async def test_the_settings_may_say_that_a_scripted_model_cannot_call_tools(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[general]\ndefault_model = "plain"\n[tools]\nmode = "enabled"\n'
        '[models.plain]\nprovider = "scripted"\ntools = false\n'
    )
    async with contextinfinity.open(data_dir=tmp_path) as engine:
        engine.tools.add(lambda city: city, name="weather", description="Tell the weather.")
        turn = await engine.ask("new", "Do I need an umbrella?")
        plan = await engine.context(turn.turn_id)
    assert [left.reason for left in plan.left_out if left.what == "tools"] == ["plain cannot call tools"]
