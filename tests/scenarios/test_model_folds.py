"""The conversation's own model writes the summary: which one, within which limits, and what people are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contextinfinity.domain.events import CompactionCompleted, CompactionEvent
from contextinfinity.domain.message import say
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Exchange, Problem
from contextinfinity.engine.engine_setup import Setup, boundary_offline
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.spending import Spending
from contextinfinity.librarian.contract import Librarian
from contextinfinity.librarian.digest import parse
from contextinfinity.librarian.model_librarian import ModelLibrarian
from contextinfinity.librarian.model_prompts import FIELDS
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.redact import by_patterns
from contextinfinity.providers.auxiliary_model import AuxiliaryModel
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.settings import Settings, load_settings
from contextinfinity.wiring import setup_of
from tests.scenarios.desk import Desk
from tests.scenarios.test_folding import DECISION, SMALL, hear, until_folded


def notes(request: ProviderRequest) -> str:
    """Answer as a model would that keeps what it must, and has one line about everything."""
    document = msgspec.json.decode(request.prompt.messages[-1].rendered_text)
    fields = {kind: field for field, kind in FIELDS.items()}
    answer: dict[str, list[Any]] = {field: [] for field in (*FIELDS, "topics", "retired")}
    for note in document["must_keep"]:
        answer[fields[note["kind"]]].append({"text": note["text"], "turn": note["turn"]})
    turns = [one["turn"] for one in document["transcript"]]
    answer["topics"] = [{"first": 1, "last": max(turns), "text": "They said how the weather and the walk was."}]
    return msgspec.json.encode(answer).decode()


class Helper:
    """A scripted model that writes summaries, and what it was asked."""

    def __init__(self, reply: Callable[[ProviderRequest], ScriptedReply | str] = notes) -> None:
        self.asked: list[ProviderRequest] = []
        self.models: list[str] = []
        self._reply = reply

    def librarian_of(self, model: Model) -> Librarian:
        self.models.append(model.name)

        def script(request: ProviderRequest) -> ScriptedReply | str:
            self.asked.append(request)
            return self._reply(request)

        return ModelLibrarian(AuxiliaryModel(provider=ScriptedProvider(script), model_id=model.model_id))


def setup(helper: Helper, spending: Spending | None = None, **more: Any) -> Setup:
    def follow_model(setup: Setup, model: Model) -> Setup:
        return replace(setup, librarian=helper.librarian_of(model))

    return Setup(ceilings=SMALL, follow_model=follow_model, spending=spending, **more)


@pytest.mark.req("LIBRARIAN-6")
async def test_the_model_that_answered_the_newest_turn_writes_the_fold(tmp_path: Path) -> None:
    helper = Helper()
    async with Desk(tmp_path, setup=setup(helper)) as desk:
        await desk.ask(DECISION)
        head = await until_folded(desk)
        assert "how the weather and the walk was" in head.summary
        assert any("PostgreSQL 16" in each.text for each in parse(head.summary).of("decision"))
        assert set(helper.models) == {"m"}


@pytest.mark.req("LIBRARIAN-6")
async def test_turns_that_no_model_answered_are_folded_by_rule(tmp_path: Path) -> None:
    helper = Helper()
    async with Desk(tmp_path, setup=setup(helper, folds=False)) as desk:
        await desk.ask("Hello")
        await desk.settle()
        branch = await desk.branch()
        said = [
            Exchange(message=say("user", f"Walk {n} was long."), answer=say("assistant", "Yes. " * 20))
            for n in range(40)
        ]
        await desk.engine.store.turns.record(branch, said)
        seen = await desk.engine.preview_fold(desk.thread)
        assert seen is not None
        assert (seen.candidate.by, helper.asked) == ("offline", [])


def with_models(settings: Settings, name: str) -> Settings:
    """Name one model for every stage that a model may improve."""
    sections = {section: {"model": name} for section in ("librarian", "rewriter", "memory")}
    sections["compaction"] = {"detector_model": name}
    changed = {each: msgspec.structs.replace(getattr(settings, each), **keys) for each, keys in sections.items()}
    return msgspec.structs.replace(settings, **changed)


@pytest.mark.req("LIBRARIAN-6", "CONFIG-2")
def test_auto_is_the_model_that_answers_unless_it_is_the_built_in_one(tmp_path: Path) -> None:
    class Local(ScriptedProvider):
        name = "local"

    scripted = Model(name="m", provider=ScriptedProvider([]), model_id="m")
    models, local = Models(by_name={"m": scripted}, default="m"), Model(name="b", provider=Local([]), model_id="b")
    settings = load_settings(data_dir=tmp_path, environ={}).settings
    assert settings.librarian.model == "auto"
    default, every = (setup_of(each, models) for each in (settings, with_models(settings, "auto")))
    stages = ("librarian", "rewriting", "remembering", "find_boundary")
    for setup, following in ((default, ["librarian"]), (every, [*stages])):
        assert [
            each for each in stages if getattr(setup.following(scripted), each) != getattr(setup, each)
        ] == following
        assert isinstance(setup.following(scripted).librarian, ModelLibrarian)
        for other in (setup, setup.following(local), setup.following(None)):
            assert other.librarian is None
            assert other.find_boundary is boundary_offline
    offline = setup_of(with_models(settings, "offline"), models)
    assert offline.following(scripted) is offline


@pytest.mark.req("LIBRARIAN-6", "SAFE-1")
async def test_what_is_redacted_reaches_the_model_neither_in_turns_nor_pins_nor_the_summary(tmp_path: Path) -> None:
    helper = Helper()
    async with Desk(tmp_path, setup=setup(helper, redactor=by_patterns((r"sk-\w+",)))) as desk:
        await desk.ask("Our key is sk-abc123, we decided to use it for staging.")
        await desk.engine.pin(desk.thread, "The second key is sk-def456.")
        await until_folded(desk)
        await until_folded(desk)
        sent = "".join(request.prompt.messages[-1].rendered_text for request in helper.asked)
        assert len(helper.asked) >= 2
        assert "sk-" not in sent


@pytest.mark.req("LIBRARIAN-6")
async def test_a_rejected_account_means_rules_and_one_notice(tmp_path: Path) -> None:
    helper = Helper(lambda _: ScriptedReply(error=Problem(code="quota", message="")))
    events: list[CompactionEvent] = []
    async with Desk(tmp_path, setup=setup(helper, Spending(tmp_path / "librarian.json", 10**9))) as desk:
        following = asyncio.create_task(hear(desk, events))
        await desk.ask(DECISION)
        await until_folded(desk)
        head = await until_folded(desk)
        await asyncio.sleep(0)
        following.cancel()
    assert "PostgreSQL 16" in head.summary
    assert len(helper.asked) == 1
    notices = [event.notice for event in events if isinstance(event, CompactionCompleted) and event.notice]
    assert len(notices) == 1
    assert "quota" in notices[0]


@pytest.mark.req("LIBRARIAN-6")
async def test_the_first_fold_by_a_model_is_announced_once_for_a_data_folder(tmp_path: Path) -> None:
    notices = []
    for place in ("one", "two"):
        spending = Spending(tmp_path / "librarian.json", 10**9)
        async with Desk(tmp_path / place, setup=setup(Helper(), spending, folds=False)) as desk:
            await desk.ask(DECISION)
            for number in range(12):
                await desk.ask(f"{number}: The weather was fine and the walk was long. " * 6)
            await desk.settle()
            seen = await desk.engine.preview_fold(desk.thread)
            assert seen is not None
            notices.append(seen.notice)
    assert notices == [
        "Summaries are now written by m in the background; librarian.model = offline turns that off.",
        "",
    ]


@pytest.mark.req("LIBRARIAN-6")
async def test_above_the_daily_limit_summaries_are_made_by_rule(tmp_path: Path) -> None:
    helper = Helper()
    spending = Spending(tmp_path / "librarian.json", 500)
    async with Desk(tmp_path / "desk", setup=setup(helper, spending)) as desk:
        await desk.ask(DECISION)
        await until_folded(desk)
        asked = len(helper.asked)
        assert asked
        await until_folded(desk)
        assert len(helper.asked) == asked
    assert not Spending(tmp_path / "librarian.json", 500).allows(), "another process knows it, too"


@pytest.mark.req("LIBRARIAN-6")
async def test_what_folds_of_a_conversation_used_adds_up_and_outlives_an_undoing(tmp_path: Path) -> None:
    helper = Helper()
    async with Desk(tmp_path, setup=setup(helper, folds=False)) as desk:
        await desk.ask(DECISION)
        spent = []
        for _ in range(2):
            for number in range(12):
                await desk.ask(f"{number}: The weather was fine and the walk was long. " * 6)
            await desk.settle()
            seen = await desk.engine.preview_fold(desk.thread)
            assert seen is not None
            spent.append(seen.candidate.spent.input_tokens)
            await desk.engine.fold(desk.thread)
        assert 0 < spent[0] < spent[1]
        await desk.engine.unfold(desk.thread)
        seen = await desk.engine.preview_fold(desk.thread)
        assert seen is not None
        assert seen.candidate.spent.input_tokens > spent[1]


@pytest.mark.req("CTX-3", "LIBRARIAN-5", "LIBRARIAN-7")
async def test_facts_of_both_sides_are_still_told_by_the_summary_after_many_folds(tmp_path: Path) -> None:
    """By rule, in the default budget of a small window; the talk in between says nothing twice."""
    told = {
        "My daughter Ingrid starts school in Tromsø on 21 August.": "Tromsø",
        "The invoice number of the boiler is RX-4471.": "RX-4471",
        "We decided to paint the hallway in Farrow green.": "Farrow",
        "I am allergic to hazelnuts, so no pralines.": "hazelnuts",
    }
    answers = {"Noted.": "", "I found the leak: the valve behind the washing machine was cracked.": "valve"}
    limits = Ceilings(fold_trigger=1200, verbatim_window=200, summary=400)
    async with Desk(tmp_path, *[*answers] * 2, setup=Setup(ceilings=limits)) as desk:
        for words in told:
            await desk.ask(words)
        head = await until_folded(desk)
        for _ in range(2):
            head = await until_folded(desk, "And what do people usually do on such a day, would you say? " * 4)
        for words in [*told.values(), "valve"]:
            assert words in head.summary, head.summary
        covered = {turn for each in parse(head.summary).topics for turn in range(each.first, each.last + 1)}
        assert covered >= set(range(1, head.covers_turn_seq + 1))
