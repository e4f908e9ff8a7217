"""A process dies between a tool's call and its result: the conversation goes on, with every vendor."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.torture.plans import Kill, Side
from benchmarks.torture.workload import engine_on, until_quiet
from contextinfinity.domain.message import TextBlock, ToolResultBlock
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.prompt.prompt_sections import INTERRUPTED, render_turn
from contextinfinity_testing.vendors import FakeVendors
from tests.recovery.doomed import THREAD, died_at
from tests.scenarios.wires import KEYS, engine_at

ASKED = "tools What does the heron see?"


@pytest.fixture
def folder(quick_folder: Path) -> Path:
    return quick_folder / "data"


def results(turn: Turn) -> list[str]:
    """What later prompts show of the results, in order."""
    return [
        "".join(part.text for part in block.content if isinstance(part, TextBlock))
        for message in render_turn(turn, None)
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


async def recovered(folder: Path) -> Turn:
    async with engine_on(folder) as (engine, store):
        assert await until_quiet(store)
        (turn,) = await store.turns.history((await engine.session(THREAD)).active_branch)
        return turn


@pytest.mark.req("TURN-8", "TOOLS-2")
@pytest.mark.parametrize(
    ("boundary", "side", "outcome", "shown"),
    [
        ("append output", "before", "incomplete", [INTERRUPTED, INTERRUPTED]),
        ("append output", "after", "incomplete", [INTERRUPTED, INTERRUPTED]),
        ("end journal", "after", "incomplete", [f"seen {ASKED}"] * 2),
    ],
)
async def test_what_was_called_and_what_came_of_it_is_told_truly(
    folder: Path, boundary: str, side: Side, outcome: str, shown: list[str]
) -> None:
    died_at(folder, Kill(way="boundary", boundary=boundary, side=side), ASKED)
    turn = await recovered(folder)
    assert turn.outcome == outcome
    assert turn.phase is Phase.FAILED
    assert results(turn) == shown


@pytest.mark.req("TURN-8", "LEDGER-9", "PROVIDER-5")
@pytest.mark.parametrize("boundary", ["append call", "append output", "end journal", "open_step"])
@pytest.mark.parametrize("name", ["openai", "anthropic", "openai_chat"])
async def test_the_conversation_goes_on_with_every_vendor(
    folder: Path, name: str, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    nth = 2 if boundary == "open_step" else 1
    died_at(folder, Kill(way="boundary", boundary=boundary, side="after", nth=nth), ASKED)
    async with FakeVendors() as vendors, engine_at(vendors, folder) as engine:
        turn = await engine.ask(THREAD, "The code word for lake is heron. What is the code word for lake?", model=name)
        assert turn.error is None, "the vendor's rules hold"
        assert (turn.outcome, "heron" in turn.text) == ("completed", True)
