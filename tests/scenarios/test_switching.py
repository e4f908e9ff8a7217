"""One conversation, any model at any turn: also in the middle of tool use and thinking."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from contextinfinity.domain.message import TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.engine.engine import Engine
from contextinfinity.providers.gemini.request import NO_SIGNATURE
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.vendors import Answer, Call, FakeVendors
from tests.scenarios.wires import engine_at

WIRES = ("openai", "anthropic", "openai_chat", "gemini")
PAIRS = pytest.mark.parametrize(("first", "then"), list(product(WIRES, WIRES)))


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"The code word for {city} is heron-{city}."


def toolbox(mode: str) -> Toolbox:
    box = Toolbox(mode=mode, allow_parallel=True)  # type: ignore[arg-type]
    box.add(weather)
    return box


def calls(*cities: str, thinking: str | None = "Let me think.") -> Answer:
    return Answer(
        text="Looking.",
        reasoning=thinking,
        tool_calls=tuple(Call(name="weather", arguments={"city": city}) for city in cities),
    )


async def asks_again(engine: Engine, thread: str, model: str) -> str:
    """Ask something that only a model that was shown the results can answer."""
    turn = await engine.ask(thread, "What is the code word for Paris?", model=model)
    assert turn.error is None
    assert turn.outcome == "completed"
    return turn.text


@PAIRS
@pytest.mark.req("LEDGER-9", "PROVIDER-3", "TOOLS-2")
async def test_a_finished_tool_turn_is_understood_by_every_other(
    first: str, then: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine_at(vendors, tmp_path, tools=toolbox("enabled")) as engine:
        vendors.say(calls("Paris", "Rome"), calls("Oslo"), "It is all in there.")
        turn = await engine.ask("new", "How is the weather?", model=first)
        assert turn.error is None
        assert turn.text == "Looking.\n\nLooking.\n\nIt is all in there."
        assert "heron-Paris" in await asks_again(engine, turn.thread_id, then)
        body = json.dumps(vendors.requests[-1].body)
        assert "Let me think." not in body, "thinking stays with the model that had it, while it is at it"
        assert body.index("heron-Paris") < body.index("heron-Oslo")


@PAIRS
@pytest.mark.req("LEDGER-9", "PROVIDER-5")
async def test_a_turn_that_waits_for_tools_is_taken_up_by_every_other(
    first: str, then: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine_at(vendors, tmp_path, tools=toolbox("parse_only")) as engine:
        vendors.say(calls("Paris", "Rome"))
        paused = await engine.ask("new", "How is the weather?", model=first)
        assert paused.outcome == "paused"
        kept = await engine.store.turns.get(paused.turn_id)
        assert kept is not None
        assert kept.answer is not None
        asked = [block for block in kept.answer.blocks if isinstance(block, ToolUseBlock)]
        results = tuple(
            ToolResultBlock(tool_use_id=call.tool_use_id, content=(TextBlock(text=weather(call.input["city"])),))
            for call in asked
        )
        turn = await engine.ask(paused.thread_id, results, model=then)
        assert turn.error is None
        assert turn.outcome == "completed"
        assert "heron-Paris" in await asks_again(engine, paused.thread_id, first)


@PAIRS
@pytest.mark.req("LEDGER-9", "TURN-12")
async def test_calls_that_nobody_ran_trouble_no_other(
    first: str, then: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine_at(vendors, tmp_path, tools=toolbox("parse_only")) as engine:
        vendors.say(calls("Paris", "Rome"))
        paused = await engine.ask("new", "The code word for Paris is swan. Look!", model=first)
        assert paused.outcome == "paused"
        assert "swan" in await asks_again(engine, paused.thread_id, then)
        assert "[not run]" in json.dumps(vendors.requests[-1].body)


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.req("PROVIDER-4", "PROVIDER-5")
async def test_thinking_is_replayed_inside_the_running_loop(name: str, vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_at(vendors, tmp_path, tools=toolbox("enabled")) as engine:
        vendors.say(calls("Paris"), "Done.")
        turn = await engine.ask("new", "How is the weather?", model=name)
    assert turn.error is None, "the vendor takes back only thinking of its own, unchanged"
    body = vendors.requests[-1].body
    marks = {"openai": '"type": "reasoning"', "anthropic": '"type": "thinking"', "openai_chat": '"reasoning_content"'}
    marks["gemini"] = '"thoughtSignature"'
    assert marks[name] in json.dumps(body)
    assert NO_SIGNATURE not in json.dumps(body)
