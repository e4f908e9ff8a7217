"""Every request that was ever sent can be written again, to the byte, and held against its hash."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.events import Delta
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock, blob_source
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.sent_form import CHAT, MESSAGES
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Turn
from contextinfinity.domain.wire import dumps
from contextinfinity.engine.artifacts import attachments
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import AuxiliaryModels, Rewriting, Setup
from contextinfinity.engine.explain import Explained
from contextinfinity.engine.running_turn import Terms
from contextinfinity.errors import NotFound
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.prompt.redact import by_patterns
from contextinfinity.providers.contract import canonical
from contextinfinity.rewriting import FollowUp, Rewritten
from contextinfinity.settings import Settings
from contextinfinity.settings.sections import Anthropic, General, OpenAI
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity.wiring import open_engine
from contextinfinity_testing.builders import exchange, slice_of
from contextinfinity_testing.vendors import Answer, Call, Delivery, FakeVendors, Trouble
from tests.scenarios.chatter import Chatter
from tests.scenarios.desk import Desk
from tests.scenarios.wires import NAMES, engine_at, model_settings
from tests.unit.prompt.material import artifact

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
CARD = "4111-1111-1111"


def look(z: str, at: list[Any], deep: dict[str, Any]) -> str:
    """Look at something."""
    return f"I see {z} at {at}, and the card {CARD}. " * 120


def toolbox(mode: Any) -> Toolbox:
    box = Toolbox(mode=mode, allow_parallel=True)
    box.add(look)
    return box


def looks(thinking: str | None = "Let me think.", *, times: int = 1) -> Answer:
    arguments = {"z": f"the sky and {CARD}", "at": [1.0, -2.5, None], "deep": {"b": 1, "a": "Zoë"}}
    return Answer(text="Looking.", reasoning=thinking, tool_calls=(Call(name="look", arguments=arguments),) * times)


class House:
    """An engine at all vendors, with everything turned on that changes a prompt."""

    def __init__(self, vendors: FakeVendors, folder: Path, *, mode: str = "enabled", **more: Any) -> None:
        self.vendors = vendors
        self.pieces: tuple[Artifact, ...] = ()
        there = engine_at(vendors, folder, **more)
        setup = Setup(
            tools=toolbox(mode),
            helpers=AuxiliaryModels(memories=self.memories, retrieve=self.retrieve),
            rewriting=Rewriting(rewrite=self.rewrite),
            ceilings=Ceilings(fold_trigger=1200, verbatim_window=200),
            redactor=by_patterns([r"\d{4}-\d{4}-\d{4}"]),
            fold_pause=timedelta(),
        )
        self.engine = Engine(there.store, JournalFolder(folder / "streams"), there.models, setup)
        self.thread = "new"
        self.turns: list[TurnId] = []

    async def memories(self, turn: Turn) -> str:
        return f"The user has the card {CARD} and spoke {turn.turn_seq} times."

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        words = follow_up.latest_user_message
        return Rewritten(query=f"{words} (made explicit)" if len(words) % 2 else words)

    async def retrieve(self, turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        return self.pieces

    async def ask(self, content: Any, model: str, **how: Any) -> TurnId:
        """Say something and see it answered, whatever comes of it."""
        turn = await self.engine.ask(self.thread, content, model=model, **how)
        self.thread = turn.thread_id
        self.turns.append(turn.turn_id)
        self.vendors.script.clear()
        await self.settle()
        return turn.turn_id

    async def settle(self) -> None:
        assert await self.engine.job_runner.drain(100, folds=True)

    async def remember(self, turn_id: TurnId, words: str) -> str:
        """Index a piece of what was said, and find it from now on; gives its id."""
        turn = await self.engine.store.turns.get(turn_id)
        assert turn is not None
        text = turn.user_message.rendered_text
        chunks = await self.engine.store.chunks.index(turn_id, [slice_of(text, words)])
        chunk = next(chunk for chunk in chunks if chunk.rendered_text == words)
        (piece,) = await attachments(self.engine.store, turn.session_id, [chunk.id], None)
        self.pieces = (*self.pieces, replace(piece, score=1 - len(self.pieces) / 10))
        return chunk.id


async def live(house: House, models: Iterator[str]) -> None:
    """Have a conversation in which everything happens that changes a request."""
    vendors, engine = house.vendors, house.engine
    vendors.say(
        "The card is noted. We agreed that the hall is painted in a pale blue, and the door in a dark green. " * 3
    )
    first = await house.ask(f"Hello, the card is {CARD}. " * 5, next(models))
    vendors.say(looks(times=2), looks(None), f"It is blue, says {CARD}.")
    seen = await house.ask("Look at the sky.", next(models))
    await house.remember(first, "Hello")
    picture = ImageBlock(
        media_type="image/png", source=blob_source(await engine.store.contents.keep_blob(PICTURE, "image/png"))
    )
    await house.ask((TextBlock(text="What is this?"), picture), next(models))
    await engine.pin(house.thread, f"The card is {CARD}.")
    await house.ask("Remember it. " * 40, next(models))
    await house.remember(seen, "sky")
    vendors.say(Trouble.size(), Trouble.size(), "That fits.")
    await house.ask("Say it all again.", next(models))
    vendors.say(looks(), Trouble.size(), looks(None), "Done.")
    attached = await house.ask("And look once more.", next(models), attach=(house.pieces[0].chunk_id,))
    assert (await engine.context(attached)).retrieved[0].chunk_id == house.pieces[0].chunk_id
    vendors.say(Trouble.bad_key())
    failed = await house.ask("Is there anybody?", next(models))
    await house.ask("Is there anybody?", next(models), retry_of=failed)
    vendors.say(Answer(pieces=("One ", "two ", "three"), delivery=Delivery(cut_after_pieces=2)))
    await house.ask("Count.", next(models))
    await stopped(house, next(models))
    branch = await engine.fork(house.thread, at=2)
    for question in ("Go back to the sky.", "And then?"):
        await house.ask(question, next(models), branch_id=branch.id)
    await engine.rollback(house.thread, to=4)
    await house.ask("Once more from the fourth.", next(models), use_memory=False)


async def stopped(house: House, model: str) -> None:
    """Say something and stop the answer."""
    never = asyncio.Event()
    house.vendors.say(Answer(pieces=("One ", "two ", "three"), delivery=Delivery(gate=never, hold_after=1)))
    async for event in house.engine.send(house.thread, "Count again.", model=model):
        turn_id = getattr(event, "turn_id", None)
        if turn_id is not None:
            house.turns.append(turn_id)
        if isinstance(event, Delta):
            await house.engine.cancel(house.turns[-1])
    await house.settle()


async def every_request(engine: Engine, turns: list[TurnId]) -> list[Explained]:
    """Write every request of some turns again."""
    found = []
    for turn_id in turns:
        for step in await engine.store.turns.steps(turn_id):
            found.append(await engine.explain(turn_id, step_index=step.step_index))
    return found


def hashed(body: Any) -> str:
    return hashlib.sha256(canonical(body)).hexdigest()


@pytest.mark.req("CTX-10", "PROVIDER-2")
@pytest.mark.parametrize("models", [*((name,) for name in NAMES), NAMES], ids="-".join)
async def test_every_request_of_a_conversation_is_written_again(
    models: tuple[str, ...], vendors: FakeVendors, tmp_path: Path
) -> None:
    house = House(vendors, tmp_path)
    async with house.engine:
        await live(house, cycle(models))
        told = await every_request(house.engine, house.turns)
    sent = {hashed(request.body) for request in vendors.requests}
    assert len(told) >= 20
    for each in told:
        where = f"request {each.step_index} of turn {house.turns.index(each.turn_id) + 1} to {each.provider}"
        assert each.matches, where
        assert (each.removed, hashed(each.body)) == ((), each.plan.request_sha256)
        assert each.plan.request_sha256 in sent, "and that is what the vendor got"
        assert len(dumps(each.plan)) <= 2048
        assert CARD not in str(each.body)
    assert {"first", "fold", "shrunk"} <= {each.plan.epoch_reason for each in told}

    later = engine_at(vendors, tmp_path, OTHER_SETTINGS, context_limit=9999, images=False)
    async with later:
        again = await every_request(later, house.turns)
    assert again == told, "also after the settings, the tools and what was known of the models have changed"


OTHER_SETTINGS = Settings(
    openai=OpenAI(store=True, parallel_tool_calls=True), anthropic=Anthropic(disable_parallel_tool_use=True)
)


@pytest.mark.req("CTX-10")
@pytest.mark.parametrize("name", NAMES)
async def test_results_that_a_caller_brings_are_written_again_too(
    name: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    house = House(vendors, tmp_path, mode="parse_only")
    async with house.engine as engine:
        vendors.say(looks())
        paused = await house.ask("Look at the sky.", name)
        kept = await engine.store.turns.get(paused)
        assert kept is not None
        assert kept.answer is not None
        results = tuple(
            ToolResultBlock(tool_use_id=block.tool_use_id, content=(TextBlock(text=f"Blue, {CARD}."),))
            for block in kept.answer.blocks
            if isinstance(block, ToolUseBlock)
        )
        await house.ask(results or "Blue.", name)
        vendors.say(looks())
        await house.ask("And again.", name)
        await house.ask("Never mind.", name)
        assert all(each.matches for each in await every_request(engine, house.turns))


@pytest.mark.req("TURN-12", "PROVIDER-3", "CTX-10")
@pytest.mark.parametrize("name", NAMES)
async def test_results_too_large_to_be_sent_are_sent_in_part(name: str, vendors: FakeVendors, tmp_path: Path) -> None:
    house = House(vendors, tmp_path, mode="parse_only", context_limit=8000)
    async with house.engine as engine:
        vendors.say(looks())
        kept = await engine.store.turns.get(await house.ask("Look at the sky.", name))
        assert kept is not None
        assert kept.answer is not None
        calls = [block.tool_use_id for block in kept.answer.blocks if isinstance(block, ToolUseBlock)]
        huge = (TextBlock(text="blue " * 10_000),)
        await house.ask(tuple(ToolResultBlock(tool_use_id=call, content=huge) for call in calls) or huge, name)
        answered = await engine.store.turns.get(house.turns[-1])
        assert answered is not None
        assert (answered.outcome, answered.error) == ("completed", None)
        told = await engine.explain(answered.id)
        assert told.matches
        blocks = [block for message in told.messages for block in message.blocks]
        assert [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)] == calls
        assert "characters left out" in str(told.body), "it is said that something is missing"


# --- what is reported ---


@pytest.mark.req("CTX-10")
async def test_a_request_is_told_part_by_part(tmp_path: Path) -> None:
    async with Desk(tmp_path, "A mathematician.") as desk:
        await desk.ask("Who is Ada?")
        turn_id = await desk.ask("Where did she live?")
        told = await desk.engine.explain(turn_id)
        assert told.matches
        assert (told.thread_id, told.branch_id, told.turn_id) == (desk.thread, await desk.branch(), turn_id)
        assert (told.provider, told.model, told.step_index) == ("scripted", "m", 0)
        assert (told.system, told.messages) == (desk.prompts[-1].system, desk.prompts[-1].messages)
        assert [section.name for section in told.plan.sections] == ["system", "turns", "message"]
        assert all(section.tokens > 0 for section in told.plan.sections)
        assert told.plan == await desk.engine.context(turn_id)


@pytest.mark.req("CTX-10", "FILES-5")
async def test_requests_are_compared(tmp_path: Path) -> None:
    async with Desk(tmp_path, "A mathematician. " * 50) as desk:
        first = await desk.ask("Who is Ada? " * 20)
        second = await desk.ask("Where?")
        other = await desk.engine.ask("new", "Something else.")
        alone = await desk.engine.explain(first)
        assert (alone.shared_bytes, alone.total_bytes > 0) == (0, True), "there was none before it"
        after = await desk.engine.explain(second)
        assert alone.total_bytes == after.shared_bytes < after.total_bytes
        apart = await desk.engine.explain(second, compare=other.turn_id)
        assert 0 < apart.shared_bytes < alone.total_bytes, "the system text, no more"
        same = await desk.engine.explain(second, compare=second)
        assert same.shared_bytes == same.total_bytes


@pytest.mark.req("FILES-5")
@pytest.mark.parametrize("name", NAMES)
async def test_a_long_session_repeats_nine_tenths_of_what_it_sends(
    name: str, vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine_at(vendors, tmp_path, context_limit=200_000) as engine:
        session = await engine.store.sessions.create(NewSession())
        said = [exchange(f"Question {number}? " * 20, f"Answer {number}. " * 40) for number in range(30)]
        await engine.store.turns.record(session.active_branch, said)
        await engine.ask(session.id, "Where are we?", model=name)
        for number in range(4):
            vendors.say(f"Answer {number}. " * 40)
            turn = await engine.ask(session.id, f"Question {number}? " * 20, model=name)
            told = await engine.explain(turn.turn_id)
            assert told.plan.epoch_reason is None
            assert told.shared_bytes / told.total_bytes > 0.9


@pytest.mark.req("CTX-10")
async def test_what_is_gone_since_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    gone = artifact(7, "This was said somewhere that was forgotten.")

    async def retrieve(turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        return (gone,)

    async with Desk(tmp_path, setup=Setup(helpers=AuxiliaryModels(retrieve=retrieve))) as desk:
        turn_id = await desk.ask("Who is Ada?")
        told = await desk.engine.explain(turn_id)
        assert told.removed == (f"artifact {gone.chunk_id}",)
        assert not told.matches
        assert told.messages[-1].rendered_text == "Who is Ada?"


@pytest.mark.req("CTX-10")
async def test_what_there_is_no_request_of_is_said_in_words(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        turn_id = await desk.ask("Who is Ada?")
        await desk.settle()
        (recorded,) = await desk.engine.store.turns.record(await desk.branch(), [exchange("Who?", "Ada.")])
        with pytest.raises(NotFound, match="No model was asked"):
            await desk.engine.explain(recorded.id)
        with pytest.raises(NotFound, match="has no request 3; it has 1"):
            await desk.engine.explain(turn_id, step_index=3)
        with pytest.raises(NotFound, match="There is no turn"):
            await desk.engine.explain("0192f0c1-2345-7abc-8def-000000000000")


@pytest.mark.req("SAFE-1", "API-12", "CTX-10")
async def test_the_answer_that_a_client_predicts_leaves_without_its_secrets(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    predicted = {"type": "content", "content": [{"type": "text", "text": "KEY = 'sk-12345'"}]}
    params = {"params": {"prediction": predicted, "seed": 7}, "headers": {}}
    terms = Terms(form=CHAT, sent={"form": CHAT}, params=params)
    async with open_engine(_redacting(vendors, tmp_path)) as engine:
        desk: Any = SimpleNamespace(engine=engine)
        turn = await Chatter(desk).send("Rename KEY to TOKEN.", terms=terms)
        assert (await engine.explain(turn.id)).matches
    (request,) = vendors.requests
    shown = {"type": "content", "content": [{"type": "text", "text": "KEY = '[redacted]'"}]}
    assert (request.body["prediction"], request.body["seed"]) == (shown, 7)


KEY = "sk-12345"


@pytest.mark.req("SAFE-1", "API-12", "CTX-10")
async def test_no_parameter_of_a_client_leaves_with_a_secret(vendors: FakeVendors, tmp_path: Path) -> None:
    """Identifiers stay different from each other, and the same from request to request."""
    params = {
        "stop": [f"end of {KEY}"],
        "metadata": {"owner": KEY},
        "user": KEY,
        "safety_identifier": f"{KEY}6",
        "prompt_cache_key": "team-a",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"description": KEY}}},
    }
    terms = Terms(form=CHAT, sent={"form": CHAT}, params={"params": params, "headers": {}})
    async with open_engine(_redacting(vendors, tmp_path)) as engine:
        desk: Any = SimpleNamespace(engine=engine)
        for text in ("Rename it.", "Rename it again."):
            turn = await Chatter(desk).send(text, terms=terms)
            assert (await engine.explain(turn.id)).matches
    first, second = (request.body for request in vendors.requests)
    assert KEY not in json.dumps([first, second])
    assert (first["stop"], first["metadata"]) == (["end of [redacted]"], {"owner": "[redacted]"})
    assert first["prompt_cache_key"] == "team-a"
    assert first["user"] == second["user"]
    assert first["user"] != first["safety_identifier"], "two identifiers do not become one"
    assert all(re.fullmatch("[0-9a-f]{64}", first[name]) for name in ("user", "safety_identifier"))


@pytest.mark.req("SAFE-1", "API-12", "CTX-10")
async def test_options_and_schemas_leave_another_wire_without_secrets(vendors: FakeVendors, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "title": KEY, "description": KEY, "enum": [KEY, "b"]}},
        "required": ["name"],
    }
    terms = Terms(
        form=MESSAGES,
        tools=(ToolSpec(name="find", description=f"Finds {KEY}.", parameters=schema),),
        response_format=schema,
        request_options=RequestOptions(stop=(f"end of {KEY}",)),
    )
    async with open_engine(_redacting(vendors, tmp_path)) as engine:
        desk: Any = SimpleNamespace(engine=engine)
        turn = await Chatter(desk).send("Find it.", terms=terms)
        assert (await engine.explain(turn.id)).matches
    (request,) = vendors.requests
    assert KEY not in json.dumps(request.body)
    shown = request.body["tools"][0]["function"]
    assert (shown["name"], shown["description"]) == ("find", "Finds [redacted].")
    assert shown["parameters"]["required"] == ["name"]
    assert shown["parameters"]["properties"]["name"]["enum"] == ["[redacted]", "b"]


def _redacting(vendors: FakeVendors, folder: Path) -> Settings:
    return Settings(
        general=General(data_dir=str(folder), default_model="open", redact_patterns=(r"sk-\w+",)),
        models={"open": model_settings(vendors, "openai_chat")},
    )
