"""``build_contextual_messages`` on the ledger: the same pins, summary and turns as the engine, and nothing unnamed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import contextinfinity
from contextinfinity import build_contextual_messages, threads
from contextinfinity.compat.context import MOST_CHARACTERS, ContextualMessagesResult
from contextinfinity.compat.ledger_threads import LedgerThreads
from contextinfinity.domain.session import Owner
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.settings import Settings
from contextinfinity.threads import Turn, add_turn
from contextinfinity_testing.threads import unused, using
from tests.ledgers import ledger_url, open_store
from tests.scenarios.desk import Desk

FOLDING = Setup(ceilings=Ceilings(fold_trigger=1200, verbatim_window=300))
LONG = "It was found at the river by a man with a cart, who sold it to a mason. "


async def built(thread_id: str, message: str) -> ContextualMessagesResult:
    return await build_contextual_messages(thread_id, message, use_memory=False, use_query_rewriter=False)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Settings]:
    with using("ledger", tmp_path, ledger_url(tmp_path / "ledger.db")) as settings:
        yield settings


@pytest.mark.req("CTX-14")
async def test_it_shows_what_the_engine_would_show(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=FOLDING) as desk:
        await desk.ask("We decided to paint the boathouse green.")
        await desk.engine.pin(desk.thread, "The boat is called Petrichor.")
        for number in range(12):
            await desk.ask(f"Tell me about stone {number}. {LONG * 4}")
            await desk.settle()
        assert (await desk.head()).covers_turn_seq > 0
        place = LedgerThreads(open_store(desk.path))
        threads.use(place)
        try:
            result = await built(desk.thread, "And now?")
        finally:
            threads.use(None)
            place.close()
        await desk.ask("And now?")
        prompt = desk.prompts[-1]
    assert [one["content"] for one in result.messages if one["role"] == "system"] == [*prompt.system]
    assert [(one["role"], one["content"]) for one in result.messages if one["role"] != "system"] == desk.shown
    assert "The boat is called Petrichor." in str(result.messages)
    assert "green" in str(result.messages), "the summary covers what is no longer word for word"
    assert [left["what"] for left in result.left_out] == ["memory", "rewriting"]


@pytest.mark.req("CTX-14", "CTX-3")
async def test_a_long_thread_that_was_only_logged_has_a_summary_of_its_beginning(ledger: Settings) -> None:
    thread = unused()
    add_turn(thread, Turn("user", "We decided to paint the boathouse green."))
    add_turn(thread, Turn("assistant", "Noted."))
    for number in range(2 * MOST_CHARACTERS // 4000):
        add_turn(thread, Turn("user", f"Tell me about stone {number}."))
        add_turn(thread, Turn("assistant", LONG * 54))
    result = await built(thread, "Which colour?")
    assert "boathouse green" in str(result.messages)
    assert not any(left["what"].startswith("turns") for left in result.left_out)
    assert result.short_term_history[-1]["content"] == LONG * 54
    assert (await built(thread, "Which colour?")).messages == result.messages


@pytest.mark.req("CTX-14")
async def test_what_an_in_process_thread_leaves_out_is_named(tmp_path: Path) -> None:
    with using("in_process", tmp_path):
        thread = unused()
        for number in range(300):
            add_turn(thread, Turn("assistant" if number % 2 else "user", f"{number}".ljust(1000, ".")))
        result = await built(thread, "And now?")
        shown = len(result.short_term_history)
        assert shown < 300
        (older, *_) = result.left_out
        assert older["what"] == f"turns 1–{300 - shown}"
        assert "96,000 characters" in older["reason"]


@pytest.mark.req("CTX-14", "CTX-7")
async def test_a_stage_that_fails_is_named(tmp_path: Path) -> None:
    from contextinfinity.compat.context import ContextBuilder

    class Broken:
        async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> None:
            raise RuntimeError("what was said")

        async def rewrite(self, follow_up: object) -> object:
            raise RuntimeError("what was said")

    with using("in_process", tmp_path):
        builder = ContextBuilder(memories=Broken(), rewriter=Broken())  # type: ignore[arg-type]
        result = await builder.build(unused(), "Hello.")
    assert result.left_out == [
        {"what": "memory", "reason": "it failed: RuntimeError"},
        {"what": "rewriting", "reason": "it failed: RuntimeError"},
    ]


@pytest.mark.req("CTX-14")
async def test_calls_of_tools_that_a_plain_message_cannot_hold_are_named(tmp_path: Path) -> None:
    from contextinfinity.providers.scripted import ScriptedReply, ToolCall
    from contextinfinity.tools.toolbox import Toolbox

    def look(at: str) -> str:
        """Look at something."""
        return f"{at}: nothing."

    box = Toolbox(mode="enabled")
    box.add(look)
    asked = ScriptedReply(tools=(ToolCall(name="look", arguments={"at": "sky"}),))
    async with Desk(tmp_path, asked, "Nothing there.", setup=Setup(tools=box)) as desk:
        await desk.ask("Look at the sky.")
        await desk.settle()
        place = LedgerThreads(open_store(desk.path))
        threads.use(place)
        try:
            result = await built(desk.thread, "And now?")
        finally:
            threads.use(None)
            place.close()
    assert [one["content"] for one in result.short_term_history] == ["Look at the sky.", "Nothing there."]
    assert result.left_out[0] == {
        "what": "tool calls, results and pictures of turn 1",
        "reason": "messages here are plain text",
    }


@pytest.mark.req("CTX-5", "MEMORY-2")
async def test_memories_come_from_the_ledger_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger stays open between two calls; one that was replaced meanwhile is noticed."""

    async def remember(folder: Path, fact: str) -> None:
        async with contextinfinity.open(data_dir=folder) as engine:
            await engine.memories.add(Owner(), fact)

    async def snippet() -> str | None:
        result = await build_contextual_messages(unused(), "Which instrument?", user_id="local")
        return result.memory_snippet

    here, other = tmp_path / "here", tmp_path / "other"
    monkeypatch.setenv("CONTEXTINFINITY_GENERAL__DATA_DIR", str(here))
    assert await snippet() is None, "there is no ledger yet"
    await remember(here, "The user plays the bassoon.")
    assert await snippet() == "The user plays the bassoon."
    assert await asyncio.to_thread(lambda: asyncio.run(snippet())) == "The user plays the bassoon."
    await remember(here, "The user plays the oboe.")
    assert "oboe" in str(await snippet())
    await remember(other, "The user plays the viola.")
    here.rename(tmp_path / "old")
    other.rename(here)
    assert await snippet() == "The user plays the viola."
