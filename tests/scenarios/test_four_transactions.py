"""An exchange takes four commits from ``ask`` to Done, and none of them waits for another component."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.job import Job, JobResult
from contextinfinity.domain.memory import Extraction, NewMemory
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.state import FoldCandidate, State, StateDraft, summary_hash
from contextinfinity.domain.turn import Completed, Phase, StepEnd, TurnEnd, Usage
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Embedder, Kind
from contextinfinity.embedders.static import built_in
from contextinfinity.engine.engine_setup import Remembering, RetrievalParts, Rewriting, Setup, extract_offline
from contextinfinity.errors import JobLost, ProviderError
from contextinfinity.memory.memory_findings import ExtractedMemories
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import WORKER, answer_turn, new_branch, turn_in
from tests.scenarios.desk import Desk

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

LOCAL = Owner()


class Commits:
    """Counts the commits of every connection that is opened."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, connection: apsw.Connection) -> None:
        connection.set_commit_hook(self._committed)

    def _committed(self) -> bool:
        self.count += 1
        return False


class Remote:
    """A remote embedder that answers when it is let, or fails."""

    is_remote = True

    def __init__(self, error: Exception | None = None) -> None:
        self._inner = built_in()
        self.name, self.dim = self._inner.name, self._inner.dim
        self.error = error
        self.may_answer = asyncio.Event()

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return self._inner.encode(texts)

    async def close(self) -> None:
        pass


@pytest.fixture
def commits() -> Iterator[Commits]:
    counting = Commits()
    apsw.connection_hooks.append(counting)
    yield counting
    apsw.connection_hooks.remove(counting)


def all_stages(embedder: Embedder | None = None, remembering: Remembering | None = None) -> Setup:
    chosen = embedder or built_in()
    return Setup(
        retrieval=RetrievalParts(embedders=Embedders(lambda: chosen)),
        remembering=remembering or Remembering(),
        rewriting=Rewriting(),
    )


async def committed(desk: Desk, commits: Commits) -> int:
    """Return the number of commits so far without those of heartbeats.

    A heartbeat may share the commit of another write; the result is then one lower.
    """
    return commits.count - sum([worker.beats for worker in await desk.engine.store.workers.list()])


async def memories(desk: Desk) -> list[str]:
    return [memory.content for memory in await desk.engine.store.memories.list(LOCAL)]


@pytest.mark.req("TURN-14")
async def test_an_exchange_takes_four_commits_with_all_stages_on(tmp_path: Path, commits: Commits) -> None:
    async with Desk(tmp_path, setup=all_stages()) as desk:
        desk.thread = (await desk.engine.store.sessions.create(NewSession(owner=LOCAL))).id
        for said in (
            "My name is Ada, and I live in Leeds.",
            "How far is the harbour from the old lighthouse?",
            "Actually, I live in Oslo now.",
            "Please forget where I live.",
        ):
            before = await committed(desk, commits)
            turn_id = await desk.ask(said)
            await desk.settle()
            turn = await desk.engine.store.turns.get(turn_id)
            assert turn is not None
            assert turn.phase is Phase.DONE, said
            assert await committed(desk, commits) - before <= 4, said
            assert await desk.engine.store.chunks.of_turn(turn_id)
        assert await memories(desk) == ["The user's name is Ada."]


@pytest.mark.req("TURN-14")
@pytest.mark.parametrize("thread_id", ["new", "a foreign id"])
async def test_the_first_exchange_of_a_conversation_takes_four_commits(
    tmp_path: Path, commits: Commits, thread_id: str
) -> None:
    async with Desk(tmp_path, setup=all_stages()) as desk:
        before = await committed(desk, commits)
        reply = await desk.engine.ask(thread_id, "My name is Ada, and I live in Leeds.")
        await desk.settle()
        turn = await desk.engine.store.turns.get(reply.turn_id)
        assert turn is not None
        assert turn.phase is Phase.DONE
        assert await committed(desk, commits) - before <= 4


@pytest.mark.req("TURN-14", "TURN-5")
@pytest.mark.parametrize("error", [None, ProviderError("The embedder does not answer.")], ids=["slow", "failing"])
async def test_a_turn_is_committed_before_a_remote_embedder_answers(tmp_path: Path, error: Exception | None) -> None:
    embedder = Remote(error)
    async with Desk(tmp_path, setup=all_stages(embedder)) as desk:
        store = desk.engine.store
        turn_id = await desk.ask("I live in Leeds.", use_memory=False)
        await desk.until(turn_id, lambda turn: turn.phase is Phase.STATE_COMMITTED)
        assert await store.chunks.of_turn(turn_id) == ()
        assert await memories(desk) == ["The user lives in Leeds."]
        embedder.may_answer.set()
        if error is not None:
            await desk.until(turn_id, lambda turn: turn.degraded)
            embedder.error = None
        await desk.until_done(turn_id)
        assert await store.chunks.of_turn(turn_id)


@pytest.mark.req("TURN-14")
async def test_a_turn_is_committed_and_indexed_before_a_model_has_extracted_memories(tmp_path: Path) -> None:
    may_answer = asyncio.Event()

    async def extract(text: str, said_at: datetime) -> ExtractedMemories:
        await may_answer.wait()
        return await extract_offline(text, said_at)

    async with Desk(tmp_path, setup=all_stages(None, Remembering(extract=extract, asks_model=True))) as desk:
        turn_id = await desk.ask("I live in Leeds.")
        await desk.until(turn_id, lambda turn: turn.phase is Phase.INDEXED)
        assert await memories(desk) == []
        may_answer.set()
        await desk.until_done(turn_id)
        assert len(await memories(desk)) == 1


