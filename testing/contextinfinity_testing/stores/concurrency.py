"""Tests of a store: concurrent writers lose nothing, duplicate nothing, and keep their order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import AlreadyExists, BranchBusy, HeadMoved, QueueFull, Refused, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    current,
    exchange,
    final_turn,
    new_branch,
    new_step,
    new_turn,
    respond,
    slice_of,
    turn_end,
    turn_in,
)

WRITERS = 50
EACH = 10


class Writers:
    """Fifty writers that each record ten messages in order, and note every acknowledgement."""

    def __init__(self, store: Store, *, how: str) -> None:
        self._store = store
        self._how = how
        self.acknowledged: list[Turn] = []

    async def run(self, branch_ids: list[str]) -> None:
        """Run all writers concurrently, each on its branch."""
        await asyncio.gather(*(self._write(number, branch_id) for number, branch_id in enumerate(branch_ids)))

    async def _write(self, number: int, branch_id: str) -> None:
        for count in range(EACH):
            text = f"{number}/{count}"
            await asyncio.sleep(0)  # lets the others in, even when the store itself never waits
            if self._how == "record":
                (turn,) = await self._store.turns.record(branch_id, [exchange(text, f"answer to {text}")])
            else:
                turn = await self._store.turns.accept(new_turn(branch_id, text))
            assert turn.user_message.rendered_text == text
            self.acknowledged.append(turn)


async def outcomes(*attempts: Coroutine[Any, Any, object]) -> tuple[list[object], list[BaseException]]:
    """Run coroutines concurrently; return their results and their errors."""
    results = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(refusal, Refused) for refusal in refused), refused
    return [result for result in results if not isinstance(result, BaseException)], refused


def each_writers_own_order(turns: tuple[Turn, ...] | list[Turn]) -> dict[int, list[int]]:
    """Group messages by writer, in stored order."""
    order: dict[int, list[int]] = {}
    for turn in turns:
        number, count = turn.user_message.rendered_text.split("/")
        order.setdefault(int(number), []).append(int(count))
    return order


class ConcurrencySuite:
    """Many writers at once."""

    @pytest.mark.req("THREAD-10", "LEDGER-1")
    @pytest.mark.parametrize("how", ["record", "accept"])
    async def test_fifty_writers_on_one_session_lose_and_double_nothing(self, store: Store, how: str) -> None:
        branch = await new_branch(store)
        writers = Writers(store, how=how)
        await writers.run([branch.id] * WRITERS)
        history = await store.turns.history(branch.id, limit=WRITERS * EACH + 1)
        assert [turn.turn_seq for turn in history] == list(range(1, WRITERS * EACH + 1))
        assert each_writers_own_order(history) == {number: list(range(EACH)) for number in range(WRITERS)}
        assert len({turn.id for turn in history}) == WRITERS * EACH
        assert sorted(writers.acknowledged, key=lambda turn: turn.turn_seq) == list(history)

    @pytest.mark.req("THREAD-10")
    @pytest.mark.parametrize("how", ["record", "accept"])
    async def test_the_order_of_acknowledgement_is_the_order_of_the_turns(self, store: Store, how: str) -> None:
        branch = await new_branch(store)
        writers = Writers(store, how=how)
        await writers.run([branch.id] * WRITERS)
        assert [turn.turn_seq for turn in writers.acknowledged] == list(range(1, WRITERS * EACH + 1))

    @pytest.mark.req("THREAD-10")
    @pytest.mark.parametrize("how", ["record", "accept"])
    async def test_fifty_writers_on_fifty_sessions_do_not_meet(self, store: Store, how: str) -> None:
        branches = [await new_branch(store) for _ in range(WRITERS)]
        await Writers(store, how=how).run([branch.id for branch in branches])
        for number, branch in enumerate(branches):
            history = await store.turns.history(branch.id, limit=WRITERS * EACH)
            assert [turn.user_message.rendered_text for turn in history] == [f"{number}/{n}" for n in range(EACH)]
            assert [turn.turn_seq for turn in history] == list(range(1, EACH + 1))

    @pytest.mark.req("THREAD-10", "LEDGER-5")
    async def test_the_states_of_many_writers_form_one_chain(self, store: Store) -> None:
        branch = await new_branch(store)
        await Writers(store, how="record").run([branch.id] * WRITERS)
        chain = await store.states.list(branch.id, limit=WRITERS * EACH + 2)
        count = WRITERS * EACH + 1
        assert [state.state_seq for state in chain] == [state.turn_seq for state in chain] == list(range(count))[::-1]
        history = await store.turns.history(branch.id, limit=count)
        assert [turn.state_after for turn in history] == [state.id for state in chain[-2::-1]]

    async def test_whole_turns_on_many_sessions_at_once_stay_whole(self, store: Store) -> None:
        async def converse(number: int) -> list[Turn]:
            branch = await new_branch(store)
            return [await final_turn(store, branch.id, f"{number}/{n}", f"answer {number}/{n}") for n in range(3)]

        for turns in await asyncio.gather(*(converse(number) for number in range(WRITERS))):
            for turn in turns:
                assert turn.answer is not None
                assert turn.answer.rendered_text == f"answer {turn.user_message.rendered_text}"
                assert len(await store.turns.steps(turn.id)) == 1

    # --- the same thing asked for by many ---

    @pytest.mark.req("TURN-2")
    async def test_one_message_sent_by_many_at_once_is_one_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = replace(new_turn(branch.id, "hello"), id=new_id())
        turns = await asyncio.gather(*(store.turns.accept(asked) for _ in range(WRITERS)))
        assert await store.turns.history(branch.id) == (turns[0],)
        assert all(turn == turns[0] for turn in turns)

    async def test_one_session_made_by_many_at_once_is_one_session(self, store: Store) -> None:
        asked = NewSession(id=new_id(), external_id="lobby")
        sessions = await asyncio.gather(*(store.sessions.create(asked) for _ in range(WRITERS)))
        assert all(session == sessions[0] for session in sessions)
        assert len(await store.branches.list(asked.id or "")) == 1

    async def test_one_foreign_id_is_given_to_one_of_many(self, store: Store) -> None:
        made, refused = await outcomes(
            *(store.sessions.create(NewSession(external_id="lobby")) for _ in range(WRITERS))
        )
        assert (len(made), {type(refusal) for refusal in refused}) == (1, {AlreadyExists})
        assert await store.sessions.find(NewSession().owner, "lobby") == made[0]

    async def test_a_queue_never_grows_past_its_limit(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = replace(new_turn(branch.id, "hello"), queue_limit=16)
        accepted, refused = await outcomes(*(store.turns.accept(asked) for _ in range(WRITERS)))
        assert (len(accepted), {type(refusal) for refusal in refused}) == (16, {QueueFull})
        assert len(await store.turns.history(branch.id, limit=WRITERS)) == 16

    # --- one of many wins ---

    @pytest.mark.req("TURN-4", "LEDGER-5")
    async def test_of_many_commits_on_one_head_one_wins(self, store: Store) -> None:
        branch = await new_branch(store)
        head = await store.states.head(branch.id)
        draft = StateDraft(branch_id=branch.id, reason="fold", summary="s")
        won, refused = await outcomes(*(store.states.commit(draft, expected_head=head.id) for _ in range(WRITERS)))
        assert (len(won), {type(refusal) for refusal in refused}) == (1, {HeadMoved})
        assert await store.states.list(branch.id) == (won[0], head)
        assert {refusal.head for refusal in refused if isinstance(refusal, HeadMoved)} == {
            (await head_of(store, branch.id)).id
        }

    @pytest.mark.req("TURN-4")
    async def test_a_turn_committed_by_many_at_once_is_committed_once(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        head = await store.states.head(branch.id)
        draft = StateDraft(branch_id=branch.id, reason="turn", turn_id=turn.id)
        states = await asyncio.gather(*(store.states.commit(draft, expected_head=head.id) for _ in range(WRITERS)))
        assert all(state == states[0] for state in states)
        assert await store.states.list(branch.id) == (states[0], head)

    @pytest.mark.req("TURN-4")
    async def test_pins_made_at_once_are_all_kept(self, store: Store) -> None:
        branch = await new_branch(store)
        await asyncio.gather(*(store.states.pin(branch.id, f"fact {number % 25}") for number in range(WRITERS)))
        head = await store.states.head(branch.id)
        assert sorted(head.pinned_facts) == sorted(f"fact {number}" for number in range(25))
        assert head.state_seq == 25

    @pytest.mark.req("TURN-1")
    async def test_a_branch_lets_one_of_many_waiting_turns_begin(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = [await store.turns.accept(new_turn(branch.id, str(number))) for number in range(10)]
        begun, refused = await outcomes(*(store.turns.prepare(turn.id, WORKER) for turn in reversed(turns)))
        assert (len(begun), {type(refusal) for refusal in refused}) == (1, {BranchBusy})
        assert (await current(store, turns[0])).phase is Phase.CONTEXT_PREPARED

    @pytest.mark.req("TURN-3")
    async def test_a_turn_is_ended_by_one_of_many(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        (step,) = await store.turns.steps(turn.id)
        ends = [turn_end(replace(new_step(), id=step.id), f"answer {number}") for number in range(10)]
        won, refused = await outcomes(*(store.turns.finalise(turn.id, WORKER, end) for end in ends))
        assert (len(won), {type(refusal) for refusal in refused}) == (1, {WrongPhase})
        assert await current(store, turn) == won[0]

    @pytest.mark.req("RETRIEVE-2")
    async def test_a_turn_indexed_by_many_at_once_has_each_chunk_once(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("some words to find", "an answer")])
        news = [slice_of("some words to find", word) for word in ("some", "words", "find")]
        results = await asyncio.gather(*(store.chunks.index(turn.id, news) for _ in range(10)))
        assert [chunk.rendered_text for chunk in results[0]] == ["some", "words", "find"]
        assert all(chunks == results[0] for chunks in results)
        assert await store.chunks.of_turn(turn.id) == results[0]

    @pytest.mark.req("LEDGER-8")
    async def test_forks_made_while_others_write_see_a_whole_prefix(self, store: Store) -> None:
        branch = await new_branch(store)
        writers = Writers(store, how="record")

        async def fork() -> list[str]:
            made = await store.branches.fork(branch.id)
            return [turn.id for turn in await store.turns.history(made.id, limit=WRITERS * EACH)]

        seen, _ = await asyncio.gather(asyncio.gather(*(fork() for _ in range(20))), writers.run([branch.id] * WRITERS))
        whole = [turn.id for turn in await store.turns.history(branch.id, limit=WRITERS * EACH)]
        assert all(names == whole[: len(names)] for names in seen)

    async def test_a_reader_never_sees_half_a_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, "hello"))
        writing = asyncio.ensure_future(respond(store, turn, "hi"))
        while not writing.done():
            seen = await current(store, turn)
            assert (seen.answer is not None) is (seen.phase is Phase.RESPONSE_FINALIZED)
            await asyncio.sleep(0)
        assert (await writing).answer is not None


async def head_of(store: Store, branch_id: str) -> State:
    """Return the head of a branch."""
    return await store.states.head(branch_id)
