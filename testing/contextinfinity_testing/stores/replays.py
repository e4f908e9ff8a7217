"""Tests of a store: spooled turns are replayed completely, in order, once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import from_millis, new_id
from contextinfinity.domain.session import IdempotencyKey, NewSession
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import BranchBusy, Gone, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity_testing.builders import (
    WORKER,
    broken_off,
    current,
    exchange,
    new_branch,
    new_step,
    new_turn,
    said,
    turn_end,
    turn_in,
)

SAID_AT = from_millis(1_700_000_000_000)


def held(branch_id: str, text: str = "held", answer: str = "answer") -> ReplayedTurn:
    """Return a turn that was asked and answered while the ledger was unavailable."""
    step, turn_id = new_step(), new_id()
    new = replace(new_turn(branch_id, text), id=turn_id)
    end = turn_end(step, answer)
    return ReplayedTurn(turn_id=turn_id, new=new, said_at=SAID_AT, begun=True, steps=(step,), end=end)


class ReplaySuite:
    """How held turns come in."""

    @pytest.mark.req("CHATMEM-6")
    async def test_a_held_turn_lands_after_the_last_one_with_all_it_had(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange("before", "yes")])
        spooled = held(branch.id)
        turn = await store.replays.replay(spooled)
        assert (turn.id, turn.turn_seq, turn.phase) == (spooled.turn_id, 2, Phase.RESPONSE_FINALIZED)
        assert (turn.text, turn.outcome, turn.created_at) == ("answer", "completed", SAID_AT)
        assert await current(store, turn) == turn
        assert [step.id for step in await store.turns.steps(turn.id)] == [spooled.steps[0].id]
        assert [job.job_type for job in await store.jobs.list()] == ["summarize_turn"]
        assert await said(store, branch.id) == ["before", "held"]

    @pytest.mark.req("CHATMEM-6")
    async def test_landing_twice_changes_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        spooled = held(branch.id)
        turn = await store.replays.replay(spooled)
        assert await store.replays.replay(spooled) == turn
        assert await said(store, branch.id) == ["held"]
        assert len(await store.jobs.list()) == 1

    @pytest.mark.req("CHATMEM-6")
    async def test_a_held_turn_is_not_written_if_its_request_was_answered_elsewhere_meanwhile(
        self, store: Store
    ) -> None:
        branch = await new_branch(store)
        spooled = held(branch.id)
        assert spooled.new is not None
        key = IdempotencyKey(key="a" * 64, asked="b" * 64)
        spooled = replace(spooled, new=replace(spooled.new, once=key))
        await store.turns.accept(replace(new_turn(branch.id, "held"), once=key))
        with pytest.raises(Gone):
            await store.replays.replay(spooled)
        assert await said(store, branch.id) == ["held"]

    async def test_what_landed_in_part_lands_further(self, store: Store) -> None:
        branch = await new_branch(store)
        whole = held(branch.id)
        accepted = await store.replays.replay(replace(whole, begun=False, steps=(), end=None))
        assert (accepted.phase, accepted.turn_seq) == (Phase.ACCEPTED, 1)
        responding = await store.replays.replay(replace(whole, end=None))
        assert (responding.phase, responding.turn_seq) == (Phase.RESPONDING, 1)
        assert (await store.replays.replay(whole)).phase is Phase.RESPONSE_FINALIZED

    async def test_a_landed_turn_goes_on_as_any_other(self, store: Store) -> None:
        branch = await new_branch(store)
        whole = held(branch.id)
        await store.replays.replay(replace(whole, end=None))
        assert whole.end is not None
        turn = await store.turns.finalise(whole.turn_id, WORKER, whole.end)
        assert (turn.phase, turn.text) == (Phase.RESPONSE_FINALIZED, "answer")

    async def test_the_end_of_a_turn_the_ledger_had_accepted_lands_on_it(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        step = new_step()
        landed = await store.replays.replay(ReplayedTurn(turn_id=turn.id, steps=(step,), end=turn_end(step)))
        assert (landed.turn_seq, landed.phase) == (turn.turn_seq, Phase.RESPONSE_FINALIZED)

    async def test_a_turn_that_failed_elsewhere_lands_as_failed(self, store: Store) -> None:
        branch = await new_branch(store)
        whole = held(branch.id)
        turn = await store.replays.replay(replace(whole, begun=False, steps=(), end=broken_off(), failed=True))
        assert (turn.phase, turn.outcome) == (Phase.FAILED, "failed")
        assert await store.jobs.list() == ()

    @pytest.mark.req("TURN-13")
    async def test_while_another_turn_of_its_branch_is_answered_a_turn_only_takes_its_place(self, store: Store) -> None:
        branch = await new_branch(store)
        running = await turn_in(store, branch.id, Phase.RESPONDING)
        spooled = held(branch.id)
        placed = await store.replays.replay(spooled)
        assert (placed.phase, placed.turn_seq) == (Phase.ACCEPTED, running.turn_seq + 1)
        later = await store.turns.accept(new_turn(branch.id, "later"))
        with pytest.raises(BranchBusy):
            await store.turns.prepare(later.id, WORKER)
        await store.turns.fail(running.id, WORKER, broken_off())
        assert (await store.replays.replay(spooled)).phase is Phase.RESPONSE_FINALIZED
        assert (await said(store, branch.id))[1:] == ["held", "later"]
        assert (await store.turns.prepare(later.id, WORKER)).phase is Phase.CONTEXT_PREPARED

    async def test_what_has_no_place_any_more_does_not_land(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.replays.replay(held(new_id()))
        with pytest.raises(NotFound):
            await store.replays.replay(ReplayedTurn(turn_id=new_id(), end=broken_off(), failed=True))

    async def test_an_owner_that_was_declared_dead_still_lands(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.workers.take_over(WORKER, by="somebody else")
        assert (await store.replays.replay(held(branch.id))).owner == WORKER

    async def test_exchanges_that_bring_their_ids_are_recorded_once(self, store: Store) -> None:
        branch = await new_branch(store)
        given = [replace(exchange("one", "1"), id=new_id())]
        recorded = await store.turns.record(branch.id, given)
        assert [turn.id for turn in recorded] == [given[0].id]
        assert await store.turns.record(branch.id, given) == recorded
        assert await said(store, branch.id) == ["one"]

    @pytest.mark.req("CHATMEM-4")
    async def test_what_was_deleted_does_not_land_again(self, store: Store) -> None:
        new = NewSession(id=new_id(), branch_id=new_id())
        whole, finished = held((await new_branch(store, new)).id), replace(exchange("one", "1"), id=new_id())
        await store.turns.record(new.branch_id or "", [finished])
        await store.replays.replay(whole)
        while (await store.deletions.delete(new.id or "")).more:
            pass
        for is_made_anew in (False, True):
            if is_made_anew:
                await store.sessions.create(new)
            with pytest.raises(Gone):
                await store.turns.record(new.branch_id or "", [finished])
            with pytest.raises(Gone):
                await store.replays.replay(whole)
        assert await said(store, new.branch_id or "") == []

    async def test_a_session_keeps_the_branch_id_it_brings(self, store: Store) -> None:
        session_id, branch_id = new_id(), new_id()
        session = await store.sessions.create(NewSession(id=session_id, branch_id=branch_id))
        assert (session.id, session.active_branch) == (session_id, branch_id)
        assert await store.branches.get(branch_id) is not None
