"""A request that is repeated under its idempotency key while the ledger is away from one process or from all."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.domain.events import Delta, FinishedTurn
from contextinfinity.domain.session import IdempotencyKey, NewSession
from contextinfinity.domain.turn import Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import KeyReused, LedgerAway
from contextinfinity.storage.standby.store import StandbyStore
from tests.recovery.outages import HoldsBack, back, engine_on, heard, locked, said


def standby(engine: Engine) -> StandbyStore:
    assert isinstance(engine.store, StandbyStore)
    return engine.store


async def asked_again(engine: Engine, thread: str) -> FinishedTurn:
    return await engine.ask(thread, "what is a gnomon", key="k")


@pytest.mark.req("API-15", "CHATMEM-6")
@pytest.mark.parametrize("thread", ["new", "customer-42"])
async def test_what_the_ledger_had_accepted_is_not_answered_again(tmp_path: Path, thread: str) -> None:
    async with engine_on(tmp_path) as engine:
        first = await asked_again(engine, thread)
        with locked(tmp_path):
            await engine.ask("new", "the outage begins")
            assert (await asked_again(engine, thread)).turn_id == first.turn_id
            with pytest.raises(KeyReused):
                await engine.ask(thread, "another question", key="k")
        await back(engine)
        with standby(engine).kept_away():  # nothing can be read either
            if thread == "new":
                with pytest.raises(LedgerAway):
                    await asked_again(engine, thread)
            else:
                assert (await asked_again(engine, thread)).turn_id == first.turn_id
        await back(engine)
        assert len(await said(engine, first.thread_id)) == 1


@pytest.mark.req("API-15", "CHATMEM-6")
@pytest.mark.parametrize("thread", ["new", "customer-42"])
async def test_what_another_process_has_spooled_is_not_answered_again(tmp_path: Path, thread: str) -> None:
    async with engine_on(tmp_path) as engine, engine_on(tmp_path) as other:
        await engine.ask("customer-42", "before")
        with standby(engine).kept_away():
            first = await asked_again(engine, thread)
            assert first.durability == "local"
            with locked(tmp_path):
                await other.ask("new", "the outage begins")
                if thread == "new":
                    with pytest.raises(LedgerAway):
                        await asked_again(other, thread)
                else:  # its turns are shown there
                    assert (await asked_again(other, thread)).text == first.text
            await back(other)
            assert (await asked_again(other, thread)).turn_id == first.turn_id
        await back(engine)
        asked = [question for _, question, _ in await said(engine, first.thread_id)]
        assert asked == ["what is a gnomon"] if thread == "new" else ["before", "what is a gnomon"]


@pytest.mark.req("API-15", "CHATMEM-6")
async def test_what_was_spooled_in_one_outage_is_not_answered_again_in_the_next(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask("customer-42", "before")
        with standby(engine).kept_away():
            first = await asked_again(engine, "customer-42")
            assert first.durability == "local"
        await back(engine)
        await engine.ask("customer-42", "between")
        with standby(engine).kept_away():
            assert (await asked_again(engine, "customer-42")).turn_id == first.turn_id
        await back(engine)
        assert len(await said(engine, first.thread_id)) == 3


@pytest.mark.req("API-15", "CHATMEM-6")
async def test_a_conversation_that_another_process_has_spooled_is_not_created_again(tmp_path: Path) -> None:
    new = NewSession(once=IdempotencyKey(key="ab" * 32, asked="cd" * 32))
    async with engine_on(tmp_path) as engine, engine_on(tmp_path) as other:
        with standby(engine).kept_away():
            first = await engine.store.sessions.create(new)
            assert (await engine.store.sessions.create(new)).id == first.id
            with locked(tmp_path):
                await other.ask("new", "the outage begins")
                with pytest.raises(LedgerAway):
                    await other.store.sessions.create(new)
            await back(other)
            assert (await other.store.sessions.create(new)).id == first.id
            with standby(other).kept_away():
                assert (await other.store.sessions.create(new)).id == first.id


@pytest.mark.req("CHATMEM-6")
async def test_what_another_process_has_spooled_can_be_read(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine, engine_on(tmp_path) as other:
        thread = (await engine.ask("new", "before")).thread_id
        with standby(engine).kept_away():
            await engine.ask(thread, "during")
            assert [question for _, question, _ in await said(other, thread)] == ["before", "during"]


@pytest.mark.req("CHATMEM-6")
async def test_an_answer_that_another_process_has_spooled_is_resumed_with_all_its_words(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine, engine_on(tmp_path) as other:
        thread = (await engine.ask("new", "before")).thread_id
        with standby(engine).kept_away(), locked(tmp_path):
            answer = await engine.ask(thread, "what is a gnomon")
            await other.ask(thread, "the outage begins")
            events, finished = await heard(other, answer.turn_id)
            assert finished.text == answer.text
            assert "".join(event.text for event in events if isinstance(event, Delta)) == answer.text


@pytest.mark.req("CHATMEM-6")
async def test_an_answer_of_another_process_is_not_reported_as_failed(tmp_path: Path) -> None:
    slow = HoldsBack()
    async with engine_on(tmp_path, slow) as engine, engine_on(tmp_path) as other:
        turn, _ = await engine.accept("new", "what is a gnomon")
        await slow.said.wait()
        with locked(tmp_path):
            branch = await other.ask(turn.session_id, "the outage begins")
            assert branch.durability == "local"
            there = await other.store.turns.get(turn.id)
            assert there is not None
            assert (there.phase, there.error) == (Phase.RESPONDING, None)
        slow.may_end.set()
        assert (await heard(other, turn.id))[1].outcome == "completed"
