"""What the model sees: all of the past in order, within its window, and the same beginning each time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.plan import Plan
from contextinfinity.domain.prompt import Abilities, Prompt
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.engine.engine_setup import AuxiliaryModels, Rewriting, Setup
from contextinfinity.errors import Refused
from contextinfinity.prompt.layout import CONTEXTUALISED, SUMMARY
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.providers.scripted import ABILITIES, ScriptedReply
from contextinfinity.rewriting import FollowUp, Rewritten
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.settings.sections import General
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.upkeep.examine import examine
from contextinfinity.wiring import open_engine
from contextinfinity_testing.builders import exchange
from tests.ledgers import ledger_url
from tests.scenarios.desk import Desk
from tests.scenarios.test_folding import Watching
from tests.sizes import sized
from tests.unit.prompt.material import artifact

SMALL = replace(ABILITIES, context_limit=2048)
ASKED = re.compile(r"(?:^|\n)(?:#\d+ )?Question (\d+),")
"""A question, said or told in a line."""
TOO_LARGE = ScriptedReply(error=Problem(code="size", message="Too long for this model."))


def rows(path: Path) -> list[tuple[object, ...]]:
    """Everything that was ever said, as it is on the disk."""
    ledger = connect(str(path), read_only=True)
    try:
        return [row for table in ("turns", "messages", "states") for row in ledger.execute(f"SELECT * FROM {table}")]
    finally:
        ledger.close()


# --- the past ---


@pytest.mark.sqlite_file("it reads the file")
@pytest.mark.req("CTX-1", "CTX-8")
async def test_history_is_read_before_the_message_is_touched_and_nothing_is_written(tmp_path: Path) -> None:
    seen: list[tuple[list[str], str, list[tuple[object, ...]]]] = []

    async def look(turn: Turn) -> None:
        seen.append(([], turn.user_message.rendered_text, rows(tmp_path / "ledger.db")))

    async def rewrite(follow_up: FollowUp) -> Rewritten:
        before = [said.content for said in follow_up.recent_history if said.role == "user"]
        seen.append((before, follow_up.latest_user_message, rows(tmp_path / "ledger.db")))
        return Rewritten(query=follow_up.latest_user_message)

    async def retrieve(turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        await look(turn)
        return ()

    setup = Setup(helpers=AuxiliaryModels(memories=look, retrieve=retrieve), rewriting=Rewriting(rewrite=rewrite))
    async with Desk(tmp_path, setup=setup) as desk:
        await desk.ask("Who is Ada?")
        await desk.ask("Was she married?")
        await desk.settle()
        seen.clear()
        await desk.ask("To whom?")
    assert [said for _, said, _ in seen] == ["To whom?"] * 3
    assert seen[1][0] == ["Who is Ada?", "Was she married?"], "the rewriter has the history, without the new message"
    assert seen[0][2] == seen[1][2] == seen[2][2], "nothing was written meanwhile"


@pytest.mark.req("CTX-2", "CTX-3", "CTX-4", "CTX-8")
async def test_every_earlier_turn_stands_before_the_message_in_order(tmp_path: Path) -> None:
    async def rewrite(follow_up: FollowUp) -> Rewritten:
        return Rewritten(query=f"{follow_up.latest_user_message} (of Ada)")

    async def retrieve(turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        return (artifact(1, f"found for {query}"),) if query else ()

    setup = Setup(helpers=AuxiliaryModels(retrieve=retrieve), rewriting=Rewriting(rewrite=rewrite))
    async with Desk(tmp_path, "A mathematician.", "In London.", setup=setup) as desk:
        for question in ("Who is Ada?", "Where did she live?", "When?"):
            turn_id = await desk.ask(question)
        *earlier, current = desk.shown
        plan = await desk.plan(turn_id)
        stored = await desk.engine.store.turns.get(turn_id)
    assert earlier == [
        ("user", "Who is Ada?"),
        ("assistant", "A mathematician."),
        ("user", "Where did she live?"),
        ("assistant", "In London."),
    ], "as they were said: nothing that was added for an earlier question is left in them"
    found = '<artifact said-by="user">\n| found for When? (of Ada)\n</artifact>\n\n'
    role, words = current
    assert role == "user"
    assert re.sub(r' on="[\d-]{10}"', "", words) == f"{found}When?\n\n{CONTEXTUALISED}\nWhen? (of Ada)"
    assert plan.gathered == (1, 2)
    assert plan.contextualised == "When? (of Ada)"
    assert stored is not None
    assert stored.user_message.rendered_text == "When?", "what is kept is what was said"


@pytest.mark.req("TURN-6", "CTX-3")
async def test_the_next_message_sees_the_turn_that_is_not_committed_yet(tmp_path: Path) -> None:
    """Document E's acceptance test 1."""
    async with Desk(tmp_path, "A mathematician.", "In London.") as desk:
        await desk.engine.job_runner.stop()  # from now on nothing is committed
        first = await desk.ask("Who is Ada?")
        second = await desk.ask("Where did she live?")
        await desk.ask("When?")
        for turn_id in (first, second):
            turn = await desk.engine.store.turns.get(turn_id)
            assert turn is not None
            assert (turn.phase, turn.state_after) == (Phase.RESPONSE_FINALIZED, None)
        assert (await desk.engine.store.states.head(await desk.branch())).turn_seq == 0
        assert desk.shown == [
            ("user", "Who is Ada?"),
            ("assistant", "A mathematician."),
            ("user", "Where did she live?"),
            ("assistant", "In London."),
            ("user", "When?"),
        ]
        await desk.engine.close(job_seconds=0)