@pytest.mark.req("TURN-14", "TURN-5")
async def test_a_turn_is_committed_and_remembered_though_it_cannot_be_indexed(tmp_path: Path) -> None:
    broken = Remote(ProviderError("It is broken."))
    broken.is_remote = False
    broken.may_answer.set()
    async with Desk(tmp_path, setup=all_stages(broken)) as desk:
        turn_id = await desk.ask("I live in Leeds.", use_memory=False)
        await desk.until(turn_id, lambda turn: turn.degraded)
        turn = await desk.engine.store.turns.get(turn_id)
        assert turn is not None
        assert (turn.phase, turn.state_after is not None) == (Phase.STATE_COMMITTED, True)
        assert len(await memories(desk)) == 1


async def finalised(store: SqliteStore, branch_id: str) -> tuple[Job, JobResult]:
    """Finalise a turn; return the claimed job and a result with all three parts."""
    turn = await turn_in(store, branch_id, Phase.RESPONDING)
    (step,) = await store.turns.steps(turn.id)
    ended = TurnEnd(outcome="completed", step=StepEnd(step_id=step.id, outcome=Completed()))
    _, job = await store.turns.finalise_and_claim(turn.id, WORKER, ended)
    assert job is not None
    draft = StateDraft(branch_id=branch_id, reason="turn", turn_id=turn.id)
    return job, JobResult(state=draft, chunks=(), memories=Extraction(owner=LOCAL, new=()))


async def waiting(store: SqliteStore) -> list[tuple[str, int]]:
    return [(job.job_type, job.turn_seq) for job in await store.jobs.list()]


@pytest.mark.req("TURN-7", "MEMORY-4")
async def test_memories_are_not_written_after_those_they_were_reconciled_with_changed(ledger: SqliteStore) -> None:
    fact = NewMemory(owner=LOCAL, content="The user lives in Leeds.", said_at=now())
    based_on = await ledger.memories.revision(LOCAL)
    job, result = await finalised(ledger, (await new_branch(ledger)).id)
    await ledger.memories.add(NewMemory(owner=LOCAL, content="The user lives in Oslo.", said_at=now()))
    stale = replace(result, memories=Extraction(owner=LOCAL, new=(fact,), based_on=based_on))
    await ledger.jobs.complete(job.id, WORKER, result=stale)
    assert await waiting(ledger) == [("remember_turn", 1)]
    assert [memory.content for memory in await ledger.memories.list(LOCAL)] == ["The user lives in Oslo."]


@pytest.mark.req("TURN-7")
async def test_a_part_that_an_earlier_turn_waits_for_is_written_after_it(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger)
    for left in (replace, lambda result, **_: result):
        job, result = await finalised(ledger, branch.id)
        await ledger.jobs.complete(job.id, WORKER, result=left(result, chunks=None))
    assert await waiting(ledger) == [("index_turn", 1), ("index_turn", 2)]


@pytest.mark.req("TURN-7", "TURN-8")
async def test_a_result_is_written_by_the_worker_that_has_the_job_only(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger)
    job, result = await finalised(ledger, branch.id)
    await ledger.jobs.release(job.id, WORKER)
    with pytest.raises(JobLost):
        await ledger.jobs.complete(job.id, WORKER, result=result)
    assert (await ledger.states.head(branch.id)).state_seq == 0


def candidate_for(head: State, turn_seq: int) -> FoldCandidate:
    return FoldCandidate(
        branch_id=head.branch_id,
        base_covers=head.covers_turn_seq,
        base_summary=summary_hash(head.summary),
        covers_turn_seq=turn_seq,
        summary="They said hello.",
        case="summarize",
        tokens_before=100,
        tokens_after=10,
        created_at=now(),
        spent=Usage(input_tokens=7),
    )


async def fold_job(store: SqliteStore) -> tuple[State, Job]:
    """Commit a turn and claim a fold of its branch."""
    branch = await new_branch(store)
    await answer_turn(store, branch.id, "Hello.")
    await store.jobs.enqueue("fold_branch", branch.id)
    job = await store.jobs.claim(WORKER, {"fold_branch"})
    assert job is not None
    return await store.states.head(branch.id), job


@pytest.mark.sqlite_file("it counts commits of SQLite")
@pytest.mark.req("TURN-7", "TURN-14")
async def test_a_fold_is_committed_and_its_job_ended_in_one_commit(commits: Commits, ledger: SqliteStore) -> None:
    head, job = await fold_job(ledger)
    before = commits.count
    state = await ledger.states.fold(candidate_for(head, 1), ends=job)
    assert state is not None
    assert (state.reason, state.covers_turn_seq, commits.count - before) == ("fold", 1, 1)
    assert [one.job_type for one in await ledger.jobs.list() if one.job_type == "fold_branch"] == []
    assert await ledger.states.fold(candidate_for(head, 1)) is None, "it continues a summary that was replaced"


@pytest.mark.req("TURN-7", "TURN-8")
async def test_a_fold_is_committed_by_the_worker_that_has_the_job_only(ledger: SqliteStore) -> None:
    head, job = await fold_job(ledger)
    await ledger.jobs.release(job.id, WORKER)
    with pytest.raises(JobLost):
        await ledger.states.fold(candidate_for(head, 1), ends=job)
    assert (await ledger.states.head(head.branch_id)).id == head.id
