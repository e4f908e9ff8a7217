"""Whatever any process of a data_dir acknowledged comes before the next message of its conversation (TURN-13)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import NewTurn, Phase, PrefixHashes
from contextinfinity.errors import BranchBusy, LedgerAway
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity_testing.builders import WORKER, exchange
from tests.recovery.outages import HoldsBack, back, engine_on, heard, locked, said
from tests.recovery.speaker import Speaker, script

THREAD = "a conversation"
NEVER_BACK = Bounds(patience=0.05, first_pause=3600, longest_pause=3600)
"""A process that does not look for its ledger again while the test runs."""


@pytest.mark.req("TURN-13", "TURN-9")
async def test_what_killed_processes_held_comes_before_the_next_message(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask(THREAD, "before")
    texts = ["before"]
    with Speaker(tmp_path, THREAD) as one, Speaker(tmp_path, THREAD) as two:
        assert one.reported()["open"]
        assert two.reported()["open"]
        with locked(tmp_path):
            for number in range(6):
                texts.append(f"message {number}")
                answer = (one, two)[number % 2].ask(texts[-1])
                assert (answer["turn_seq"], answer["text"].split(" | ")) == (None, texts)
            texts += ["hang", "hang too"]
            assert one.accept("hang")["durability"] == "local"
            assert two.accept("hang too")["durability"] == "local"
            one.kill()
            two.kill()
        with Speaker(tmp_path, THREAD) as third:
            third.reported()
            seen = third.ask("after")
    texts.append("after")
    assert (seen["turn_seq"], seen["text"].split(" | ")) == (len(texts), texts)
    async with engine_on(tmp_path) as engine:
        assert [asked for _, asked, _ in await said(engine, THREAD)] == texts
    assert list((tmp_path / "ledger.db-spool").iterdir()) == []


@pytest.mark.req("TURN-13")
async def test_what_a_living_process_holds_comes_before_the_next_message(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with (
        engine_on(tmp_path, provider, bounds=NEVER_BACK) as one,
        engine_on(tmp_path, ScriptedProvider(script)) as other,
    ):
        provider.may_end.set()
        await one.ask(THREAD, "before")
        with locked(tmp_path):
            held = await one.ask(THREAD, "held")
            provider.may_end.clear()
            running, _ = await one.accept(THREAD, "running")
            new, _ = await one.accept("another conversation", "made here")
        assert (held.durability, running.durability, new.durability) == ("local", "local", "local")
        waiting, _ = await other.accept(THREAD, "after")
        assert waiting.turn_seq == 4, "behind all that was acknowledged"
        provider.may_end.set()
        await heard(one, running.id)
        await one.close()
        _, after = await heard(other, waiting.id)
        assert after.text.split(" | ") == ["before", "held", "running", "after"]
        seen = await other.ask("another conversation", "and again")
        assert (seen.thread_id, seen.text.split(" | ")) == (new.session_id, ["made here", "and again"])
        assert [asked for _, asked, _ in await said(other, THREAD)] == ["before", "held", "running", "after"]


@pytest.mark.req("TURN-13", "TURN-9")
async def test_a_copy_of_a_data_dir_that_is_in_use_goes_on_after_all_that_it_holds(tmp_path: Path) -> None:
    here, copy = tmp_path / "here", tmp_path / "copy"
    async with engine_on(here) as one, engine_on(here) as two:
        texts = ["before"]
        await one.ask(THREAD, "before")
        with locked(here):
            for number in range(8):
                texts.append(f"message {number}")
                await (one, two)[number % 2].ask(THREAD, texts[-1])
            shutil.copytree(here, copy)
        await back(one)
        await back(two)
        assert [asked for _, asked, _ in await said(one, THREAD)] == texts
    async with engine_on(copy, ScriptedProvider(script)) as engine:
        assert (await engine.ask(THREAD, "after")).text.split(" | ") == [*texts, "after"]


@pytest.mark.req("TURN-13")
async def test_a_request_is_matched_with_what_another_process_holds(tmp_path: Path) -> None:
    trail = PrefixHashes(asked=1, before=0, body=2)
    async with engine_on(tmp_path, bounds=NEVER_BACK) as one, engine_on(tmp_path) as other:
        session = await one.store.sessions.create(NewSession())
        with locked(tmp_path):
            new = NewTurn(branch_id=session.active_branch, message=say("user", "held"), owner=WORKER, trail=trail)
            turn = await one.store.turns.accept(new)
        assert turn.durability == "local"
        walked = await other.store.prefix_hashes.walked(session.owner, trail)
        assert walked is not None
        assert walked.turn_id == turn.id


@pytest.mark.req("TURN-13")
async def test_nothing_passes_an_exchange_that_waits_in_a_spool_for_a_running_turn(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, bounds=NEVER_BACK) as one, engine_on(tmp_path, provider) as other:
        running, _ = await other.accept(THREAD, "running")
        await provider.said.wait()
        with locked(tmp_path):
            (recorded,) = await one.store.turns.record(running.branch_id, [exchange("recorded", "elsewhere")])
            held = await one.ask(THREAD, "held")
        assert (recorded.durability, held.durability) == ("local", "local")
        for breaker in (one.store._held.reads, one.store._held.writes):  # type: ignore[attr-defined]
            breaker.close()  # as a probe does before anything is replayed
        with pytest.raises(BranchBusy):
            await other.store.turns.accept(NewTurn(branch_id=running.branch_id, message=say("user", "too early")))
        with pytest.raises(LedgerAway):
            await one.pin(THREAD, "The sky is blue.")
        provider.may_end.set()
        async with asyncio.timeout(100):  # an exchange is recorded behind committed turns only
            while (await other.store.turns.history(running.branch_id))[-1].phase is not Phase.DONE:
                await asyncio.sleep(0)
        await other.ask(THREAD, "after")
        await one.pin(THREAD, "The sky is blue.")
        assert [asked for _, asked, _ in await said(other, THREAD)] == ["running", "recorded", "held", "after"]
