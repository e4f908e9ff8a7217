"""What is deleted is gone everywhere: the next prompt, the summary, the search, the account of past requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.prompt_material import UNREAD
from contextinfinity.errors import BranchBusy, NotFound
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.providers.scripted import ScriptedReply
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.telemetry.counters import counters
from contextinfinity_testing.stores.deletions import told
from tests.scenarios.desk import Desk
from tests.scenarios.test_folding import SMALL, SMALL_TALK, Watching, until_folded

PRIVATE = "zygomorphic"


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(100):
        while not await true():
            await asyncio.sleep(0)


async def with_ttl(desk: Desk, ttl_hours: float = 24.0) -> str:
    """Let the desk speak in a session with a time to live; return its branch."""
    session = await desk.engine.store.sessions.create(NewSession(ttl_hours=ttl_hours))
    desk.thread = session.id
    return session.active_branch


def age(desk: Desk, upto: int) -> None:
    """Make turns older than a day, which no verb can: they were said a moment ago."""
    raw = connect(str(desk.path))
    guard = raw.execute("SELECT sql FROM sqlite_schema WHERE name = 'turn_content_is_immutable'").get
    with raw:
        raw.execute("DROP TRIGGER turn_content_is_immutable")
        raw.execute("UPDATE turn SET created_at = created_at - 2 * 86400000 WHERE turn_seq <= ?", (upto,))
        raw.execute("UPDATE expiry SET due = 0")
        raw.execute(guard)
    raw.close()


@pytest.mark.req("CHATMEM-4")
async def test_the_next_prompt_holds_what_is_left_and_says_nothing_of_the_rest(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        branch = await with_ttl(desk)
        old = [told(f"{PRIVATE} {n}", hours=30) for n in range(3)]
        await desk.engine.store.turns.record(branch, [*old, told("what is left", hours=1)])
        turn = await desk.ask("And now?")
        assert [text for role, text in desk.shown if role == "user"] == ["what is left", "And now?"]
        assert UNREAD not in str(desk.prompts[-1])
        plan = await desk.plan(turn)
        assert not [left for left in plan.left_out if left.what.startswith("turns ")]
        assert await desk.engine.store.deletions.due() == ()
        assert (await desk.head()).turn_seq <= 5


@pytest.mark.sqlite_file("it drops a trigger")
@pytest.mark.req("CHATMEM-4", "COMPACT-1")
async def test_a_summary_of_what_is_gone_is_made_anew_of_what_is_left(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL)) as desk:
        await with_ttl(desk)
        await desk.ask(f"We decided to call it {PRIVATE}.")
        head = await until_folded(desk)
        assert PRIVATE in head.summary
        shown = await desk.ask("And?")
        assert PRIVATE in str(desk.prompts[-1])
        left = [told(f"We decided to call it heron, number {n}. {SMALL_TALK}") for n in range(30)]
        await desk.settle()
        await desk.engine.store.turns.record(await desk.branch(), left)
        age(desk, 1)
        result = await desk.engine.clean_up()
        assert (result.turns_deleted, result.sessions_deleted, result.errors) == (1, 0, ())
        await desk.settle()
        again = await desk.head()
        assert again.reason == "fold"
        assert "heron" in again.summary
        assert PRIVATE not in again.summary
        await desk.ask("And now?")
        assert PRIVATE not in str(desk.prompts[-1])
        with pytest.raises(NotFound):
            await desk.engine.explain(shown)
    await asyncio.to_thread(nowhere, tmp_path)


def nowhere(folder: Path) -> None:
    """Make sure that no file holds the word."""
    assert not [file for file in folder.rglob("*") if file.is_file() and PRIVATE.encode() in file.read_bytes()]


@pytest.mark.sqlite_file("it drops a trigger")
@pytest.mark.req("CHATMEM-4", "COMPACT-1")
async def test_a_fold_that_read_what_was_deleted_meanwhile_is_not_made(tmp_path: Path) -> None:
    librarian = Watching(lambda task: " ".join(said.text for said in task.said)[:80])
    librarian.may_end.clear()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian)) as desk:
        branch = await with_ttl(desk)
        while not librarian.began.is_set():
            await desk.ask(f"{PRIVATE}: {SMALL_TALK}")
        await desk.engine.job_runner.drain(5)
        (*_, last) = await desk.engine.store.turns.history(branch)
        await desk.engine.store.turns.record(branch, [told("what is left")])
        age(desk, last.turn_seq)
        await desk.engine.clean_up()
        librarian.may_end.set()
        await desk.settle()
        head = await desk.head()
        assert (head.reason, head.summary) == ("delete", "")
        await desk.ask("And now?")
        assert [text for role, text in desk.shown if role == "user"] == ["what is left", "And now?"]


@pytest.mark.sqlite_file("it drops a trigger")
@pytest.mark.req("CHATMEM-4")
async def test_the_account_of_a_past_request_names_what_is_gone(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        branch = await with_ttl(desk)
        await desk.ask(f"{PRIVATE} one")
        await desk.ask(f"{PRIVATE} two")
        turn = await desk.ask("three")
        await desk.settle()
        age(desk, 1)
        await desk.engine.clean_up()
        explained = await desk.engine.explain(turn)
        assert explained.removed == ("turn 1",)
        assert not explained.matches
        assert [kept.turn_seq for kept in await desk.engine.store.turns.history(branch)] == [2, 3]


@pytest.mark.req("CHATMEM-4")
async def test_a_deleted_conversation_is_gone_with_its_journals(tmp_path: Path) -> None:
    async with Desk(tmp_path, f"The {PRIVATE} answer.") as desk:
        turn = await desk.ask(f"the {PRIVATE} question")
        await desk.settle()
        assert list((tmp_path / "streams").iterdir())
        before = counters().get("turns_deleted", 0)
        deleted = await desk.engine.delete(desk.thread)
        assert (deleted.thread_id, deleted.turns) == (desk.thread, 1)
        assert counters()["turns_deleted"] == before + 1
        for ask in (desk.engine.explain(turn), desk.engine.session(desk.thread), desk.engine.context(turn)):
            with pytest.raises(NotFound):
                await ask
        with pytest.raises(NotFound):
            await desk.ask("Still there?")
        assert not list((tmp_path / "streams").iterdir())
    await asyncio.to_thread(nowhere, tmp_path)


async def test_a_conversation_is_not_deleted_under_an_answer(tmp_path: Path) -> None:
    async with Desk(tmp_path, ScriptedReply(text="Slowly.", hang=True)) as desk:
        await with_ttl(desk)
        asking = asyncio.create_task(desk.ask("Hello?"))
        await until(lambda: _is_answered(desk))
        with pytest.raises(BranchBusy, match="cancel"):
            await desk.engine.delete(desk.thread)
        (turn,) = await desk.engine.store.turns.history((await desk.engine.session(desk.thread)).active_branch)
        await desk.engine.cancel(turn.id)
        await asking
        await desk.settle()
        assert (await desk.engine.delete(desk.thread)).turns == 1


async def _is_answered(desk: Desk) -> bool:
    return bool(desk.prompts)


@pytest.mark.sqlite_file("it locks the file")
@pytest.mark.req("CHATMEM-5", "METRICS-3")
async def test_an_engine_cleans_up_by_itself_and_again_after_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    often = Setup(clean_up_every=timedelta(milliseconds=10))
    async with Desk(tmp_path, setup=often, patience=0.05) as desk:
        branch = await with_ttl(desk)
        await desk.engine.store.turns.record(branch, [told("young")])
        runs, failed = counters().get("cleanup_runs", 0), counters().get("cleanups_failed", 0)
        other = connect(str(desk.path))
        other.execute("BEGIN IMMEDIATE")

        async def has_failed() -> bool:
            return counters().get("cleanups_failed", 0) > failed

        other.execute("UPDATE expiry SET due = 0")
        other.execute("COMMIT")
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE expiry SET ttl = 0")
        await until(has_failed)
        other.execute("COMMIT")
        other.close()

        async def is_gone() -> bool:
            return await desk.engine.store.sessions.get(desk.thread) is None

        await until(is_gone)
        assert counters()["cleanup_runs"] > runs
    assert "clean-up: " in caplog.text
    assert "is in use" in caplog.text


@pytest.mark.req("CHATMEM-4")
async def test_deleting_an_unknown_conversation_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=Ceilings())) as desk:
        with pytest.raises(NotFound):
            await desk.engine.delete(new_id())


@pytest.mark.req("SAFE-4")
@pytest.mark.sqlite_file("it reads the bytes of the file")
async def test_bytes_are_overwritten_once_for_all_conversations_of_a_user(tmp_path: Path) -> None:
    """Each pass waits for what others write; one for each conversation took minutes beside a busy server."""
    async with Desk(tmp_path) as desk:
        for number in range(5):
            desk.thread = "new"
            await desk.ask(f"{PRIVATE} {number}")
        await desk.settle()
        deletions, passes = desk.engine.store.deletions, []
        overwrite = deletions.sweep

        async def counted() -> bool:
            passes.append(1)
            return await overwrite()

        deletions.sweep = counted  # type: ignore[method-assign, assignment]
        deleted = await desk.engine.deleting.user(Owner())
        assert (deleted.conversations, deleted.remaining) == (5, ())
        assert len(passes) <= 2
    assert PRIVATE.encode() not in desk.path.read_bytes()
