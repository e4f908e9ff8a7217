"""What every store promises about trails: where a conversation left off is found by what was said in it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import say
from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.domain.trail import after, alone, beginning
from contextinfinity.domain.turn import Exchange, Phase, Trail
from contextinfinity.errors import BranchBusy
from contextinfinity.storage.contract import Store
from contextinfinity.testing.builders import (
    answer_turn,
    failed_turn,
    final_turn,
    new_branch,
    new_turn,
    respond,
    turn_in,
)

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")


def trail(*texts: str, begun: str = "") -> int:
    """Walk through questions and answers in turn."""
    number = beginning(begun)
    for place, text in enumerate(texts):
        number = after(number, say("assistant" if place % 2 else "user", text))
    return number


async def thread(store: Store, *texts: str, owner: Owner = ANN) -> Branch:
    """Begin a conversation, with questions and answers in turn."""
    branch = await new_branch(store, NewSession(owner=owner))
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        await answer_turn(store, branch.id, question, answer)
    return branch


class TrailSuite:
    """Whoever sends a whole conversation again is led to where it stands."""

    @pytest.mark.req("API-7")
    async def test_every_turn_is_found_by_what_was_said_up_to_its_answer(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello", "And?", "Nothing")
        far, near = trail("Hi", "Hello"), trail("Hi", "Hello", "And?", "Nothing")
        place, (end,) = await store.trails.ends(ANN, (1, near, far)) or (-1, ())
        assert (place, end.session_id, end.branch_id, end.turn_seq, end.is_free) == (
            1,
            branch.session_id,
            branch.id,
            2,
            True,
        )
        place, (end,) = await store.trails.ends(ANN, (far,)) or (-1, ())
        assert (end.turn_seq, end.is_free) == (1, False)
        assert await store.trails.ends(ANN, (trail("And?", "Nothing"), trail("Hi"))) is None
        assert await store.trails.ends(ANN, ()) is None

    @pytest.mark.req("API-7")
    async def test_nobody_is_led_to_what_somebody_else_said(self, store: Store) -> None:
        mine = await thread(store, "Hi", "Hello")
        theirs = await thread(store, "Hi", "Hello", owner=BOB)
        walked = (trail("Hi", "Hello"),)
        for owner, branch in ((ANN, mine), (BOB, theirs)):
            _, ends = await store.trails.ends(owner, walked) or (0, ())
            assert [end.session_id for end in ends] == [branch.session_id]
        _, ends = await store.trails.ends(ANN, walked, session_id=mine.session_id) or (0, ())
        assert len(ends) == 1
        assert await store.trails.ends(ANN, walked, session_id=theirs.session_id) is None
        exchange = after(alone(say("user", "Hi")), say("assistant", "Hello"))
        assert [end.session_id for end in await store.trails.ends_of_exchange(ANN, exchange)] == [mine.session_id]
        assert await store.trails.ends_of_exchange(Owner(user_id="ann", org_id="else"), exchange) == ()

    @pytest.mark.req("API-7")
    async def test_of_equal_trails_those_come_first_that_nothing_follows_and_of_those_the_newest(
        self, store: Store
    ) -> None:
        old = await thread(store, "Hi", "Hello")
        new = await thread(store, "Hi", "Hello")
        gone_on = await thread(store, "Hi", "Hello", "And?", "Nothing")
        _, ends = await store.trails.ends(ANN, (trail("Hi", "Hello"),)) or (0, ())
        assert [end.branch_id for end in ends] == [new.id, old.id, gone_on.id]
        assert [end.is_free for end in ends] == [True, True, False]

    @pytest.mark.req("API-7")
    async def test_turns_that_failed_are_no_part_of_a_trail(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        await failed_turn(store, branch.id, "And?")
        _, (end,) = await store.trails.ends(ANN, (trail("Hi", "Hello"),)) or (0, ())
        assert end.is_free
        await final_turn(store, branch.id, "And?", "Nothing")
        place = await store.trails.ends(ANN, (trail("Hi", "Hello", "And?", "Nothing"),))
        assert place is not None

    @pytest.mark.req("API-7")
    async def test_a_turn_under_way_follows_and_leads_nowhere_yet(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        await turn_in(store, branch.id, Phase.RESPONDING)
        _, (end,) = await store.trails.ends(ANN, (trail("Hi", "Hello"),)) or (0, ())
        assert not end.is_free
        assert (
            await store.trails.ends_of_exchange(ANN, after(alone(say("user", "Hi")), say("assistant", "Hello"))) == ()
        )

    @pytest.mark.req("API-7")
    async def test_a_branch_goes_on_from_what_it_saw_and_a_fresh_one_is_free(self, store: Store) -> None:
        main = await thread(store, "Hi", "Hello", "And?", "Nothing")
        fork = await store.branches.fork(main.id, at=1)
        _, (end,) = await store.trails.ends(ANN, (trail("Hi", "Hello"),)) or (0, ())
        assert (end.branch_id, end.turn_seq, end.is_free) == (fork.id, 1, True)
        await answer_turn(store, fork.id, "Or?", "Something")
        _, (end,) = await store.trails.ends(ANN, (trail("Hi", "Hello", "Or?", "Something"),)) or (0, ())
        assert (end.branch_id, end.turn_seq) == (fork.id, 2)
        _, (end,) = await store.trails.ends(ANN, (trail("Hi", "Hello"),)) or (0, ())
        assert (end.branch_id, end.is_free) == (main.id, False)

    @pytest.mark.req("API-7")
    async def test_a_message_that_brings_its_trail_keeps_it(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        brought = Trail(asked=trail("Long ago", "It was", "Hi", begun="carl"), body=7)
        turn = await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought))
        walked = await store.trails.walked(ANN, brought)
        assert walked is not None
        assert (walked.turn_id, walked.phase) == (turn.id, turn.phase)
        await respond(store, turn, "Hello")
        assert await store.trails.ends(ANN, (trail("Hi", "Hello"),)) is None
        place = await store.trails.ends(ANN, (trail("Long ago", "It was", "Hi", "Hello", begun="carl"),))
        assert place is not None
        assert place[1][0].turn_id == turn.id
        assert await store.trails.walked(BOB, brought) is None
        assert await store.trails.walked(ANN, replace(brought, body=8)) is None
        walked = await store.trails.walked(ANN, brought)
        assert walked is not None
        assert walked.phase is Phase.RESPONSE_FINALIZED
        again = await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought))
        walked = await store.trails.walked(ANN, brought)
        assert walked is not None
        assert walked.turn_id == again.id

    @pytest.mark.req("API-7")
    async def test_a_message_that_has_to_follow_a_turn_is_refused_where_others_went_on(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        placed = Trail(asked=trail("Hi", "Hello", "And?"), body=7, follows=1)
        await failed_turn(store, branch.id, "And?")
        turn = await store.turns.accept(replace(new_turn(branch.id, "And?"), trail=placed))
        with pytest.raises(BranchBusy):
            await store.turns.accept(replace(new_turn(branch.id, "Or?"), trail=placed))
        history = await store.turns.history(branch.id, limit=10)
        assert [each.id for each in history if each.phase is not Phase.FAILED][1:] == [turn.id]

    @pytest.mark.req("API-7")
    async def test_an_exchange_is_found_by_who_said_it(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        question, answer = say("user", "Hi"), say("assistant", "Hello")
        mine = alone(question, "carl")
        brought = Trail(asked=trail("Hi", begun="carl"), body=7, alone=mine)
        await respond(store, await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought)), "Hello")
        told = Exchange(message=say("user", "So?"), answer=answer, asked=1, alone=alone(say("user", "So?"), "carl"))
        other = await new_branch(store, NewSession(owner=ANN))
        await store.turns.record(other.id, [told])
        assert len(await store.trails.ends_of_exchange(ANN, after(mine, answer))) == 1
        assert len(await store.trails.ends_of_exchange(ANN, after(told.alone or 0, answer))) == 1
        for said in (question, told.message):
            assert await store.trails.ends_of_exchange(ANN, after(alone(said), answer)) == ()

    @pytest.mark.req("API-7")
    async def test_turns_from_elsewhere_are_found_where_they_brought_a_trail(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        told = [Exchange(message=say("user", "Hi"), answer=say("assistant", "Hello"), asked=trail("Hi"))]
        told.append(Exchange(message=say("user", "And?"), answer=say("assistant", "Nothing")))
        await store.turns.record(branch.id, told)
        assert await store.trails.ends(ANN, (trail("Hi", "Hello"),)) is not None
        assert await store.trails.ends(ANN, (trail("Hi", "Hello", "And?", "Nothing"),)) is None
        await answer_turn(store, branch.id, "So?", "Well")
        assert await store.trails.ends(ANN, (trail("Hi", "Hello", "And?", "Nothing", "So?", "Well"),)) is None
        ends = await store.trails.ends_of_exchange(ANN, after(alone(say("user", "So?")), say("assistant", "Well")))
        assert [end.branch_id for end in ends] == [branch.id]

    @pytest.mark.req("API-7", "SAFE-4")
    async def test_nothing_leads_to_what_was_deleted(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        while (await store.deletions.delete(branch.session_id)).more:
            pass
        assert await store.trails.ends(ANN, (trail("Hi", "Hello"),)) is None
        assert (
            await store.trails.ends_of_exchange(ANN, after(alone(say("user", "Hi")), say("assistant", "Hello"))) == ()
        )
