"""Tests of a store: requests whose connection broke before they were answered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import PrefixHashes, Problem, TurnEnd
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import WORKER, answer_turn, new_branch, new_turn, respond

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")


class BrokenRequestSuite:
    """A retry joins an identical request that got no answer, once."""

    @pytest.mark.req("API-15")
    async def test_a_broken_request_is_joined_once_and_the_oldest_first(self, store: Store) -> None:
        past = now() - timedelta(minutes=1)
        turns = []
        for _ in range(2):
            branch = await new_branch(store, NewSession(owner=ANN))
            turns.append(await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=PrefixHashes(body=7))))
        assert await store.prefix_hashes.join_broken(ANN, 7, since=past) is None, "nothing broke"
        for turn in reversed(turns):
            await store.prefix_hashes.note_broken(turn.id)
        assert await store.prefix_hashes.join_broken(BOB, 7, since=past) is None
        assert await store.prefix_hashes.join_broken(ANN, 8, since=past) is None
        assert await store.prefix_hashes.join_broken(ANN, 7, since=now() + timedelta(minutes=1)) is None
        joined = [await store.prefix_hashes.join_broken(ANN, 7, since=past) for _ in range(3)]
        assert joined == [turns[0].id, turns[1].id, None]

    @pytest.mark.req("API-15")
    async def test_a_failed_turn_is_not_joined_and_a_turn_without_a_request_is_not_broken(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        turn = await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=PrefixHashes(body=7)))
        await store.turns.fail(turn.id, WORKER, TurnEnd(outcome="failed", error=Problem(code="x", message="x")))
        native = await answer_turn(store, branch.id, "Hi", "Hello")
        for each in (turn, native):
            await store.prefix_hashes.note_broken(each.id)
        assert await store.prefix_hashes.join_broken(ANN, 7, since=now() - timedelta(minutes=1)) is None

    @pytest.mark.req("API-15")
    async def test_the_unanswered_requests_of_a_dead_worker_are_broken(self, store: Store) -> None:
        turns, past = [], now() - timedelta(minutes=1)
        for _ in range(3):
            branch = await new_branch(store, NewSession(owner=ANN))
            turns.append(await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=PrefixHashes(body=7))))
        for turn in turns[1:]:
            await respond(store, turn, "Hello")
        await store.prefix_hashes.note_delivered([turns[2].id])
        taker = await store.workers.enter()
        await store.workers.take_over(WORKER, by=taker.id)
        joined = [await store.prefix_hashes.join_broken(ANN, 7, since=past) for _ in range(3)]
        assert joined == [turns[0].id, turns[1].id, None], "what was delivered is no broken request"
