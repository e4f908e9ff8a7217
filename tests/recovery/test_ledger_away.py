"""The ledger goes away and comes back: locked by another process, failing, stopped in the middle of a request."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from contextinfinity.domain.events import TurnStarted
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Phase
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import AlreadyExists, LedgerAway, LedgerFailed, LedgerFull, QueueFull, SpoolFull
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.settings import General, Settings
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.spool import Spooled, read, rewrite
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity.telemetry.counters import counters
from contextinfinity.upkeep.examine import examine
from contextinfinity.upkeep.safe_repair import examine_and_repair
from contextinfinity_testing.builders import exchange, new_turn
from contextinfinity_testing.faults import CHANGING, FailingDisk
from tests.ledgers import open_store
from tests.recovery.outages import SOON, HoldsBack, back, engine_on, heard, locked, said, until
from tests.recovery.speaker import script

T = TypeVar("T")

EVERYTHING = (*CHANGING, "read")
LATER = 2**32
"""A time that has not come, in seconds since 1970."""


def spooled(folder: Path, turn_id: str) -> ReplayedTurn:
    """A turn as the spool holds it at this moment."""
    (path,) = (folder / "ledger.db-spool").iterdir()
    landing = read(path).turns[turn_id]
    assert isinstance(landing, ReplayedTurn)
    return landing


# --- another process holds the ledger ---


@pytest.mark.req("CHATMEM-6")
async def test_while_another_process_holds_the_ledger_messages_are_answered_and_land_later_in_order(
    tmp_path: Path,
) -> None:
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
        with locked(tmp_path):
            events = [event async for event in engine.send(thread, "first")]
            started, finished = events[0], events[-1].turn  # type: ignore[union-attr]
            assert isinstance(started, TurnStarted)
            assert (started.turn_seq, started.durability) == (None, "local")
            assert (finished.turn_seq, finished.durability, finished.outcome) == (None, "local", "completed")
            assert spooled(tmp_path, finished.turn_id).end is not None, "durable before it is told"
            second = await engine.ask(thread, "second")
            assert (second.turn_seq, second.durability) == (None, "local")
        await back(engine)
        after = await engine.ask(thread, "after")
        assert (after.turn_seq, after.durability) == (4, UNSET)
        asked = [(seq, question) for seq, question, _ in await said(engine, thread)]
        assert asked == [(1, "before"), (2, "first"), (3, "second"), (4, "after")]
        assert list((tmp_path / "ledger.db-spool").iterdir()) == []


@pytest.mark.req("CHATMEM-6")
async def test_after_the_first_failure_nobody_waits_for_the_ledger(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
        with locked(tmp_path):  # the ledger itself would wait ten seconds for each write
            async with asyncio.timeout(5):
                for number in range(10):
                    await engine.ask(thread, f"question {number}")
        await back(engine)
        assert len(await said(engine, thread)) == 11


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6", "THREAD-4")
async def test_a_ledger_that_others_go_on_writing_to_is_not_away(tmp_path: Path) -> None:
    store, log = open_store(tmp_path / "ledger.db"), tmp_path / "ledger.db-wal"
    await store.sessions.create(NewSession())
    with locked(tmp_path):
        waiting = asyncio.create_task(store.sessions.create(NewSession()))
        os.utime(log, (0, 0))
        await until(lambda: store.blocked_seconds() > 0.05)
        os.utime(log, (LATER, LATER))  # another process keeps committing
        assert store.blocked_seconds() == 0
    await waiting
    await store.close()


@pytest.mark.req("CHATMEM-6", "THREAD-4")
async def test_what_another_process_holds_for_the_ledger_is_not_said_to_be_gone(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine, engine_on(tmp_path) as other:
        thread = (await engine.ask("new", "before")).thread_id
        assert isinstance(engine.store, StandbyStore)
        with locked(tmp_path):
            held = await engine.ask(thread, "held here")
            assert held.durability == "local"
            with pytest.raises(LedgerAway, match="another process may be holding it"):
                await other.store.turns.get(held.turn_id)
            with pytest.raises(LedgerAway, match="another process may be holding it"):
                await other.session(new_id())
        await back(engine)
        turn = await other.store.turns.get(held.turn_id)
        assert turn is not None
        assert turn.text == held.text
        await until(lambda: not list((tmp_path / "ledger.db-spool").iterdir()))
        assert await other.store.turns.get(new_id()) is None


async def test_a_thread_that_begins_while_the_ledger_is_away_keeps_its_ids(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        with locked(tmp_path):
            one = await engine.ask("new", "hello")
            two = await engine.ask("customer-42", "hello from afar")
            again = await engine.ask("customer-42", "and again")
            assert two.thread_id == again.thread_id
        await back(engine)
        assert [asked for _, asked, _ in await said(engine, one.thread_id)] == ["hello"]
        assert [asked for _, asked, _ in await said(engine, "customer-42")] == ["hello from afar", "and again"]
        session = await engine.session("customer-42")
        assert (session.id, session.active_branch) == (two.thread_id, two.branch_id)


@pytest.mark.req("CHATMEM-6", "LEDGER-1")
async def test_a_thread_whose_creation_came_through_unheard_keeps_its_ids(tmp_path: Path) -> None:
    ledger = open_store(tmp_path / "ledger.db")
    write = ledger.database.write

    async def unheard(work: Callable[[SqliteConnection], T], **how: bool) -> T:
        await write(work, **how)
        ledger.database.write = write  # type: ignore[method-assign]
        raise LedgerFailed("The disk failed after the commit.")

    ledger.database.write = unheard  # type: ignore[method-assign]
    store = StandbyStore(ledger, tmp_path / "ledger.db-spool", SOON)
    session = await store.sessions.create(NewSession())
    (held,) = await store.turns.record(session.active_branch, [exchange("one", "1")])
    assert held.durability == "local"
    await until(lambda: store.health().status == "ready")
    there = await store.turns.get(held.id)
    assert there is not None
    assert (there.session_id, there.branch_id) == (session.id, session.active_branch)
    await store.close()


async def test_a_thread_that_is_created_again_while_the_ledger_is_away_is_the_one_that_is_there(tmp_path: Path) -> None:
    store = StandbyStore(open_store(tmp_path / "ledger.db"), tmp_path / "ledger.db-spool", SOON)
    session = await store.sessions.create(NewSession(id=new_id()))
    with locked(tmp_path):
        assert await store.sessions.create(NewSession(id=session.id)) == session
        with pytest.raises(AlreadyExists):
            await store.sessions.create(NewSession(id=session.id, owner=Owner(user_id="ada")))
    await store.close()


async def test_what_is_said_at_once_lands_in_the_order_in_which_it_was_taken_on(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
        texts = [f"question {number}" for number in range(8)]
        with locked(tmp_path):
            turns = [(await engine.accept(thread, text))[0] for text in texts]
            await asyncio.gather(*(heard(engine, turn.id) for turn in turns))
        await back(engine)
        assert [asked for _, asked, _ in await said(engine, thread)] == ["before", *texts]


async def test_too_many_that_wait_are_refused_here_too(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, provider) as engine:
        with locked(tmp_path):
            first, _ = await engine.accept("thread", "runs")
            for number in range(16):
                await engine.accept("thread", f"waits {number}")
            with pytest.raises(QueueFull) as refused:
                await engine.accept("thread", "one too many")
            assert refused.value.running == first.id
            provider.may_end.set()
        await back(engine)
        await until(lambda: not engine.tasks)
        assert len(await said(engine, "thread")) == 17


async def test_a_turn_is_cancelled_while_the_ledger_is_away(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, provider) as engine:
        with locked(tmp_path):
            turn, _ = await engine.accept("thread", "stop me")
            await provider.said.wait()
            assert (await engine.cancel(turn.id)).outcome == "cancelled"
        await back(engine)
        stored = await engine.store.turns.get(turn.id)
        assert stored is not None
        assert stored.outcome == "cancelled"


# --- it stops in the middle of a request ---


@pytest.mark.req("CHATMEM-6", "TURN-9")
async def test_a_ledger_that_goes_right_after_the_message_was_accepted_gets_the_answer_later(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        turn, _ = await engine.accept("thread", "what now?")
        with locked(tmp_path):
            _, finished = await heard(engine, turn.id)
            assert (finished.outcome, finished.turn_seq, finished.durability) == ("completed", 1, "local")
        await back(engine)
        assert await said(engine, "thread") == [(1, "what now?", finished.text)]


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6", "TURN-9")
async def test_a_ledger_that_goes_while_the_answer_streams_gets_it_later(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, provider) as engine:
        turn, _ = await engine.accept("thread", "tell me")
        await provider.said.wait()
        with locked(tmp_path):
            provider.may_end.set()
            _, finished = await heard(engine, turn.id)
            assert (finished.outcome, finished.turn_seq, finished.durability) == ("completed", 1, "local")
            with_ledger = open_store(tmp_path / "ledger.db")
            there = await with_ledger.turns.get(turn.id)
            await with_ledger.close()
            assert there is not None
            assert there.phase is Phase.RESPONDING
        await back(engine)
        assert await said(engine, "thread") == [(1, "tell me", finished.text)]
        assert await engine.context(turn.id) is not None


@pytest.mark.req("CHATMEM-6")
async def test_a_turn_that_still_runs_when_the_ledger_returns_goes_on_there(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, provider) as engine:
        with locked(tmp_path):
            turn, _ = await engine.accept("thread", "slowly")
            assert turn.durability == "local"
            await provider.said.wait()
        await back(engine)
        there = await engine.store.turns.get(turn.id)
        assert there is not None
        assert (there.phase, there.durability, there.turn_seq) == (Phase.RESPONDING, "ledger", 1)
        provider.may_end.set()
        _, finished = await heard(engine, turn.id)
        assert (finished.turn_seq, finished.durability) == (1, UNSET)
        assert await said(engine, "thread") == [(1, "slowly", finished.text)]


async def test_the_ledger_goes_and_comes_many_times_in_one_conversation(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        for number in range(4):
            with locked(tmp_path):
                await engine.ask("thread", f"away {number}")
            await engine.ask("thread", f"perhaps there {number}")
            await back(engine)
        asked = [question for _, question, _ in await said(engine, "thread")]
        assert asked == [words for number in range(4) for words in (f"away {number}", f"perhaps there {number}")]


# --- it fails to read and write ---


@pytest.mark.req("CHATMEM-6")
@pytest.mark.parametrize("counted", [CHANGING, EVERYTHING], ids=["writing", "everything"])
async def test_a_disk_that_fails_and_recovers_costs_nothing(tmp_path: Path, counted: tuple[str, ...]) -> None:
    with FailingDisk(counted=counted) as disk:  # type: ignore[arg-type]
        async with engine_on(tmp_path, vfs=disk.name) as engine:
            await engine.ask("thread", "before")
            disk.break_down("io")
            first = await engine.ask("thread", "first")
            second = await engine.ask("thread", "second")
            assert (first.outcome, first.durability) == ("completed", "local")
            assert (second.outcome, second.durability) == ("completed", "local")
            disk.repair()
            await back(engine)
            assert [asked for _, asked, _ in await said(engine, "thread")] == ["before", "first", "second"]


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6")
async def test_a_reader_that_cannot_be_opened_any_more_finds_the_ledger_away_and_not_foreign(tmp_path: Path) -> None:
    with FailingDisk() as disk:
        store = open_store(tmp_path / "ledger.db", vfs=disk.name)
        disk.break_down("io")  # before anything was read: readers open the file when they are first asked
        with pytest.raises(LedgerFailed, match="cannot be opened any more"):
            await store.sessions.get(new_id())
        disk.repair()
        assert await store.sessions.get(new_id()) is None
        await store.close()


@pytest.mark.req("CHATMEM-6")
async def test_an_engine_can_be_left_while_its_disk_fails(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    with FailingDisk(counted=EVERYTHING) as disk:
        async with engine_on(tmp_path, vfs=disk.name) as engine:
            await engine.ask("thread", "before")
            disk.break_down("io")
            assert not await engine.job_runner.drain(100)
            await engine.close(job_seconds=20)
        left = {*threading.enumerate()} - before
        assert not [thread for thread in left if thread.name.startswith("ledger-")]


@pytest.mark.req("METRICS-3")
async def test_a_full_disk_stays_the_error_it_is_and_shows_in_the_health(tmp_path: Path) -> None:
    with FailingDisk() as disk:
        async with engine_on(tmp_path, vfs=disk.name) as engine:
            await engine.ask("thread", "before")
            await engine.job_runner.drain(100)  # its job would notice the fault first, with another reason
            disk.break_down("full")
            with pytest.raises(LedgerFull):
                await engine.accept("thread", "no room")
            assert engine.health().status == "degraded"
            assert "the disk is full" in engine.health().reason
            disk.repair()
            assert (await engine.ask("thread", "room again")).turn_seq == 2
            assert engine.health().status == "ready"


@pytest.mark.req("CHATMEM-6")
async def test_what_the_model_sees_while_nothing_can_be_read_is_what_was_seen_and_what_is_held(tmp_path: Path) -> None:
    shown: list[list[str]] = []

    def answer(request: ProviderRequest) -> str:
        shown.append([message.rendered_text for message in request.prompt.messages])
        return f"answer {len(shown)}"

    async with engine_on(tmp_path, ScriptedProvider(answer)) as engine:
        for number in range(3):
            await engine.ask("thread", f"question {number}")
        standby = engine.store
        assert isinstance(standby, StandbyStore)
        with locked(tmp_path), standby.kept_away():
            await engine.ask("thread", "held one")
            await engine.ask("thread", "held two")
            texts = "\n".join(shown[-1])
            for expected in ("question 0", "answer 1", "question 2", "answer 3", "held one", "answer 4", "held two"):
                assert expected in texts
        await back(engine)
        assert len(await said(engine, "thread")) == 5


@pytest.mark.req("CHATMEM-6")
async def test_a_ledger_that_was_taken_away_under_the_engine_is_noticed(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask("thread", "before")
        (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
        assert engine.health().status == "degraded"
        assert "was moved, deleted or replaced" in engine.health().reason
        (tmp_path / "elsewhere.db").rename(tmp_path / "ledger.db")
        assert engine.health().status == "ready"


# --- what is refused ---


@pytest.mark.req("THREAD-14")
async def test_a_full_spool_refuses_before_anything_is_acknowledged(tmp_path: Path) -> None:
    small = Bounds(patience=0.05, first_pause=0.01, longest_pause=0.05, most_bytes=400_000)
    async with engine_on(tmp_path, bounds=small) as engine:
        await engine.ask("thread", "before")
        taken: list[str] = []
        with locked(tmp_path):
            with pytest.raises(SpoolFull) as refused:
                await ask_on(engine, taken)
            assert refused.value.code == "spool_full"
            assert "spool" in refused.value.message
        assert taken
        await back(engine)
        assert [asked for _, asked, _ in await said(engine, "thread")] == ["before", *taken]


async def ask_on(engine: Engine, taken: list[str]) -> None:
    """Ask long questions until one is refused."""
    while True:
        await engine.ask("thread", text := f"{len(taken)} " + "x" * 20_000)
        taken.append(text)


async def test_a_thread_nobody_here_has_seen_is_not_made_up(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
    async with engine_on(tmp_path) as engine:
        assert isinstance(engine.store, StandbyStore)
        with locked(tmp_path), engine.store.kept_away(), pytest.raises(LedgerAway):
            await engine.accept(thread, "do you know me?")


# --- who takes it over ---


@pytest.mark.req("CHATMEM-6", "TURN-9")
async def test_what_is_held_when_a_process_ends_lands_with_the_next_one(tmp_path: Path) -> None:
    async with engine_on(tmp_path, patience=0.5) as engine:
        before = await engine.ask("thread", "before")
        with locked(tmp_path):
            held = await engine.ask("thread", "held")
            await engine.close(job_seconds=0)
    assert [path.suffix for path in (tmp_path / "ledger.db-spool").iterdir()] == [".spool"]
    async with engine_on(tmp_path) as engine:
        assert await said(engine, "thread") == [(1, "before", before.text), (2, "held", held.text)]
        assert list((tmp_path / "ledger.db-spool").iterdir()) == []


@pytest.mark.req("CHATMEM-6", "TURN-9")
async def test_a_spool_that_landed_and_was_not_removed_lands_again_without_a_trace(tmp_path: Path) -> None:
    async with engine_on(tmp_path, patience=0.5) as engine:
        with locked(tmp_path):
            await engine.ask("thread", "one")
            await engine.ask("thread", "two")
            await engine.close(job_seconds=0)
    (spool,) = (tmp_path / "ledger.db-spool").iterdir()
    records = spool.read_bytes()
    async with engine_on(tmp_path) as engine:
        before = await said(engine, "thread")
        assert len(before) == 2
    spool.write_bytes(records)
    async with engine_on(tmp_path) as engine:
        assert await said(engine, "thread") == before
    assert not spool.exists()


async def test_a_worker_whose_spool_waits_is_not_taken_for_dead(tmp_path: Path) -> None:
    provider = HoldsBack()
    async with engine_on(tmp_path, provider) as engine:
        turn, _ = await engine.accept("thread", "tell me")
        await provider.said.wait()
        other = StandbyStore(open_store(tmp_path / "ledger.db"), tmp_path / "ledger.db-spool", SOON)
        with locked(tmp_path):
            provider.may_end.set()
            await heard(engine, turn.id)
            taken = await other.workers.take_over(engine.worker_lease.worker.id, by="other")
        assert taken.turns == ()
        await back(engine)
        await other.close()
        stored = await engine.store.turns.get(turn.id)
        assert stored is not None
        assert stored.outcome == "completed"


# --- it can be seen ---


@pytest.mark.req("METRICS-3", "CHATMEM-7")
async def test_an_outage_can_be_seen_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    at_once = Bounds(patience=0.05, first_pause=0.01, longest_pause=0.02, alert_seconds=0)
    before = counters()
    async with engine_on(tmp_path, bounds=at_once) as engine:
        assert engine.health().status == "ready"
        thread = (await engine.ask("new", "before", user_id="ada")).thread_id
        with locked(tmp_path), caplog.at_level(logging.ERROR):
            await engine.ask(thread, "a secret", user_id="ada")
            health = engine.health()
            assert (health.status, health.spool_depth) == ("degraded", 1)
            assert health.since is not None
            assert "holds the ledger" in health.reason
            assert counters()["spool_depth"] == 1
            await until(lambda: any(record.levelno == logging.CRITICAL for record in caplog.records))
        await back(engine)
        assert engine.health().since is None
    alerts = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(alerts) == 1
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    (failure,) = [record for record in failures if record.__dict__.get("operation") == "accept"]
    for name, value in {"session_id": thread, "user_id": "ada"}.items():
        assert failure.__dict__[name] == value
        assert f"{name}={value}" in failure.getMessage()
    assert "holds the ledger" in failure.__dict__["error"]
    assert not any("a secret" in record.getMessage() for record in caplog.records)
    grown = {name: counters()[name] - before.get(name, 0) for name in ("fallback_activations", "turn_writes_failed")}
    assert grown == {"fallback_activations": 1, "turn_writes_failed": 1}
    assert counters()["turn_writes_ok"] > before.get("turn_writes_ok", 0)
    assert counters()["spool_depth"] == 0


# --- for those who keep finished turns ---


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-6")
async def test_exchanges_are_recorded_and_read_back_while_the_ledger_is_away(tmp_path: Path) -> None:
    store = StandbyStore(open_store(tmp_path / "ledger.db"), tmp_path / "ledger.db-spool", SOON)
    session = await store.sessions.create(NewSession(owner=Owner(user_id="ada"), kind="chat"))
    branch = session.active_branch
    await store.turns.record(branch, [exchange("one", "1")])
    with locked(tmp_path):
        (held,) = await store.turns.record(branch, [exchange("two", "2")])
        assert (held.durability, held.has_place) == ("local", False)
        assert [turn.text for turn in await store.turns.history(branch)] == ["1", "2"]
        new = await store.sessions.create(NewSession(owner=Owner(user_id="ada"), kind="chat"))
        await store.turns.record(new.active_branch, [exchange("elsewhere", "3")])
    await until(lambda: store.health().status == "ready")
    landed = await store.turns.history(branch)
    assert [(turn.turn_seq, turn.text, turn.phase) for turn in landed] == [(1, "1", Phase.DONE), (2, "2", Phase.DONE)]
    assert landed[1].id == held.id
    assert [turn.text for turn in await store.turns.history(new.active_branch)] == ["3"]
    await store.close()


async def test_a_name_that_was_taken_unseen_leads_to_the_thread_that_has_it(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask("customer-42", "long ago")
    async with engine_on(tmp_path) as engine:
        assert isinstance(engine.store, StandbyStore)
        with locked(tmp_path), engine.store.kept_away():
            held = await engine.ask("customer-42", "now")
        await back(engine)
        assert [asked for _, asked, _ in await said(engine, "customer-42")] == ["long ago", "now"]
        assert (await engine.session(held.thread_id)).external_id == "customer-42", "the id given out leads there"


@pytest.mark.req("CHATMEM-6")
async def test_the_doctor_tells_of_a_spool_that_waits_and_keeps_its_journals(tmp_path: Path) -> None:
    settings = Settings(general=General(data_dir=str(tmp_path)))
    provider = HoldsBack()
    async with engine_on(tmp_path, provider, patience=0.5) as engine:
        with locked(tmp_path):
            await engine.accept("thread", "cut me off")
            await provider.said.wait()
            await engine.close(answer_seconds=0, job_seconds=0)
    report = examine_and_repair(settings, least_free=0)
    (finding,) = [finding for finding in report.findings if finding.code == "spool_waiting"]
    assert finding.where.endswith("1 turn")
    assert not {"journal_stray", "journal_unfinished"} & {finding.code for finding in report.findings}
    async with engine_on(tmp_path) as engine:
        ((_, asked, answer),) = await said(engine, "thread")
        assert asked == "cut me off"
        assert answer
    assert examine(settings, least_free=0).findings == ()


# --- what the ledger cannot accept ---


@pytest.mark.req("CHATMEM-6", "METRICS-3")
async def test_a_spool_that_the_ledger_will_never_accept_makes_every_process_degraded(tmp_path: Path) -> None:
    new = replace(new_turn(new_id(), "of a branch that no ledger knows"), id=new_id())
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
        branch_id = (await engine.session(thread)).active_branch
    known = replace(new, id=new_id(), branch_id=branch_id)
    landings = [ReplayedTurn(turn_id=each.id or "", new=each, said_at=now()) for each in (new, known)]
    spools = tmp_path / "ledger.db-spool"
    spools.mkdir(exist_ok=True)
    rewrite(spools / f"{new_id()}.spool", Spooled(turns={each.turn_id: each for each in landings}))
    for _ in range(2):
        async with engine_on(tmp_path) as engine:
            assert [asked for _, asked, _ in await said(engine, thread)] == ["before", new.message.rendered_text]
            health = engine.health()
            assert health.status == "degraded"
            assert f"turn {new.id}: There is no branch" in health.reason
            assert "cix doctor" in health.reason
    findings = examine(Settings(general=General(data_dir=str(tmp_path))), least_free=0).findings
    (where,) = [finding.where for finding in findings if finding.code == "spool_refused"]
    assert "There is no branch" in where
    (refused,) = spools.iterdir()
    refused.unlink()
    async with engine_on(tmp_path) as engine:
        assert engine.health().status == "ready"


@pytest.mark.req("API-14")
async def test_users_with_threads_of_one_name_stay_apart_while_the_ledger_is_away(tmp_path: Path) -> None:
    users = ("ann", "bob")
    async with engine_on(tmp_path, ScriptedProvider(script)) as engine:
        for user in users:
            await engine.ask("seen", f"{user} before", user_id=user)
        with engine.store.kept_away():  # type: ignore[attr-defined]
            for user in users:
                for name in ("seen", "unseen"):
                    await engine.ask(name, f"{user} away", user_id=user)
        await back(engine)
        for user in users:
            answers = [await engine.ask(name, "again", user_id=user) for name in ("seen", "unseen")]
            texts = [answer.text.split(" | ") for answer in answers]
            assert texts == [[f"{user} before", f"{user} away", "again"], [f"{user} away", "again"]]
