"""What no memory holds is still found: in the user's other conversations, and in no other user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.domain.ids import now
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.other_conversations import asks_about_user
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.settings.sections import General
from contextinfinity.wiring import open_engine

TOLD = "The plumber Oduya charges eighty euros an hour and fifty for the way."
ASKED = "What does my plumber charge an hour?"


def settings_in(folder: Path) -> Settings:
    models = {"m": ModelSettings(provider="scripted")}
    return Settings(general=General(data_dir=str(folder), default_model="m"), models=models)


async def said_to_model(engine: Engine, text: str, user: str, *, use_memory: bool = True) -> str:
    turn = await engine.ask("new", text, user_id=user, use_memory=use_memory)
    explained = await engine.explain(turn.turn_id)
    assert explained.matches, "the request can be made again from its plan"
    return explained.messages[-1].rendered_text


@pytest.mark.req("MEMORY-8", "MEMORY-6")
async def test_a_question_about_the_user_is_answered_from_their_other_conversations(tmp_path: Path) -> None:
    async with open_engine(settings_in(tmp_path)) as engine:
        told = await engine.ask("new", TOLD, user_id="ann")
        assert await engine.job_runner.drain(100)
        shown = await said_to_model(engine, ASKED, "ann")
        assert TOLD in shown
        assert f'on="{now().date().isoformat()}" in-conversation="{told.thread_id}"' in shown
        assert await said_to_model(engine, ASKED, "ben") == ASKED, "nobody else gets it"
        assert await said_to_model(engine, ASKED, "ann", use_memory=False) == ASKED
        assert "eighty" not in await said_to_model(engine, "How do plumbers charge an hour?", "ann")


@pytest.mark.req("MEMORY-8")
async def test_what_was_said_on_a_branch_that_was_left_is_not_brought_back(tmp_path: Path) -> None:
    async with open_engine(settings_in(tmp_path)) as engine:
        first = await engine.ask("new", "Hello.", user_id="ann")
        await engine.ask(first.thread_id, TOLD, user_id="ann")
        await engine.rollback(first.thread_id, to=1)
        assert await engine.job_runner.drain(100)
        assert await said_to_model(engine, ASKED, "ann") == ASKED


@pytest.mark.req("MEMORY-8", "MEMORY-5")
@pytest.mark.parametrize("after", ["Forget that my favourite tea is oolong.", "My favourite tea is sencha."])
async def test_what_was_forgotten_or_corrected_is_not_brought_back(after: str, tmp_path: Path) -> None:
    async with open_engine(settings_in(tmp_path)) as engine:
        for said in ("My favourite tea is oolong.", after):
            await engine.ask("new", said, user_id="ann")
            assert await engine.job_runner.drain(100)
        assert "oolong" not in await said_to_model(engine, "Which tea did I drink, was it my favourite?", "ann")


@pytest.mark.req("MEMORY-8")
@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("What is my dentist called?", True),
        ("Where did I park?", True),
        ("Wie heißt mein Zahnarzt?", True),
        ("¿Cómo se llama mi dentista?", True),
        ("我的医生叫什么？", True),
        ("How do I fix my code?", False),
        ("Should I change my plan?", False),
        ("What should I cook?", False),
        ("Who wrote Dune?", False),
        ("I like my dentist.", False),
        ("Wie kann ich mein Skript testen?", False),
    ],
)
def test_a_question_about_the_user_asks_for_what_is_theirs_and_for_no_advice(text: str, is_so: bool) -> None:
    assert asks_about_user(text) is is_so
