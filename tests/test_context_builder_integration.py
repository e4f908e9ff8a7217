"""The context builder: it sees what was said before, in order, and leaves it alone. On every backend there is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from contextinfinity.compat.context import ContextBuilder, build_contextual_messages
from contextinfinity.rewriting import FollowUp, Rewritten
from contextinfinity.threads import THREADS, Turn, add_turn, get_history, get_thread
from contextinfinity_testing.threads import BACKENDS, unused, using
from tests.postgres import ON_POSTGRES, server_url

pytestmark = pytest.mark.req("CTX-12")

FIRST = [Turn("user", "Who is Donald Trump?"), Turn("assistant", "Donald Trump is an American politician.")]
QUESTION = "who are his children"
KEPT_IN = {"in_process": "object ", "ledger": "branch ", "postgresql": "branch ", "redis": "list "}


@pytest.fixture(params=[*BACKENDS, ON_POSTGRES], autouse=True)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    ledger_url = server_url() if request.param == "postgresql" else None
    with using("ledger" if ledger_url else request.param, tmp_path, ledger_url):
        yield request.param


@pytest.fixture
def thread_id() -> str:
    name = unused()
    for turn in FIRST:
        add_turn(name, turn)
    return name


def plain(turns: list[Turn]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


class Helpful:
    """Memories and a rewriter that note what they were given."""

    def __init__(self) -> None:
        self.asked: list[FollowUp] = []
        self.remembered: list[tuple[str, str | None, str | None]] = []

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        self.remembered.append((thread_id, user_id, org_id))
        return "Anna likes short answers."

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        self.asked.append(follow_up)
        return Rewritten(query="Who are Donald Trump's children?", entities=({"text": "Donald Trump"},))


class Broken:
    """Memories and a rewriter that fail, or never come to an end."""

    def __init__(self, *, hang: bool) -> None:
        self._hang = hang

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        await self._fail()

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        await self._fail()

    async def _fail(self) -> NoReturn:
        if self._hang:
            await asyncio.Event().wait()
        raise RuntimeError(QUESTION)


@pytest.mark.req("CTX-1", "CTX-4", "CTX-5", "CTX-6", "CTX-8", "CTX-9", "REWRITE-1", "REWRITE-3")
async def test_build_contextual_messages_sees_previous_turns(
    thread_id: str, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="contextinfinity.compat.context")
    result = await build_contextual_messages(thread_id=thread_id, latest_user_message=QUESTION)

    assert len(result.short_term_history) == 2
    assert result.short_term_history == plain(FIRST)
    assert "Who is Donald Trump?" in str(result.messages)
    assert "Donald Trump is an American politician." in str(result.messages)
    assert result.messages[0]["role"] == "system"
    *history, current = result.messages[1:]
    assert history == plain(FIRST)
    assert current["content"].startswith(f"{QUESTION}\n")
    assert current["content"].endswith("who are Donald Trump's children")
    assert (result.rewritten_query, result.memory_snippet) == ("who are Donald Trump's children", None)
    assert result.entities[0] == {"name": "Donald Trump", "kind": "person", "turn": 1}
    assert (result.is_ambiguous, result.disambiguation_data) == (False, None)

    for turn in (Turn("user", QUESTION), Turn("assistant", "Five: …")):
        add_turn(thread_id, turn)
    again = await build_contextual_messages(thread_id, "and the eldest?")
    *before, last = (message["content"] for message in again.messages[1:])
    assert before == [*(turn.content for turn in FIRST), QUESTION, "Five: …"]
    assert last.startswith("and the eldest?")
    first, second = (record.message for record in caplog.records)
    kept_in = first.partition("found, ")[2].partition(",")[0]
    assert kept_in.startswith(KEPT_IN[backend])
    assert first == f"thread {thread_id!r} found, {kept_in}, turns loaded 2"
    assert second == f"thread {thread_id!r} found, {kept_in}, turns loaded 4"


@pytest.mark.req("CTX-1", "CTX-2", "CTX-4", "CTX-5", "CTX-8", "CTX-11")
async def test_memories_and_rewriter_get_the_whole_context_and_add_to_it(thread_id: str) -> None:
    helpful = Helpful()
    builder = ContextBuilder(memories=helpful, rewriter=helpful, system="You know people.")
    before = get_thread(thread_id)
    result = await builder.build(thread_id, QUESTION, user_id="anna", org_id="acme")

    system, memory, *history, current = result.messages
    assert system == {"role": "system", "content": "You know people."}
    assert memory["role"] == "system"
    assert memory["content"].endswith("Anna likes short answers.")
    assert history == result.short_term_history == plain(FIRST)
    assert current["role"] == "user"
    assert current["content"].startswith(f"{QUESTION}\n")
    assert current["content"].endswith("Who are Donald Trump's children?")
    assert result.rewritten_query == "Who are Donald Trump's children?"
    assert (result.memory_snippet, result.entities) == ("Anna likes short answers.", [{"text": "Donald Trump"}])
    assert helpful.remembered == [(thread_id, "anna", "acme")]
    assert helpful.asked == [
        FollowUp(
            latest_user_message=QUESTION,
            recent_history=tuple(FIRST),
            memory_snippet="Anna likes short answers.",
            thread_id=thread_id,
            user_id="anna",
        )
    ]

    alone = await builder.build(thread_id, QUESTION, "anna", "acme", use_memory=False, use_query_rewriter=False)
    assert alone.messages == [system, *history, {"role": "user", "content": QUESTION}]
    assert (alone.rewritten_query, alone.memory_snippet, alone.entities) == (None, None, [])
    assert (len(helpful.remembered), len(helpful.asked)) == (1, 1)

    result.messages.clear()  # what was built is the caller's; the thread is as it was
    result.short_term_history.clear()
    assert get_history(thread_id) == FIRST
    assert get_thread(thread_id) is before


@pytest.mark.req("CTX-1", "CTX-7")
async def test_no_thread_no_memory_and_no_rewriter_stop_no_request(
    thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="contextinfinity")
    unknown = unused()
    result = await build_contextual_messages(unknown, QUESTION)
    assert [message["role"] for message in result.messages] == ["system", "user"]
    assert result.messages[-1]["content"] == QUESTION
    assert result.short_term_history == []
    assert get_thread(unknown) is None
    assert unknown not in THREADS
    assert [record.message for record in caplog.records] == [f"thread {unknown!r} not there yet, turns loaded 0"]

    for hang, reason in ((False, "RuntimeError"), (True, "TimeoutError")):
        caplog.clear()
        broken = Broken(hang=hang)
        builder = ContextBuilder(memories=broken, rewriter=broken, patience=0.01)
        result = await builder.build(thread_id, QUESTION)
        assert result.messages[1:] == plain([*FIRST, Turn("user", QUESTION)])
        assert (result.rewritten_query, result.memory_snippet, result.is_ambiguous) == (QUESTION, None, False)
        assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
            f"thread {thread_id!r}: memories were left out after {reason}",
            f"thread {thread_id!r}: the rewriter was left out after {reason}",
        ]
        assert QUESTION not in caplog.text
