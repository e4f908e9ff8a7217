"""Conversations with the vendors: their wire, their moods, their rules."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from pathlib import Path

import pytest

from contextinfinity.domain.events import Delta, Retrying, TurnDone
from contextinfinity.domain.turn import Completed, Failed, Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.providers.contract import canonical
from contextinfinity.settings import Settings
from contextinfinity.settings.sections import Anthropic, OpenAI
from contextinfinity_testing.vendors import Answer, Cite, Delivery, FakeVendors, Tokens, Trouble
from tests.ledgers import ledger_url
from tests.scenarios.wires import KEYS, NAMES, engine_at, events_of

pytestmark = pytest.mark.parametrize("name", NAMES)


@pytest.mark.req("PROVIDER-1", "PROVIDER-2")
async def test_an_answer_is_streamed_kept_and_accounted_for(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(Answer(text="Ada was a mathematician.", usage=Tokens(input=2000, output=7, cached=1024)))
    events = await events_of(engine, "new", "Who was Ada?", name)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Ada was a mathematician."
    assert len([event for event in events if isinstance(event, Delta)]) > 1, "it is shown as it comes"
    done = events[-1]
    assert isinstance(done, TurnDone)
    assert (done.turn.outcome, done.turn.text) == ("completed", "Ada was a mathematician.")
    assert (done.turn.usage.input_tokens, done.turn.usage.output_tokens) == (2000, 7)
    assert done.turn.usage.cached_tokens == 1024
    (step,) = await engine.store.turns.steps(done.turn.turn_id)
    assert step.outcome == Completed()
    assert step.response is not None
    assert "mathematician" in json.dumps(json.loads(step.response)), "the raw reply is kept"
    (request,) = vendors.requests
    assert step.plan.request_sha256 == hashlib.sha256(canonical(request.body)).hexdigest(), "what was sent is known"


@pytest.mark.req("PROVIDER-7")
async def test_every_request_is_complete_in_itself(name: str, engine: Engine, vendors: FakeVendors) -> None:
    first = await engine.ask("new", "The code word for lake is heron.", model=name)
    told = await engine.ask(first.thread_id, "What is the code word for lake?", model=name)
    assert "heron" in told.text, "the second request shows what the first said"
    body = vendors.requests[-1].body
    assert not {"previous_response_id", "conversation", "container", "prompt"} & body.keys()


@pytest.mark.req("PROVIDER-4", "PROVIDER-5", "PROVIDER-8", "BUDGET-2")
async def test_what_is_asked_of_a_vendor_is_explicit(name: str, engine: Engine, vendors: FakeVendors) -> None:
    await engine.ask("new", "Hello.", model=name)
    body = vendors.requests[-1].body
    assert "tools" not in body, "no tool of anybody's is asked for"
    if name == "openai":
        asked = {key: body[key] for key in ("truncation", "store", "max_output_tokens", "stream")}
        assert asked == {"truncation": "disabled", "store": False, "max_output_tokens": 25_000, "stream": True}
    elif name == "gemini":
        assert body["generationConfig"] == {"maxOutputTokens": 25_000}
        assert vendors.requests[-1].path.endswith("/models/gemini-3-flash-preview:streamGenerateContent?alt=sse")
    else:
        bounds = {"anthropic": 25_000, "openai_chat": 2048, "perplexity": 4000}  # it thinks; its window is small
        assert body["max_tokens"] == bounds[name]


@pytest.mark.req("PROVIDER-4", "PROVIDER-5")
async def test_settings_reach_the_wire(name: str, vendors: FakeVendors, tmp_path: Path) -> None:
    settings = Settings(
        openai=OpenAI(truncation="auto", store=True, parallel_tool_calls=True),
        anthropic=Anthropic(disable_parallel_tool_use=False),
    )
    async with engine_at(vendors, tmp_path, settings, options={"temperature": 0.5}) as engine:
        await engine.ask("new", "Hello.", model=name)
    body = vendors.requests[-1].body
    assert body.get("generationConfig", body)["temperature"] == 0.5, "options are passed on"
    if name == "openai":
        assert (body["truncation"], body["store"]) == ("auto", True)


async def test_an_overloaded_vendor_is_asked_again_and_people_see_it(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    vendors.say(Trouble.overloaded(), Trouble.status(500), "At last.")
    events = await events_of(engine, "new", "Are you there?", name)
    retries = [event for event in events if isinstance(event, Retrying)]
    assert [retry.attempt for retry in retries] == [1, 2]
    assert all(name in retry.reason for retry in retries)
    assert isinstance(events[-1], TurnDone)
    assert (events[-1].turn.outcome, events[-1].turn.text) == ("completed", "At last.")
    assert len(vendors.requests) == 3


async def test_a_vendor_that_stays_away_is_given_up(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(*[Trouble.drop()] * 3)
    turn = await engine.ask("new", "Are you there?", model=name)
    assert turn.error is not None
    assert (turn.phase, turn.outcome, turn.error.code) == (Phase.FAILED, "failed", "connection")
    assert name in turn.error.message
    assert "3 times" in turn.error.message
    assert turn.error.hint


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (Trouble.bad_key(), "authentication"),
        (Trouble.insufficient_quota(), "quota"),
        (Trouble.status(400), "bad_request"),
        (Trouble.status(404), "not_found"),
        (Trouble.garbage(), "garbled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_mended_by_asking_again_is_told_at_once(
    name: str, engine: Engine, vendors: FakeVendors, trouble: Trouble, code: str
) -> None:
    vendors.say(trouble)
    turn = await engine.ask("new", "Hello?", model=name)
    assert turn.error is not None
    assert (turn.outcome, turn.error.code) == ("failed", code)
    assert name in turn.error.message
    assert "\n" not in turn.error.message
    assert turn.error.hint
    assert len(vendors.requests) == 1
    assert (await engine.ask(turn.thread_id, "Again?", model=name)).outcome == "completed", "the next turn works"


async def test_an_answer_that_is_cut_off_keeps_what_was_shown(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(Answer(pieces=("One ", "two ", "three."), delivery=Delivery(cut_after_pieces=2)))
    turn = await engine.ask("new", "Count.", model=name)
    assert turn.error is not None
    assert (turn.phase, turn.outcome, turn.text) == (Phase.FAILED, "incomplete", "One two ")
    assert len(vendors.requests) == 1, "what was shown is not said again"
    vendors.say("Four.")
    await engine.ask(turn.thread_id, "Go on.", model=name)
    assert "[cut off here]" in json.dumps(vendors.requests[-1].body)


@pytest.mark.req("PROVIDER-2")
@pytest.mark.parametrize("delivery", [Delivery(slow=True), Delivery(split=True), Delivery(unknown=True)])
async def test_bytes_may_come_in_any_way(name: str, engine: Engine, vendors: FakeVendors, delivery: Delivery) -> None:
    vendors.say(Answer(text="Ça va très bien, 漢字 😀 and all.", delivery=delivery))
    turn = await engine.ask("new", "Ça va ?", model=name)
    assert (turn.outcome, turn.text) == ("completed", "Ça va très bien, 漢字 😀 and all.")


async def test_an_error_in_the_middle_of_a_stream_ends_it(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(Answer(pieces=("Half ", "an answer"), delivery=Delivery(error=Trouble.overloaded(), error_after=1)))
    turn = await engine.ask("new", "Talk.", model=name)
    assert turn.error is not None
    assert (turn.outcome, turn.text) == ("incomplete", "Half ")
    assert turn.error.code in ("overloaded", "server")


async def test_a_person_stops_an_answer_at_once(name: str, engine: Engine, vendors: FakeVendors) -> None:
    never = asyncio.Event()
    vendors.say(Answer(pieces=("One ", "two"), delivery=Delivery(gate=never, hold_after=1)))
    turn_id = ""
    async with asyncio.timeout(100):
        async for event in engine.send("new", "Count.", model=name):
            turn_id = getattr(event, "turn_id", turn_id)
            if isinstance(event, Delta):
                stopped = await engine.cancel(turn_id)
                assert (stopped.outcome, stopped.text) == ("cancelled", "One ")


@pytest.mark.parametrize(("stop", "reason"), [("length", "length"), ("filter", "filter")])
async def test_why_an_answer_is_not_whole_is_told(
    name: str, engine: Engine, vendors: FakeVendors, stop: str, reason: str
) -> None:
    vendors.say(Answer(text="Once upon a", stop=stop))
    turn = await engine.ask("new", "Tell me a story.", model=name)
    (step,) = await engine.store.turns.steps(turn.turn_id)
    assert (turn.outcome, turn.text) == ("incomplete", "Once upon a")
    assert getattr(step.outcome, "reason", None) == reason


async def test_a_refusal_is_kept_as_it_was_said(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(Answer(refusal="I would rather not."))
    turn = await engine.ask("new", "Do something bad.", model=name)
    if name == "anthropic":  # says it with a stop reason, and why beside it
        (step,) = await engine.store.turns.steps(turn.turn_id)
        assert (turn.outcome, getattr(step.outcome, "reason", None)) == ("incomplete", "filter")
        assert "I would rather not." in repr(step.items)
    else:
        assert (turn.outcome, turn.text) == ("completed", "I would rather not.")


@pytest.mark.req("BUDGET-2")
async def test_a_prompt_that_is_too_large_is_sent_again_with_less(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    thread = (await engine.ask("new", "Hello.", model=name)).thread_id
    for number in range(6):
        await engine.ask(thread, f"Number {number} " + "word " * 300, model=name)
    vendors.limit = 1200
    before = len(vendors.requests)
    events = await events_of(engine, thread, "And now?", name)
    sizes = [len(request.raw) for request in vendors.requests[before:]]
    assert isinstance(events[-1], TurnDone)
    assert events[-1].turn.outcome == "completed"
    assert 2 <= len(sizes) <= 4
    assert sizes == sorted(sizes, reverse=True), "each is smaller than the last"
    assert len({*sizes}) == len(sizes)
    assert any(isinstance(event, Retrying) and "too large" in event.reason for event in events)
    steps = await engine.store.turns.steps(events[-1].turn.turn_id)
    assert [isinstance(step.outcome, Failed) for step in steps] == [True] * (len(sizes) - 1) + [False]


@pytest.mark.req("BUDGET-2")
async def test_a_message_that_is_too_large_by_itself_is_refused_in_words(
    name: str, engine: Engine, vendors: FakeVendors
) -> None:
    vendors.limit = 500
    turn = await engine.ask("new", "word " * 3000, model=name)
    assert turn.error is not None
    assert (turn.outcome, turn.error.code) == ("failed", "size")
    vendors.limit = None
    assert (await engine.ask(turn.thread_id, "Shorter then.", model=name)).outcome == "completed"
    assert len(vendors.requests[-1].raw) < 5000, "only its beginning is shown later"


async def test_citations_stay_with_the_text(name: str, engine: Engine, vendors: FakeVendors) -> None:
    vendors.say(Answer(text="It rains.", citations=(Cite(url="https://example.org/rain", title="Rain"),)))
    turn = await engine.ask("new", "Weather?", model=name)
    kept = await engine.store.turns.get(turn.turn_id)
    assert kept is not None
    assert kept.answer is not None
    if name in ("openai", "perplexity", "gemini"):
        assert "https://example.org/rain" in repr(kept.answer.blocks)


@pytest.mark.req("SAFE-1")
async def test_keys_are_nowhere(
    name: str, vendors: FakeVendors, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    async with engine_at(vendors, tmp_path / "data") as engine:
        vendors.say(
            Trouble.bad_key(echo_key=True),
            "Fine.",
            Answer(pieces=("a", "b"), delivery=Delivery(error=Trouble.bad_key(echo_key=True), error_after=1)),
        )
        for _ in range(3):
            said += [repr(event) for event in await events_of(engine, "new", "Hello?", name)]
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert ledger_url(tmp_path / "data" / "ledger.db") or any(path.name == "ledger.db" for path in files)
    secrets = [key for key in KEYS.values() if any(key in json.dumps(dict(r.headers)) for r in vendors.requests)]
    assert secrets or name == "openai_chat", "the key was sent"
    for key in KEYS.values():
        assert not [path for path in files if key.encode() in path.read_bytes()]
        assert key not in caplog.text
        assert key not in "".join(said)


@pytest.mark.req("SAFE-1")
async def test_a_missing_key_is_told_by_its_variable(
    name: str, engine: Engine, vendors: FakeVendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable)
    turn = await engine.ask("new", "Hello?", model=name)
    if name == "openai_chat":
        assert turn.outcome == "completed", "a server of one's own needs no key"
        return
    assert turn.error is not None
    assert turn.error.code == "authentication"
    assert f"{name.upper()}_API_KEY" in turn.error.message
    assert not vendors.requests
