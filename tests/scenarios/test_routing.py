"""Which model answers: the caller's choice first, then rules and preferences, then fallbacks after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.events import FinishedTurn, Retrying, TurnDone
from contextinfinity.domain.message import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock, blocks_of
from contextinfinity.domain.turn import Failed
from contextinfinity.domain.wire import dumps
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Rewriting
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.settings import Router, Rule, Settings
from contextinfinity.settings.field_types import Preference
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.vendors import Answer, Call, Delivery, FakeVendors, Trouble
from tests.scenarios.wires import engine_at

FACTS = Rule(model="perplexity", intent="factual", reason="It can look things up.")
SONAR, GPT, CLAUDE, LLAMA = "sonar-pro", "gpt-5.5", "claude-sonnet-4-5", "llama3.1"


def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


@asynccontextmanager
async def engine_with(vendors: FakeVendors, folder: Path, **router: Any) -> AsyncIterator[Engine]:
    settings = Settings(router=Router(**router))
    async with engine_at(vendors, folder, settings, rewriting=Rewriting()) as engine:
        yield engine


async def reason_of(engine: Engine, turn: FinishedTurn) -> str:
    plan = await engine.context(turn.turn_id)
    assert plan.route is not None
    return plan.route.reason


@pytest.mark.req("PROVIDER-6")
async def test_a_rule_gives_questions_of_fact_to_a_model_that_searches(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_with(vendors, tmp_path, rules=(FACTS,)) as engine:
        hello = await engine.ask("new", "Let us plan my holiday in the mountains.")
        fact = await engine.ask(hello.thread_id, "Who is the president of France?")
        again = await engine.ask(hello.thread_id, "Then let us pack the bags.")
        why = await reason_of(engine, fact)
    assert [turn.model for turn in (hello, fact, again)] == [GPT, SONAR, GPT], "a rule counts for one request"
    assert why == "perplexity answers by rule 1: It can look things up."
    said = [str(request.body) for request in vendors.requests]
    assert "Let us plan my holiday in the mountains." in said[1], "whoever answers sees what was said"
    assert "Who is the president of France?" in said[2]


@pytest.mark.req("PROVIDER-6", "CTX-8")
async def test_what_a_follow_up_means_decides_and_no_message_is_changed(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_with(vendors, tmp_path, rules=(FACTS,)) as engine:
        vendors.say("She was chancellor.")
        first = await engine.ask("new", "Tell me about Angela Merkel.")
        turn = await engine.ask(first.thread_id, "and who is her husband?")
        kept = await engine.store.turns.get(turn.turn_id)
    assert turn.model == SONAR
    assert kept is not None
    assert kept.user_message.rendered_text == "and who is her husband?"


@pytest.mark.req("PROVIDER-6")
async def test_the_callers_choice_wins_and_the_branch_stays_with_it(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_with(vendors, tmp_path, rules=(FACTS,), fallbacks=("openai_chat",)) as engine:
        fact = await engine.ask("new", "Who is the president of France?", model="anthropic")
        later = await engine.ask(fact.thread_id, "Write me a poem about him.")
        other = await engine.ask("new", "Write me a poem.")
        why = await reason_of(engine, later)
    assert (fact.model, later.model, other.model) == (CLAUDE, CLAUDE, GPT)
    assert why == "anthropic answers: it is the branch's model."


@pytest.mark.req("PROVIDER-6")
async def test_people_and_organisations_have_their_models(vendors: FakeVendors, tmp_path: Path) -> None:
    preferred = {"users": {"anna": Preference(model="anthropic")}, "orgs": {"acme": Preference(model="openai_chat")}}
    async with engine_with(vendors, tmp_path, **preferred) as engine:
        asked = [("anna", None), ("anna", "acme"), ("ben", "acme"), ("ben", None)]
        turns = [await engine.ask("new", "Hello there.", user_id=user, org_id=org) for user, org in asked]
    assert [turn.model for turn in turns] == [CLAUDE, CLAUDE, LLAMA, GPT]


@pytest.mark.req("PROVIDER-6")
async def test_the_next_model_answers_when_one_fails_and_the_turn_says_why(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    vendors.say(Trouble.insufficient_quota(), "Here I am.")
    async with engine_with(vendors, tmp_path, fallbacks=("anthropic", "openai_chat")) as engine:
        events = [event async for event in engine.send("new", "Is anybody there?")]
        done = events[-1]
        assert isinstance(done, TurnDone)
        steps = await engine.store.turns.steps(done.turn.turn_id)
        why = await reason_of(engine, done.turn)
        explained = await engine.explain(done.turn.turn_id)
        after = await engine.ask(done.turn.thread_id, "And now?")
        back = await reason_of(engine, after)
    assert (done.turn.outcome, done.turn.text, done.turn.model) == ("completed", "Here I am.", CLAUDE)
    told = [event.reason for event in events if isinstance(event, Retrying)]
    assert told == [why]
    assert "openai could not answer: the account has no credit left" in why
    assert why.endswith("anthropic answers instead.")
    assert [(step.provider, isinstance(step.outcome, Failed)) for step in steps] == [
        ("openai", True),
        ("anthropic", False),
    ]
    assert explained.matches, "what it was shown can be written again"
    assert after.model == CLAUDE, "who just failed is passed over for a while"
    assert back.startswith("Not openai: it is not available now: a moment ago the account has no credit left")


@pytest.mark.req("PROVIDER-6")
async def test_nobody_steps_in_for_a_model_that_was_asked_for_or_where_none_is_named(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    vendors.say(Trouble.insufficient_quota(), Trouble.insufficient_quota())
    async with engine_with(vendors, tmp_path, fallbacks=("anthropic",)) as engine:
        named = await engine.ask("new", "Is anybody there?", model="openai_chat")
    (tmp_path / "alone").mkdir()
    async with engine_with(vendors, tmp_path / "alone") as engine:
        alone = await engine.ask("new", "Is anybody there?")
        vendors.say("Back again.")
        again = await engine.ask(alone.thread_id, "And now?")
    assert [(turn.outcome, turn.error and turn.error.code) for turn in (named, alone)] == [("failed", "quota")] * 2
    assert (again.outcome, again.model) == ("completed", GPT), "it is asked again all the same"


@pytest.mark.req("PROVIDER-6")
async def test_an_answer_that_began_is_never_given_to_another(vendors: FakeVendors, tmp_path: Path) -> None:
    vendors.say(Answer(pieces=("Half ", "an ", "answer."), delivery=Delivery(cut_after_pieces=2)))
    async with engine_with(vendors, tmp_path, fallbacks=("anthropic",)) as engine:
        turn = await engine.ask("new", "Tell me all of it.")
    assert (turn.outcome, turn.text, turn.model) == ("incomplete", "Half an ", GPT)


@pytest.mark.req("PROVIDER-6")
async def test_a_model_that_cannot_see_is_passed_over_for_pictures(vendors: FakeVendors, tmp_path: Path) -> None:
    picture = ImageBlock(media_type="image/png", source={"type": "base64", "data": "iVBORw0KGgo="})
    async with engine_with(vendors, tmp_path, users={"local": Preference(model="openai_chat")}) as engine:
        words = await engine.route("new", "What is on this picture?")
        seen = await engine.route("new", (TextBlock(text="What is on this picture?"), picture))
    assert words.model == "openai_chat"
    assert seen.model == "openai", seen.reason
    assert "Not openai_chat: it does not support images." in seen.reason


@pytest.mark.req("PROVIDER-6")
async def test_a_route_is_explained_without_sending(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_with(vendors, tmp_path, rules=(FACTS,)) as engine:
        vendors.say("It was founded by Larry Page and Sergey Brin.")
        first = await engine.ask("new", "Tell me about Google.")
        assert await engine.job_runner.drain(100)
        sent, turns = len(vendors.requests), await engine.store.turns.history(first.branch_id)
        fact = await engine.route(first.thread_id, "Who is the president of France?")
        doubt = await engine.route(first.thread_id, "Where was he born?")
        fresh = await engine.route("a-thread-of-mine", "Who is the president of France?")
        named = await engine.route("new", "Who is the president of France?", model="anthropic")
        with pytest.raises(NotFound):
            await engine.route(first.turn_id, "Who?")
        with pytest.raises(InvalidInput, match="There is no model 'gpt-9'"):
            await engine.route("new", "Who?", model="gpt-9")
        assert await engine.store.turns.history(first.branch_id) == turns, "nothing is kept"
        assert len(vendors.requests) == sent, "nothing is sent"
        assert (
            await engine.store.sessions.find((await engine.session(first.thread_id)).owner, "a-thread-of-mine") is None
        )
    assert (fact.model, fact.home, fact.intent) == ("perplexity", "openai", "factual")
    assert [seen.model for seen in fact.considered] == ["perplexity"]
    assert fresh.model == "perplexity"
    assert (named.model, named.reason) == ("anthropic", "anthropic was asked for by name.")
    assert doubt.model is None
    assert (
        doubt.reason
        == "It would be answered with a clarifying question: Which person do you mean: Larry Page or Sergey Brin?"
    )


@pytest.mark.req("PROVIDER-6")
async def test_a_long_conversation_goes_to_a_larger_window_where_a_rule_says_so(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    rule = Rule(model="anthropic", needs="context")
    users = {"local": Preference(model="openai_chat")}
    async with engine_with(vendors, tmp_path, rules=(rule,), users=users) as engine:
        first = await engine.ask("new", "Hello there.")
        await engine.ask(first.thread_id, "A long story about timber. " * 2000, model="anthropic")
        back = await engine.ask(first.thread_id, "Short.", model="openai_chat")
        long = await engine.ask(first.thread_id, "And what do you say?")
    assert (first.model, back.model, long.model) == (LLAMA, LLAMA, CLAUDE)


# --- what came of reviews ---


@pytest.mark.req("PROVIDER-6", "TOOLS-1")
async def test_results_of_tools_go_to_the_model_that_called_them(vendors: FakeVendors, tmp_path: Path) -> None:
    settings = Settings(router=Router(rules=(Rule(model="anthropic", intent="code"),)))
    tools = Toolbox(mode="parse_only")
    tools.add(look)
    async with engine_at(vendors, tmp_path, settings, tools=tools) as engine:
        vendors.say(Answer(tool_calls=(Call(name="look", arguments={"where": "here"}),)), "Found.")
        called = await engine.ask("new", "Fix the bug in `parse_config()` in settings.py, please.")
        paused = await engine.store.turns.get(called.turn_id)
        assert paused is not None
        blocks = (*blocks_of(paused.rounds), *(paused.answer.blocks if paused.answer else ()))
        (use,) = {block.tool_use_id for block in blocks if isinstance(block, ToolUseBlock)}
        result = ToolResultBlock(tool_use_id=use, content=(TextBlock(text="Nothing."),))
        turn = await engine.ask(called.thread_id, (result,))
        why = await reason_of(engine, turn)
    assert (called.outcome, called.model, turn.model) == ("paused", CLAUDE, CLAUDE)
    assert why == "anthropic called the tools, so it answers."


@pytest.mark.req("PROVIDER-6", "BUDGET-3")
async def test_what_is_too_long_for_one_window_goes_to_a_larger_one(vendors: FakeVendors, tmp_path: Path) -> None:
    preferred = {"users": {"local": Preference(model="openai_chat")}, "fallbacks": ("perplexity", "anthropic")}
    async with engine_with(vendors, tmp_path, **preferred) as engine:
        small = await engine.ask("new", "Hello there.")
        await engine.pin(small.thread_id, "Answers are in metres.")
        vendors.say(Trouble.size(), "It fits.")
        turn = await engine.ask(small.thread_id, "word " * 3000)
    assert small.model == LLAMA
    assert (turn.outcome, turn.text, turn.model) == ("completed", "It fits.", SONAR)


@pytest.mark.req("PROVIDER-6")
async def test_a_request_that_cannot_even_be_written_is_given_to_another(vendors: FakeVendors, tmp_path: Path) -> None:
    settings = Settings(router=Router(fallbacks=("anthropic",)))
    async with engine_at(vendors, tmp_path, settings) as engine:
        model = replace(engine.models.by_name["openai"], options={"stream": False})
        engine.models.by_name["openai"] = model  # type: ignore[index]
        vendors.say("Here I am.")
        turn = await engine.ask("new", "Is anybody there?")
    assert (turn.outcome, turn.model) == ("completed", CLAUDE)


@pytest.mark.req("PROVIDER-6", "COMPACT-1")
async def test_one_message_for_a_small_model_folds_nothing(vendors: FakeVendors, tmp_path: Path) -> None:
    rule = Rule(model="openai_chat", intent="small_talk")
    async with engine_with(vendors, tmp_path, rules=(rule,)) as engine:
        first = await engine.ask("new", "Let us speak of timber. " * 120)
        for number in range(7):
            await engine.ask(first.thread_id, f"And of plan {number}. " * 250)
        thanks = await engine.ask(first.thread_id, "Thanks a lot!")
        assert await engine.job_runner.drain(100, folds=True)
        head = await engine.store.states.head(first.branch_id)
    assert (first.model, thanks.model) == (GPT, LLAMA)
    assert head.covers_turn_seq == 0, "what counts is the room of the branch's own model"


@pytest.mark.req("PROVIDER-6")
async def test_a_model_named_for_a_question_that_was_asked_back_answers_the_reply(
    vendors: FakeVendors, tmp_path: Path
) -> None:
    async with engine_with(vendors, tmp_path) as engine:
        vendors.say("It was founded by Larry Page and Sergey Brin.")
        first = await engine.ask("new", "Who founded Google?")
        asked = await engine.ask(first.thread_id, "Where was he born?", model="anthropic")
        reply = await engine.ask(first.thread_id, "the second")
    assert (asked.outcome, reply.model) == ("clarification", CLAUDE)


@pytest.mark.req("PROVIDER-6")
async def test_a_model_that_was_named_and_failed_binds_nobody(vendors: FakeVendors, tmp_path: Path) -> None:
    async with engine_with(vendors, tmp_path) as engine:
        vendors.say(Trouble.bad_key())
        failed = await engine.ask("new", "Is anybody there?", model="anthropic")
        turn = await engine.ask(failed.thread_id, "And now?")
    assert (failed.outcome, turn.model) == ("failed", GPT)


@pytest.mark.req("PROVIDER-6", "CTX-10")
async def test_plans_stay_small_however_many_models_fail(vendors: FakeVendors, tmp_path: Path) -> None:
    rule = Rule(model="perplexity", intent="factual", reason="It can look things up. " * 8)
    vendors.say(*[Trouble.insufficient_quota()] * 3, "At last.")
    async with engine_with(vendors, tmp_path, rules=(rule,), fallbacks=("anthropic", "openai_chat")) as engine:
        turn = await engine.ask("new", "Who is the president of France?")
        steps = await engine.store.turns.steps(turn.turn_id)
        assert all([(await engine.explain(turn.turn_id, step_index=step.step_index)).matches for step in steps])
    assert (turn.model, len(steps)) == (LLAMA, 4)
    assert max(len(dumps(step.plan)) for step in steps) < 2048
