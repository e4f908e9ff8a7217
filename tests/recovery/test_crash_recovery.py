"""A process was killed; another one starts. Document E's acceptance tests 2 and 3, and recovery phase by phase."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.torture.inspection import connect, contents, kept_turns
from benchmarks.torture.observations import Accepted, Ended, Event, Shown
from benchmarks.torture.plans import Kill, Side
from benchmarks.torture.script import pieces_of
from benchmarks.torture.workload import engine_on, until_quiet
from contextinfinity.domain.events import Delta, TurnDone, TurnFailed
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Incomplete, Phase, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.prompt.prompt_sections import CUT_OFF
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch, turn_in
from tests.recovery.doomed import THREAD, died_at, process, rest_of, shown_in, told_until

WHOLE = "plain Where does the heron live?"
LATE = "burst Where does the heron live?"
"""Its chunks and memories are written by jobs of their own."""
ENDLESS = "endless What does the heron eat?"

AFTER_ACCEPT = Kill(way="boundary", boundary="accept", side="after")
AFTER_TX_A = Kill(way="boundary", boundary="finalise", side="after")
BEFORE_TX_B = Kill(way="boundary", boundary="complete summarize_turn", side="before")


def waited_for_cpu() -> float:
    """How long the calling thread was ready to run while other processes had the CPU; 0 where Linux does not say."""
    counts = Path("/proc/thread-self/schedstat")
    return int(counts.read_text().split()[1]) / 1e9 if counts.exists() else 0.0


@pytest.fixture
def folder(quick_folder: Path) -> Path:
    return quick_folder / "data"


def killed_while_streaming(folder: Path) -> list[Event]:
    """Have one message answered, and kill the process when three pieces of the next answer were shown."""

    def enough(facts: list[Event]) -> bool:
        asked = [fact.turn_id for fact in facts if isinstance(fact, Accepted)]
        return sum(isinstance(fact, Shown) and fact.turn_id == asked[-1] for fact in facts) >= 3 and len(asked) == 2

    with process(folder, WHOLE, ENDLESS) as running:
        facts = told_until(running, enough)
        running.kill()
        return facts + rest_of(running)


async def recovered(folder: Path) -> tuple[list[Turn], list[State]]:
    """Start, let everything that was left be done, and return the turns and states of the talk."""
    async with engine_on(folder) as (engine, store):
        assert await until_quiet(store)
        branch = (await engine.session(THREAD)).active_branch
        return list(await store.turns.history(branch)), list(await store.states.list(branch))


def phases(folder: Path) -> list[str]:
    """Read how far the turns are in the file, without starting anything."""
    connection = connect(folder)
    found = [turn.phase for turn in kept_turns(connection)]
    connection.close()
    return found


@pytest.mark.req("STREAM-3", "TURN-8", "TURN-9")
async def test_a_killed_stream_is_shown_as_incomplete_and_the_head_has_not_moved(folder: Path) -> None:
    facts = killed_while_streaming(folder)
    assert phases(folder)[1] == "Responding"
    turns, states = await recovered(folder)
    cut = turns[1]
    assert cut.phase is Phase.FAILED
    assert cut.outcome == "incomplete"
    assert cut.error is not None
    assert cut.error.code == "interrupted"
    assert cut.answer is not None
    assert cut.answer.rendered_text.startswith(shown_in(facts)), "whatever was shown is kept"
    assert "".join(pieces_of(ENDLESS)).startswith(cut.answer.rendered_text)
    assert cut.state_after is None
    assert [(state.reason, state.turn_seq) for state in states] == [("turn", 1), ("root", 0)]
    async with engine_on(folder) as (_, store):
        (step,) = await store.turns.steps(cut.id)
    assert step.outcome == Incomplete(reason="interrupted")
    assert step.displayed_bytes == len(cut.answer.rendered_text.encode())


@pytest.mark.req("STREAM-3")
async def test_a_late_watcher_gets_what_was_shown_before_the_crash_and_the_end(folder: Path) -> None:
    facts = killed_while_streaming(folder)
    turn_id = [fact.turn_id for fact in facts if isinstance(fact, Accepted)][-1]
    async with engine_on(folder) as (engine, _):
        heard = [stamped async for stamped in engine.watch(turn_id)]
        deltas = [stamped for stamped in heard if isinstance(stamped.event, Delta)]
        text = "".join(stamped.event.text for stamped in deltas if isinstance(stamped.event, Delta))
        assert text.startswith(shown_in(facts))
        failed, done = (stamped.event for stamped in heard[-2:])
        assert isinstance(failed, TurnFailed)
        assert failed.code == "interrupted"
        assert failed.hint
        assert isinstance(done, TurnDone)
        assert (done.turn.outcome, done.turn.text) == ("incomplete", text)
        resumed = [stamped async for stamped in engine.watch(turn_id, after=deltas[0].id)]
        assert [stamped for stamped in resumed if isinstance(stamped.event, Delta)] == deltas[1:]


@pytest.mark.req("TURN-12")
async def test_the_next_prompt_shows_where_the_answer_was_cut_off(folder: Path) -> None:
    killed_while_streaming(folder)
    asked: list[ProviderRequest] = []

    def note(request: ProviderRequest) -> str:
        asked.append(request)
        return "Fish."

    model = Model(name="noting", provider=ScriptedProvider(note), model_id="noting")
    models = Models(by_name={"noting": model}, default="noting")
    async with Engine(SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams"), models) as engine:
        again = await engine.ask(THREAD, "Once more?")
    assert (again.outcome, again.text) == ("completed", "Fish.")
    roles = [message.role for message in asked[0].prompt.messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    whole, cut = (asked[0].prompt.messages[place].rendered_text for place in (1, 3))
    assert whole == "".join(pieces_of(WHOLE))
    assert cut.endswith(CUT_OFF)


@pytest.mark.req("TURN-8", "TURN-9")
@pytest.mark.parametrize("kill", [AFTER_TX_A, BEFORE_TX_B], ids=["after TX-A", "before TX-B"])
async def test_a_final_answer_that_was_not_committed_is_committed_at_the_next_start(folder: Path, kill: Kill) -> None:
    died_at(folder, kill, WHOLE)
    assert phases(folder) == ["ResponseFinalized"]
    twin = folder.with_name("twin")
    shutil.copytree(folder, twin)
    (turn,), states = await recovered(folder)
    assert turn.phase is Phase.DONE
    assert turn.outcome == "completed"
    assert turn.answer is not None
    assert turn.answer.rendered_text == "".join(pieces_of(WHOLE))
    assert [(state.state_seq, state.reason, state.turn_seq) for state in states] == [(1, "turn", 1), (0, "root", 0)]
    assert turn.state_after == states[0].id
    (other,), others = await recovered(twin)
    assert (other.phase, other.answer) == (turn.phase, turn.answer)
    assert [seen(state) for state in others] == [seen(state) for state in states], "the same from the same place"


def seen(state: State) -> tuple[object, ...]:
    """What of a state does not depend on when it was made."""
    return state.state_seq, state.reason, state.turn_seq, state.covers_turn_seq, state.summary, state.pinned_facts


@pytest.mark.req("TURN-8", "TURN-9")
@pytest.mark.parametrize(
    ("boundary", "side", "left", "phase", "outcome"),
    [
        ("accept", "after", "ContextPrepared", Phase.FAILED, "failed"),
        ("open_step", "before", "ContextPrepared", Phase.FAILED, "failed"),
        ("open_step", "after", "Responding", Phase.FAILED, "failed"),
        ("end journal", "after", "Responding", Phase.DONE, "completed"),
        ("finalise", "before", "Responding", Phase.DONE, "completed"),
        ("finalise", "after", "ResponseFinalized", Phase.DONE, "completed"),
        ("complete summarize_turn", "before", "ResponseFinalized", Phase.DONE, "completed"),
        ("complete summarize_turn", "after", "Done", Phase.DONE, "completed"),
        ("complete index_turn", "before", "StateCommitted", Phase.DONE, "completed"),
        ("complete index_turn", "after", "Indexed", Phase.DONE, "completed"),
        ("complete remember_turn", "after", "Done", Phase.DONE, "completed"),
    ],
)
async def test_a_turn_left_in_any_phase_comes_to_its_end(
    folder: Path, boundary: str, side: Side, left: str, phase: Phase, outcome: str
) -> None:
    text = LATE if boundary in ("complete index_turn", "complete remember_turn") else WHOLE
    died_at(folder, Kill(way="boundary", boundary=boundary, side=side), text)
    assert phases(folder) == [left]
    (turn,), states = await recovered(folder)
    assert (turn.phase, turn.outcome) == (phase, outcome)
    assert turn.user_message.rendered_text == text
    answer = turn.answer.rendered_text if turn.answer else ""
    assert answer == ("".join(pieces_of(text)) if phase is Phase.DONE else "")
    assert [state.reason for state in states] == (["turn", "root"] if phase is Phase.DONE else ["root"])
    async with engine_on(folder) as (engine, _):
        following = await engine.ask(THREAD, "plain And then?")
        assert (following.outcome, following.turn_seq) == ("completed", 2)


@pytest.mark.req("TURN-8", "TURN-9")
async def test_messages_that_waited_are_kept_in_their_order(folder: Path) -> None:
    texts = [ENDLESS, *(f"plain message {number}" for number in range(3))]
    died_at(folder, replace(AFTER_ACCEPT, nth=4), *texts)
    assert phases(folder)[1:] == ["Accepted"] * 3
    turns, _ = await recovered(folder)
    assert [turn.user_message.rendered_text for turn in turns] == texts
    assert [turn.error and turn.error.code for turn in turns[1:]] == ["interrupted"] * 3, "the first had begun"
    async with engine_on(folder) as (engine, _):
        assert (await engine.ask(THREAD, "plain And then?")).turn_seq == 5


@pytest.mark.req("TURN-8")
@pytest.mark.parametrize("kill", [AFTER_ACCEPT, AFTER_TX_A], ids=["accepted", "finalised"])
async def test_recovery_a_second_time_changes_nothing(folder: Path, kill: Kill) -> None:
    died_at(folder, kill, WHOLE)
    await recovered(folder)
    once = contents(folder)
    await recovered(folder)
    assert contents(folder) == once


@pytest.mark.req("TURN-8", "TURN-9")
async def test_two_processes_that_recover_at_once_do_it_once(folder: Path) -> None:
    killed_while_streaming(folder)
    await asyncio.gather(recovered(folder), recovered(folder))
    turns, states = await recovered(folder)
    assert [turn.phase for turn in turns] == [Phase.DONE, Phase.FAILED]
    assert [state.reason for state in states] == ["turn", "root"]


@pytest.mark.req("TURN-8", "THREAD-4")
async def test_all_who_wait_behind_a_dead_worker_may_bring_its_turns_to_their_end(folder: Path) -> None:
    async with engine_on(folder) as (engine, store):
        branch = (await engine.ask(THREAD, WHOLE)).branch_id
        for phase in (Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING) * 3:  # of a worker that is dead
            await turn_in(store, (await new_branch(store)).id, phase)
        await turn_in(store, branch, Phase.RESPONDING)
        answered = await asyncio.gather(*(engine.ask(THREAD, WHOLE) for _ in range(6)))
        assert [turn.outcome for turn in answered] == ["completed"] * 6
    assert sorted(phases(folder)) == ["Done"] * 7 + ["Failed"] * 10


@pytest.mark.req("TURN-8", "API-15")
async def test_a_request_that_comes_again_while_its_turn_is_taken_over_does_not_begin_it_beside_its_end(
    folder: Path,
) -> None:
    async with engine_on(folder) as (engine, store), engine_on(folder) as (other, _):
        running, _ = await engine.accept(THREAD, ENDLESS)
        left, _ = await engine.accept(THREAD, WHOLE, key="once")
        worker = other.worker_lease.worker.id
        await store.workers.take_over(
            engine.worker_lease.worker.id, by=worker
        )  # and now it is being brought to its end
        recovery = other._stages.recovery
        recovery.taken_over.update({running.id: None, left.id: None})
        again, _ = await other.accept(THREAD, WHOLE, key="once")
        assert (again.id, again.phase, again.owner) == (left.id, Phase.ACCEPTED, worker)
        assert not other.tasks, "nobody answers it"
        assert await recovery.recover(()) == 2
        events = [stamped.event async for stamped in other.watch(left.id)]
        assert [type(event) for event in events] == [TurnFailed, TurnDone]
        await engine.close(answer_seconds=0, job_seconds=0)


@pytest.mark.req("STREAM-3")
async def test_who_follows_a_journal_without_a_last_line_hears_the_end_of_its_turn(folder: Path) -> None:
    async with engine_on(folder) as (engine, _):
        turn = await engine.ask(THREAD, WHOLE)
        (journal,) = (folder / "streams").iterdir()
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:-3]))  # its writer lost the turn, and then its life
        async with asyncio.timeout(100):
            heard = [stamped.event async for stamped in engine.watch(turn.turn_id)]
        assert isinstance(heard[-1], TurnDone)
        assert heard[-1].turn.text == turn.text


@pytest.mark.req("TURN-8")
async def test_the_turn_of_a_living_process_is_left_alone(folder: Path) -> None:
    with process(folder, ENDLESS) as living:
        facts = told_until(living, lambda facts: any(isinstance(fact, Shown) for fact in facts))
        (turn_id,) = {fact.turn_id for fact in facts if isinstance(fact, Accepted)}
        async with engine_on(folder) as (engine, store):
            turn = await store.turns.get(turn_id)
            assert turn is not None
            assert turn.phase is Phase.RESPONDING
            assert turn.owner in {worker.id for worker in await store.workers.list() if worker.pid == living.pid}
            stopped = await engine.cancel(turn_id)
        told = facts + await asyncio.to_thread(rest_of, living)
        assert living.returncode == 0, "it came to its own end"
    assert stopped.outcome == "cancelled", "its owner stopped it, because we asked"
    assert [fact for fact in told if isinstance(fact, Ended)] == [Ended(turn_id, "cancelled", stopped.text)]


@pytest.mark.req("TURN-8")
async def test_recovery_takes_less_than_a_second_with_many_turns(folder: Path) -> None:
    stored, left = 5000, 15
    store = SqliteStore(folder / "ledger.db")
    branch = await new_branch(store)
    await store.turns.record(branch.id, [exchange(f"question {number}", "answer") for number in range(stored)])
    for _ in range(left):  # builders act for a worker that no one registered: one that is dead
        for phase in (Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED):
            await turn_in(store, (await new_branch(store)).id, phase)
    await store.close()
    seconds: list[float] = []
    while not seconds or (min(seconds) >= 1 and len(seconds) < 5):  # another process may take the CPU for a while
        copy = shutil.copytree(folder, folder.with_name(f"copy {len(seconds)}"))
        began = time.perf_counter() - waited_for_cpu()
        async with engine_on(copy) as (_, opened):
            seconds.append(time.perf_counter() - waited_for_cpu() - began)
            assert await until_quiet(opened)
    assert min(seconds) < 1
    counts = {phase: phases(copy).count(phase) for phase in set(phases(copy))}
    assert counts == {"Done": stored + left, "Failed": 3 * left}
