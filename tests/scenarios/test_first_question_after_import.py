"""A long conversation that arrives from elsewhere: its first question is answered from all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.message import say
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine_setup import RetrievalParts, Setup
from contextinfinity.providers.scripted import ABILITIES
from contextinfinity_testing.builders import exchange
from tests.scenarios.desk import Desk

ROLES = ("user", "assistant")
SMALL = replace(ABILITIES, context_limit=8192)
FACT, PLACE = "The spare key of the boathouse hangs behind the blue barometer.", 20
QUESTION = "Where does the spare key of the boathouse hang?"
STONES = "Stone {} is grey and heavy, and it was found at the river by a man with a cart. "


def setup(**more: object) -> Setup:
    return Setup(retrieval=RetrievalParts(embedders=Embedders(built_in)), **more)  # type: ignore[arg-type]


def said(number: int) -> tuple[str, str]:
    question = FACT if number == PLACE else f"Tell me about stone {number}."
    return question, STONES.format(number) * 6


async def imported(desk: Desk, folder: Path, turns: int) -> None:
    file = folder / "talk.jsonl"
    pairs = [said(number) for number in range(1, turns + 1)]
    records = [{"role": role, "content": text} for pair in pairs for role, text in zip(ROLES, pair, strict=True)]
    file.write_text("\n".join(map(json.dumps, records)), "utf-8")
    (there,) = (await LocalClient(desk.engine).imports.load(file)).sessions
    desk.thread = there.thread_id


async def recorded(desk: Desk, folder: Path, turns: int) -> None:
    await desk.ask("Hello.")
    await desk.settle()
    exchanges = [exchange(*said(number)) for number in range(1, turns + 1)]
    await desk.engine.store.turns.record(await desk.branch(), exchanges)


async def logged(desk: Desk, folder: Path, turns: int) -> None:
    await desk.ask("Hello.")
    await desk.settle()
    for number in range(1, turns + 1):
        for role, text in zip(ROLES, said(number), strict=True):
            await desk.engine.store.turns.log(await desk.branch(), say(role, text))  # type: ignore[arg-type]


@pytest.mark.req("CTX-3", "COMPACT-1")
@pytest.mark.parametrize(("arrive", "turns"), [(imported, 150), (recorded, 150), (logged, 80)])
async def test_the_first_question_finds_what_the_window_cannot_hold(arrive, turns: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    async with Desk(tmp_path, setup=setup(), abilities=SMALL) as desk:
        await arrive(desk, tmp_path, turns)
        plan = await desk.plan(await desk.ask(QUESTION))
        head = await desk.head()
        shown = desk.shown
    assert [left.what for left in plan.left_out if left.what.startswith("turns")] == []
    assert plan.shrunk is None
    assert plan.gathered is not None
    assert plan.gathered[0] == head.covers_turn_seq + 1, "every turn is covered by the summary or shown"
    assert "behind the blue barometer" in shown[-1][1], "it is retrieved for the question"
