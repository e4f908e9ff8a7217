"""A window that is smaller than the settings say: it is learned from the first size rejection."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.events import FinishedTurn
from contextinfinity.domain.message import ImageBlock, TextBlock
from contextinfinity.domain.state import State
from contextinfinity.engine.engine import Engine
from contextinfinity_testing.vendors import Answer, FakeVendors, Trouble
from tests.scenarios.wires import engine_at

CONFIGURED, REAL = 32_768, 4000
WIRES = ("openai", "anthropic", "openai_chat")
MESSAGE = "Please tell me more about what the harbour looked like in that year. " * 24


def engine(vendors: FakeVendors, folder: Path, configured: int = CONFIGURED) -> Engine:
    return engine_at(vendors, folder, context_limit=configured, fold_pause=timedelta())


async def say(engine: Engine, thread: str, wire: str, text: str = MESSAGE) -> FinishedTurn:
    turn = await engine.ask(thread, text, model=wire)
    assert await engine.job_runner.drain(100, folds=True)
    return turn


async def head(engine: Engine, thread: str) -> State:
    return await engine.store.states.head((await engine.session(thread)).active_branch)


@pytest.mark.req("BUDGET-11", "BUDGET-2")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_smaller_window_is_learned_and_survives_a_restart(
    wire: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    vendors.limit = REAL
    thread = "new"
    async with engine(vendors, tmp_path) as here:
        for number in range(14):
            turn = await say(here, thread, wire, f"{number}. {MESSAGE}")
            assert (number, turn.outcome, turn.error) == (number, "completed", None)
            thread = turn.thread_id
        refused = len(vendors.requests) - 14
        assert 1 <= refused <= 3, "one rejection, or a few where the vendor names no figure"
        plan = await here.context(turn.turn_id)
        assert plan.budget is not None
        assert (plan.budget.model_limit <= 1.25 * REAL, plan.budget.configured_limit) == (True, CONFIGURED)
        assert (await head(here, thread)).covers_turn_seq > 4, "turns fold by the learned window"
    vendors.requests.clear()
    async with engine(vendors, tmp_path) as here:
        for _ in range(3):
            assert (await say(here, thread, wire)).outcome == "completed"
    assert len(vendors.requests) == 3, "nothing is refused again after a restart"


@pytest.mark.req("BUDGET-11")
async def test_a_new_configured_window_replaces_the_learned_one(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine(vendors, tmp_path) as here:
        turn = await say(here, "new", "openai_chat")
        vendors.say(Trouble.size(tokens=5000, limit=REAL))
        turn = await say(here, turn.thread_id, "openai_chat")
        assert (await here.context(turn.turn_id)).budget.model_limit == REAL  # type: ignore[union-attr]
    async with engine(vendors, tmp_path, 65_536) as here:
        turn = await say(here, turn.thread_id, "openai_chat")
        assert (await here.context(turn.turn_id)).budget.model_limit == 65_536  # type: ignore[union-attr]


@pytest.mark.req("BUDGET-2", "BUDGET-11")
async def test_the_last_retry_is_the_floor(vendors: FakeVendors, tmp_path: Path) -> None:
    """A history of 20,000 tokens and a vendor that names no figure: steps of a quarter would not get there."""
    async with engine(vendors, tmp_path) as here:
        turn = await say(here, "new", "openai", MESSAGE * 10)
        for _ in range(4):
            turn = await here.ask(turn.thread_id, MESSAGE * 10, model="openai")
        vendors.limit = 2100
        vendors.requests.clear()
        turn = await here.ask(turn.thread_id, "And now?", model="openai")
        assert (turn.outcome, turn.error) == ("completed", None)
        assert len(vendors.requests) <= 4
        turn = await here.ask(turn.thread_id, "And then?", model="openai")
        assert (turn.outcome, turn.error) == ("completed", None)


@pytest.mark.req("BUDGET-11")
async def test_only_a_message_that_is_too_large_by_itself_fails(vendors: FakeVendors, tmp_path: Path) -> None:
    vendors.limit = REAL
    async with engine(vendors, tmp_path) as here:
        turn = await say(here, "new", "openai", "Hello.")
        large = await say(here, turn.thread_id, "openai", MESSAGE * 15)
        assert (large.outcome, large.error.code) == ("failed", "size")  # type: ignore[union-attr]
        after = await say(here, turn.thread_id, "openai", "Hello again.")
        assert after.outcome == "completed"


@pytest.mark.req("BUDGET-11")
@pytest.mark.parametrize(
    "trouble", [Trouble.status(413), Trouble.page(413)], ids=["request too large", "a proxy's body limit"]
)
async def test_a_limit_on_bytes_teaches_nothing_about_tokens(
    trouble: Trouble, vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine(vendors, tmp_path) as here:
        turn = await say(here, "new", "anthropic")
        for _ in range(3):
            await say(here, turn.thread_id, "anthropic")
        vendors.say(trouble, Answer(text="Fine."))
        turn = await say(here, turn.thread_id, "anthropic")
        assert (turn.outcome, turn.text) == ("completed", "Fine.")
        assert (await here.context(turn.turn_id)).budget.model_limit == CONFIGURED  # type: ignore[union-attr]


@pytest.mark.req("BUDGET-11")
async def test_a_rejected_picture_teaches_nothing_without_a_named_figure(vendors: FakeVendors, tmp_path: Path) -> None:
    """What a picture takes is a guess of ours: the window of all conversations must not shrink to it."""
    picture = ImageBlock(media_type="", source={"type": "url", "url": "https://example.org/large.png"})
    async with engine(vendors, tmp_path) as here:
        turn = await say(here, "new", "openai")
        vendors.say(*[Trouble.size()] * 4)
        await here.ask(turn.thread_id, (TextBlock(text="What is this?"), picture), model="openai")
        vendors.script.clear()
        turn = await say(here, turn.thread_id, "openai")
        assert (await here.context(turn.turn_id)).budget.model_limit == CONFIGURED  # type: ignore[union-attr]


@pytest.mark.req("BUDGET-11")
async def test_a_short_message_that_failed_for_size_is_shown_whole(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine(vendors, tmp_path) as here:
        vendors.say(*[Trouble.size()] * 4)
        failed = await say(here, "new", "openai_chat", "A short question?")
        assert failed.outcome == "failed"
        turn = await say(here, failed.thread_id, "openai_chat", "Another one.")
        shown = await here.explain(turn.turn_id)
        assert shown.matches
        assert "A short question?" in str(shown.messages)
        assert "too large to be sent" not in str(shown.messages)