@pytest.mark.req("TURN-6")
async def test_a_message_sent_while_another_is_answered_waits_and_sees_it(tmp_path: Path) -> None:
    async with Desk(tmp_path, "one", ScriptedReply(text="two three", delay=0.001), "four") as desk:
        await desk.ask("1")
        await desk.engine.accept(desk.thread, "2")
        third = await desk.engine.ask(desk.thread, "3")
        assert third.text == "four"
        assert [text for _, text in desk.shown] == ["1", "one", "2", "two three", "3"]


# --- what helps and may fail ---


@pytest.mark.req("CTX-7")
@pytest.mark.parametrize("stage", ["memory", "rewriting", "retrieval"])
async def test_a_stage_that_fails_is_left_out_and_named(
    stage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ConnectionError("the index is away")

    setup = {
        "memory": Setup(helpers=AuxiliaryModels(memories=broken)),
        "rewriting": Setup(rewriting=Rewriting(rewrite=broken)),  # type: ignore[arg-type]
        "retrieval": Setup(helpers=AuxiliaryModels(retrieve=broken)),  # type: ignore[arg-type]
    }[stage]
    async with Desk(tmp_path, "A mathematician.", setup=setup) as desk:
        await desk.ask("Who is Ada?")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            turn_id = await desk.ask("Where did she live?")
        plan = await desk.plan(turn_id)
        assert desk.shown[0] == ("user", "Who is Ada?"), "the past is there all the same"
        assert desk.shown[-1] == ("user", "Where did she live?")
    assert [(left.what, left.reason) for left in plan.left_out] == [
        (stage, "it failed: ConnectionError: the index is away")
    ]
    assert [record.message for record in caplog.records if stage in record.message]


@pytest.mark.req("CTX-7")
async def test_a_request_goes_on_without_all_of_them(tmp_path: Path) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("x" * 10_000)

    helpers = AuxiliaryModels(memories=broken, retrieve=broken)  # type: ignore[arg-type]
    setup = Setup(helpers=helpers, rewriting=Rewriting(rewrite=broken))  # type: ignore[arg-type]
    async with Desk(tmp_path, setup=setup) as desk:
        await desk.ask("Who is Ada?")
        turn_id = await desk.ask("Where did she live?")
        plan = await desk.plan(turn_id)
        assert [left.what for left in plan.left_out] == ["memory", "rewriting", "retrieval"]
        assert all(len(left.reason) <= 200 for left in plan.left_out)
        assert (await desk.engine.explain(turn_id)).matches


@pytest.mark.req("CTX-11")
async def test_memory_and_rewriting_are_left_out_where_they_are_not_wanted(tmp_path: Path) -> None:
    called: list[str] = []

    async def memories(turn: Turn) -> str:
        called.append("memories")
        return "Ann likes tea."

    async def rewrite(follow_up: FollowUp) -> Rewritten:
        called.append("rewrite")
        return Rewritten(query="made explicit")

    setup = Setup(helpers=AuxiliaryModels(memories=memories), rewriting=Rewriting(rewrite=rewrite))
    async with Desk(tmp_path, setup=setup) as desk:
        await desk.ask("one")
        assert "Ann likes tea." in desk.prompts[-1].system[1]
        assert called == ["memories", "rewrite"]
        plain = await desk.ask("two", use_memory=False, use_query_rewriter=False)
        assert called == ["memories", "rewrite"], "neither was asked"
        assert not any("Ann" in text for text in desk.prompts[-1].system), "nor what an earlier request knew"
        assert desk.shown[-1] == ("user", "two")
        plan = await desk.plan(plain)
        assert plan.epoch_reason == "memory"
        assert [(left.what, left.reason) for left in plan.left_out] == [
            ("memory", "it was not requested"),
            ("rewriting", "it was not requested"),
        ]
        again = await desk.ask("three")
        assert "Ann likes tea." in desk.prompts[-1].system[1], "and comes back with the next request that wants it"
        assert (await desk.plan(again)).epoch_reason == "memory"


# --- the window ---


@pytest.mark.req("BUDGET-3", "BUDGET-2")
async def test_a_prompt_that_is_refused_shrinks_in_the_agreed_order_and_the_same_way_each_time(tmp_path: Path) -> None:
    """Document E's acceptance test 4."""

    async def retrieve(turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        return tuple(artifact(number, f"piece {number} " * 150, 1 - number / 10) for number in range(3))

    async def conversation(folder: Path) -> tuple[list[Plan], list[Prompt]]:
        setup = Setup(helpers=AuxiliaryModels(retrieve=retrieve), folds=False)
        replies: list[ScriptedReply | str] = [
            "A dog. " * 300,
            "Ann's. " * 300,
            "Yes. " * 300,
            TOO_LARGE,
            TOO_LARGE,
            TOO_LARGE,
            "At last.",
        ]
        async with Desk(folder, *replies, setup=setup) as desk:
            for question in ("Who is Rex? " * 50, "Whose is he? " * 50, "Is he old? " * 50):
                await desk.ask(question)
            turn_id = await desk.ask("And now?")
            steps = await desk.engine.store.turns.steps(turn_id)
            return [step.plan for step in steps], desk.prompts[3:]

    plans, prompts = await conversation(tmp_path / "one")
    sizes = [plan.tokens for plan in plans]
    assert all(after <= before * 75 // 100 for before, after in pairwise(sizes)), "ever smaller"
    assert [plan.shrink_steps for plan in plans] == [
        (),
        ("artifacts: 1 of 3 kept", "the best artifact: 400 characters of it"),
        ("artifacts: 0 of 3 kept", "long texts up to turn 2: 50% of each"),
        ("artifacts: 0 of 3 kept", "turns 1–3: one line each", "summary: 200 characters of it"),
    ]
    again, same = await conversation(tmp_path / "two")
    assert [plan.shrink_steps for plan in again] == [plan.shrink_steps for plan in plans]
    assert [plan.tokens for plan in again] == sizes
    assert same == prompts, "to the last word"


@pytest.mark.req("BUDGET-3", "CTX-3", "CTX-8")
async def test_what_had_to_give_way_is_folded_and_nothing_that_is_kept_is_changed(tmp_path: Path) -> None:
    by_model = Setup(librarian=Watching())  # an offline fold would come before the request
    async with Desk(tmp_path, "A dog. " * 60, "Ann's. " * 60, abilities=SMALL, setup=by_model) as desk:
        for question in ("Who is Rex? " * 30, "Whose is he? " * 30):
            await desk.ask(question)
        kept = await desk.engine.store.turns.history(await desk.branch())
        said_before = [(one.user_message, one.answer) for one in kept]
        await desk.settle()  # only committed turns fold
        tight = await desk.plan(await desk.ask("And now, and then, and later? " * 110))
        assert tight.shrunk is not None
        assert tight.shrunk.lines_to == 2
        assert tight.epoch_reason == "shrunk"
        assert desk.shown[0][1].startswith(f"{SUMMARY}\n#1 Who is Rex?")
        reasons = []
        for question in ("Why?", "Really?"):
            await desk.settle()
            calm = await desk.plan(await desk.ask(question))
            assert calm.shrunk is None, "this request need not shrink"
            reasons.append(calm.epoch_reason)
        assert "fold" in reasons
        assert (await desk.head()).covers_turn_seq >= 2
        history = await desk.engine.store.turns.history(await desk.branch())
        assert [(one.user_message, one.answer) for one in history[:2]] == said_before


@pytest.mark.req("BUDGET-3")
async def test_a_first_message_too_large_for_the_model_is_refused_in_words(tmp_path: Path) -> None:
    async with Desk(tmp_path, abilities=SMALL) as desk:
        turn = await desk.engine.ask("new", "word " * 3000)
        assert turn.error is not None
        assert (turn.outcome, turn.error.code) == ("failed", "size")
        assert "larger window" in turn.error.hint
        assert desk.prompts == [], "nothing was sent"
        desk.thread = turn.thread_id
        await desk.ask("Sorry. Who is Ada?")
        assert desk.shown[0][1].startswith("word word")
        assert len(desk.shown[0][1]) < 300


@pytest.mark.req("BUDGET-9", "BUDGET-1", "CTX-3")
@pytest.mark.parametrize("limit", [2048, 4096])
async def test_a_small_window_holds_a_long_conversation(limit: int, tmp_path: Path) -> None:
    abilities = replace(ABILITIES, context_limit=limit)
    async with Desk(tmp_path, *["It is as I said. " * 20] * 40, abilities=abilities) as desk:
        folds = 0
        for number in range(25):
            turn_id = await desk.ask(f"Question {number}, if I may? " * 8)
            plan = await desk.plan(turn_id)
            assert plan.budget is not None
            assert plan.tokens <= plan.budget.input_limit
            assert plan.shrunk is None, "folding comes before shrinking"
            head = await desk.engine.store.states.head(await desk.branch())
            folds += plan.epoch_reason == "fold"
            assert plan.gathered is None or plan.gathered[1] == number
            covered = [section.source for section in plan.sections if section.name == "summary"]
            assert covered == [head.covers_turn_seq] * len(covered)
            told = [int(found) for _, text in desk.shown for found in ASKED.findall(text)]
            assert told == list(range(told[0], number + 1)), "from the oldest line on no turn is missing"
            await desk.settle()
        assert folds > 2
        assert (await desk.plan(turn_id)).budget.model_limit == limit  # type: ignore[union-attr]


@pytest.mark.req("BUDGET-9")
async def test_what_asks_for_a_fold_gets_one(tmp_path: Path) -> None:
    """A model that thinks keeps more of its window free, and folds earlier for it."""
    abilities = Abilities(context_limit=32_000, max_output_tokens=32_000, reasoning=True)
    async with Desk(tmp_path, *["It is as I said. " * 100] * 40, abilities=abilities) as desk:
        for number in range(40):
            plan = await desk.plan(await desk.ask(f"Question {number}, if I may? " * 40))
            await desk.settle()
            assert plan.budget is not None
            assert plan.budget.response_reserve == 8000, "a quarter of the window; its thinking takes room"
            turns = sum(section.tokens for section in plan.sections if section.name in ("turns", "message"))
            folded = (await desk.engine.store.states.head(await desk.branch())).covers_turn_seq > 0
            assert folded == (turns > plan.budget.fold_trigger)
            if folded:
                break
        assert number > 3


@pytest.mark.req("BUDGET-8", "CTX-3", "TURN-10")
async def test_the_working_set_of_a_long_session_stays_small(tmp_path: Path) -> None:
    largest, loads = 0, sized(6, 25)  # 10,000 turns in `make proof`
    async with Desk(tmp_path) as desk:
        await desk.ask("Let us begin.")
        await desk.engine.pin(desk.thread, "The launch code is HERON-7.")
        for load in range(loads):
            await desk.settle()
            branch = await desk.branch()
            more = [exchange(f"Question {load}-{n}? " * 2, f"Answer {load}-{n}. " * 4) for n in range(399)]
            await desk.engine.store.turns.record(branch, more)
            head = await desk.engine.store.states.head(branch)
            turn_id = await desk.ask("Where are we?")
            plan = await desk.plan(turn_id)
            largest = max(largest, plan.tokens)
            turn_seq = 400 * load + 401
            assert plan.gathered == (head.covers_turn_seq + 1, turn_seq - 1), "each is covered or word for word"
            assert plan.shrunk is None
        assert turn_seq >= 400 * loads
        assert (await desk.engine.store.turns.get(turn_id)).turn_seq == turn_seq  # type: ignore[union-attr]
        assert "- The launch code is HERON-7." in desk.prompts[-1].system[1], "no pinned fact is lost"
        assert SUMMARY in desk.shown[0][1]
    assert largest < 50_000
    if ledger_url(tmp_path / "ledger.db") is None:
        settings = Settings(general=General(data_dir=str(tmp_path)))
        assert examine(settings, least_free=0).findings == (), "every head is valid"


@pytest.mark.req("BUDGET-1")
async def test_retrieved_text_keeps_to_its_share(tmp_path: Path) -> None:
    pieces = tuple(artifact(number, f"piece {number} " * 100) for number in range(6))

    async def retrieve(turn: Turn, query: str | None) -> tuple[Artifact, ...]:
        return pieces

    most = sum(piece.tokens for piece in pieces[:4]) + 10
    setup = Setup(helpers=AuxiliaryModels(retrieve=retrieve), ceilings=Ceilings(retrieval=most))
    async with Desk(tmp_path, setup=setup) as desk:
        plan = await desk.plan(await desk.ask("What do we know?"))
        assert [placed.chunk_id for placed in plan.retrieved] == [piece.chunk_id for piece in pieces[:4]]
        (left,) = plan.left_out
        assert (left.what, left.tokens) == (
            "retrieved text from place 5 on",
            sum(piece.tokens for piece in pieces[4:]),
        )
        assert plan.budget is not None
        shown = sum(piece.tokens for piece in pieces[:4])
        assert plan.tokens == plan.budget.base_tokens + shown


# --- pins ---


@pytest.mark.req("BUDGET-10")
async def test_pins_stand_in_every_prompt_and_have_a_limit(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=Ceilings(pins=30)), abilities=SMALL) as desk:
        await desk.ask("Hello.")
        await desk.engine.pin(desk.thread, "Answers are in metres.")
        with pytest.raises(Refused, match="may use 30 tokens"):
            await desk.engine.pin(desk.thread, "And one more thing that is rather long. " * 5)
        for number in range(12):
            await desk.ask(f"Question {number}, if I may? " * 12)
            assert "- Answers are in metres." in desk.prompts[-1].system[1]
            await desk.settle()
        assert (await desk.engine.store.states.head(await desk.branch())).covers_turn_seq > 0, "it was folded meanwhile"


# --- the unchanged beginning ---


@pytest.mark.req("FILES-5")
async def test_within_an_epoch_each_request_begins_with_the_one_before(tmp_path: Path) -> None:
    known = ["Ann likes tea."]

    async def memories(turn: Turn) -> str:
        return known[-1]

    failing = ScriptedReply(error=Problem(code="quota", message="No more."))
    async with Desk(
        tmp_path, "one", "two", failing, "four", setup=Setup(helpers=AuxiliaryModels(memories=memories))
    ) as desk:
        plans = []
        for question in "abcd":
            plans.append(await desk.plan(await desk.ask(question)))
            known.append(f"{known[-1]} And {question}.")
        assert [plan.epoch_reason for plan in plans] == ["first", None, None, None]
        for before, after in pairwise(desk.prompts):
            assert after.system == before.system
            assert after.messages[: len(before.messages)] == before.messages
        await desk.engine.pin(desk.thread, "Answers are in metres.")
        pinned = await desk.plan(await desk.ask("e"))
        assert pinned.epoch_reason == "pin"
        assert known[4] in desk.prompts[-1].system[1], "what was learned meanwhile comes along"
        assert (await desk.plan(await desk.ask("f"))).epoch_reason is None


@pytest.mark.req("TURN-12")
async def test_a_question_that_failed_and_is_asked_again_in_the_same_words_is_shown_once(tmp_path: Path) -> None:
    broken = ScriptedReply(error=Problem(code="server", message="It broke."))
    async with Desk(tmp_path, "Hello.", broken, broken, "Now.", broken, "Well.") as desk:
        await desk.ask("Hi")
        for _ in range(3):
            last = await desk.ask("And?")
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")]
        history = await desk.engine.store.turns.history(await desk.branch(), limit=10)
        assert [turn.user_message.rendered_text for turn in history] == ["Hi", "And?", "And?", "And?"]
        assert (history[-1].id, history[-1].retry_of) == (last, history[-2].id)
        await desk.ask("So?")
        await desk.ask("Something else.")
        assert desk.shown[-3:] == [("user", "So?"), ("assistant", "[no answer]"), ("user", "Something else.")]


@pytest.mark.req("FILES-5")
async def test_a_turn_that_failed_before_it_was_sent_ends_no_epoch(tmp_path: Path) -> None:
    known = ["Ann likes tea."]

    async def memories(turn: Turn) -> str:
        known.append("Ann likes coffee.")
        return known[-2]

    setup = Setup(helpers=AuxiliaryModels(memories=memories))
    async with Desk(tmp_path, setup=setup, abilities=SMALL) as desk:
        await desk.ask("one")
        failed = await desk.engine.ask(desk.thread, "word " * 3000)
        assert failed.error is not None
        plan = await desk.plan(await desk.ask("two"))
        assert plan.epoch_reason is None
        assert desk.prompts[1].system == desk.prompts[0].system


# --- what must not leave ---


def hide_rex(text: str) -> Iterable[tuple[int, int]]:
    """A hook as people write it."""
    place = text.find("Rex")
    return [(place, place + 3)] if place >= 0 else []


@pytest.mark.req("SAFE-1")
async def test_what_must_not_leave_is_blacked_out_and_kept_as_it_was_said(tmp_path: Path) -> None:
    general = General(
        data_dir=str(tmp_path),
        default_model="echo",
        redact_patterns=(r"\d{4}-\d{4}",),
        redact_with=f"{__name__}:hide_rex",
    )
    models = {"echo": ModelSettings(provider="scripted")}
    async with open_engine(Settings(general=general, models=models)) as engine:
        turn = await engine.ask("new", "Rex has the number 1234-5678.")
        assert "You said: [redacted] has the number [redacted]." in turn.text, "the model saw no more"
        kept = await engine.store.turns.get(turn.turn_id)
        assert kept is not None
        assert kept.user_message.rendered_text == "Rex has the number 1234-5678."
        told = await engine.explain(turn.turn_id)
        assert told.matches
        assert told.plan.redactions is not None
        assert "1234" not in str(told.body)
