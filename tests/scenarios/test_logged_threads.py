"""A conversation that an application has logged goes on with the engine, at any vendor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from contextinfinity.domain.message import Json
from contextinfinity.engine.engine import Engine
from contextinfinity.threads import Turn, add_turn, get_history
from contextinfinity_testing.stores.logs import every_run_of_three
from contextinfinity_testing.threads import using
from contextinfinity_testing.vendors import FakeVendors
from tests.ledgers import ledger_url
from tests.scenarios.wires import KEYS, NAMES

pytestmark = [pytest.mark.req("THREAD-13"), pytest.mark.parametrize("name", NAMES)]

THREAD = "support-42"
Said = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Keep the threads in the engine's ledger."""
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    with using("ledger", tmp_path, ledger_url(tmp_path / "ledger.db")):
        yield


async def logged(*said: tuple[str, str]) -> list[Turn]:
    """Log turns, as an application on another OS thread does."""
    turns = [Turn(role, content) for role, content in said]
    for turn in turns:
        await asyncio.to_thread(add_turn, THREAD, turn)
    return turns


async def answered(engine: Engine, text: str, name: str) -> str:
    turn = await engine.ask(THREAD, text, model=name)
    assert turn.error is None, turn.error
    assert turn.outcome == "completed"
    return turn.turn_id


def heard(body: Json) -> Said:
    """Read what was sent to a vendor, without what the system says, on any of the wires."""
    messages = next(body[name] for name in ("input", "messages", "contents") if name in body)
    return [
        ("assistant" if message["role"] == "model" else message["role"], text)
        for message in messages
        if message["role"] not in ("system", "developer")
        for text in texts(message.get("content", message.get("parts")))
    ]


def texts(content: Json) -> list[str]:
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def joined(said: Said) -> Said:
    """Put together what one side says in a row, as some wires do."""
    return [(role, "\n\n".join(text for _, text in messages)) for role, messages in groupby(said, lambda each: each[0])]


async def test_what_was_logged_is_seen_as_questions_with_their_answers(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    said = [
        ("user", "Who is Ada?"),
        ("assistant", "A mathematician."),
        ("user", "And Bob?"),
        ("assistant", "A fisher."),
    ]
    turns = await logged(*said)
    vendors.say("They never met.")
    turn = await engine.store.turns.get(await answered(engine, "Did they meet?", name))
    assert turn is not None
    assert turn.turn_seq == 3, "a question and its answer are one turn"
    assert heard(vendors.requests[-1].body) == [*said, ("user", "Did they meet?")]
    history = await asyncio.to_thread(get_history, THREAD)
    assert history == [*turns, Turn("user", "Did they meet?"), Turn("assistant", "They never met.")]


async def test_a_question_that_was_left_open_is_marked_and_stays_so(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    await logged(("user", "Is anybody there?"))
    seen = [("user", "Is anybody there?"), ("assistant", "[no answer]")]
    vendors.say("Now I am.", "Yes.")
    first = await answered(engine, "Hello?", name)
    assert heard(vendors.requests[-1].body) == [*seen, ("user", "Hello?")]
    await logged(("assistant", "We were at lunch."), ("user", "Really?"), ("assistant", "Really."))
    second = await answered(engine, "Are you back?", name)
    told = [*seen, ("user", "Hello?"), ("assistant", "Now I am."), ("assistant", "We were at lunch.")]
    told += [("user", "Really?"), ("assistant", "Really."), ("user", "Are you back?")]
    assert joined(heard(vendors.requests[-1].body)) == joined(told)
    for turn_id in (first, second):
        assert (await engine.explain(turn_id)).matches, "what was sent can be written again, whatever was logged since"


async def test_all_roles_in_any_order_are_taken_by_every_vendor(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    said = [(role, f"said {place} by the {role}.") for place, role in enumerate(every_run_of_three())]
    turns = await logged(*said)
    vendors.say("I have read it.")
    await answered(engine, "Have you read it?", name)
    body = str(vendors.requests[-1].body)
    places = [body.index(text) for _, text in said]
    assert places == sorted(places)
    assert (await asyncio.to_thread(get_history, THREAD, 1000))[: len(turns)] == turns


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool"])
async def test_a_log_may_end_with_anybody_and_say_nothing(
    name: str, role: str, engine: Engine, vendors: FakeVendors
) -> None:
    for content in ("", "one word", " "):
        await logged((role, content))
        await answered(engine, f"After {content!r}?", name)
    assert "one word" in str(vendors.requests[-1].body)
