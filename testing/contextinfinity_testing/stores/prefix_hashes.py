"""Tests of a store: prefix hashes find the position of a conversation by its messages."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.message import say
from contextinfinity.domain.prefix_hash import PrefixHashEnd, after, alone, beginning
from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.domain.turn import Exchange, Phase, PrefixHashes, TurnEnd
from contextinfinity.errors import BranchBusy
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.prefix_hashes import MOST_CANDIDATES
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    failed_turn,
    final_turn,
    new_branch,
    new_turn,
    respond,
    turn_in,
)

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")


def trail(*texts: str, begun: str = "", owner: Owner = ANN) -> int:
    """Return the prefix hashes of alternating questions and answers."""
    number = beginning(owner, begun)
    for place, text in enumerate(texts):
        number = after(number, say("assistant" if place % 2 else "user", text))
    return number


async def found(store: Store, answered: int) -> PrefixHashEnd:
    """Find the place of a prefix hash that is stored."""
    end = await store.prefix_hashes.end(ANN, answered)
    assert end is not None
    return end


def exchange(question: str, answer: str, owner: Owner = ANN) -> int:
    """Return the number of an exchange alone."""
    return after(alone(say("user", question), owner), say("assistant", answer))


async def thread(store: Store, *texts: str, owner: Owner = ANN) -> Branch:
    """Create a conversation with alternating questions and answers."""
    branch = await new_branch(store, NewSession(owner=owner))
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        await answer_turn(store, branch.id, question, answer)
    return branch


class PrefixHashSuite:
    """A conversation that is sent again is matched to its stored turns."""

    @pytest.mark.req("API-7")
    async def test_every_turn_is_found_by_what_was_said_up_to_its_answer(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello", "And?", "Nothing")
        far, near = trail("Hi", "Hello"), trail("Hi", "Hello", "And?", "Nothing")
        end = await found(store, near)
        assert (end.session_id, end.branch_id, end.turn_seq, end.is_free) == (branch.session_id, branch.id, 2, True)
        end = await found(store, far)
        assert (end.turn_seq, end.is_free) == (1, False)
        assert await store.prefix_hashes.end(ANN, trail("And?", "Nothing")) is None
        assert await store.prefix_hashes.end(ANN, trail("Hi")) is None

    @pytest.mark.req("API-7")
    async def test_nobody_is_led_to_what_somebody_else_said(self, store: Store) -> None:
        mine = await thread(store, "Hi", "Hello")
        theirs = await thread(store, "Hi", "Hello", owner=BOB)
        for owner, branch in ((ANN, mine), (BOB, theirs)):
            end = await store.prefix_hashes.end(owner, trail("Hi", "Hello", owner=owner))
            assert end is not None
            assert end.session_id == branch.session_id
        walked = trail("Hi", "Hello")
        assert await store.prefix_hashes.end(BOB, walked) is None
        assert await store.prefix_hashes.end(ANN, walked, session_id=mine.session_id) is not None
        assert await store.prefix_hashes.end(ANN, walked, session_id=theirs.session_id) is None
        said = exchange("Hi", "Hello")
        assert [end.session_id for end in await store.prefix_hashes.exchanges(ANN, said)] == [mine.session_id]
        assert await store.prefix_hashes.exchanges(ANN, said, session_id=theirs.session_id) == ()
        assert await store.prefix_hashes.exchanges(Owner(user_id="ann", org_id="else"), said) == ()

    @pytest.mark.req("API-7")
    async def test_of_equal_trails_one_comes_that_nothing_follows_and_of_those_the_newest(self, store: Store) -> None:
        walked = trail("Hi", "Hello")
        old = await thread(store, "Hi", "Hello")
        new = await thread(store, "Hi", "Hello")
        branch_continued = await thread(store, "Hi", "Hello", "And?", "Nothing")
        for branch in (new, old):
            end = await found(store, walked)
            assert (end.branch_id, end.is_free) == (branch.id, True)
            await answer_turn(store, branch.id, "Or?", "Something")
        end = await found(store, walked)
        assert (end.branch_id, end.is_free) == (branch_continued.id, False), "the newest thread"

    @pytest.mark.req("API-7")
    async def test_an_exchange_that_was_gone_on_from_is_found_where_no_free_one_says_it(self, store: Store) -> None:
        branch_continued = await thread(store, "Hi", "Hello", "And?", "Nothing", "So?", "Well")
        said = exchange("And?", "Nothing")
        (end,) = await store.prefix_hashes.exchanges(ANN, said)
        assert (end.branch_id, end.turn_seq, end.is_free) == (branch_continued.id, 2, False)
        fork = await store.branches.fork(branch_continued.id, at=2)
        (end,) = await store.prefix_hashes.exchanges(ANN, said)
        assert (end.branch_id, end.turn_seq, end.is_free, end.is_fresh) == (fork.id, 2, True, True)
        await answer_turn(store, fork.id, "Or?", "Something")
        (end,) = await store.prefix_hashes.exchanges(ANN, said)
        assert (end.branch_id, end.is_free) == (branch_continued.id, False)
        other = await thread(store, "Ho", "Hello", "And?", "Nothing")
        ends = await store.prefix_hashes.exchanges(ANN, said)
        assert [(end.branch_id, end.is_free) for end in ends] == [(other.id, True), (branch_continued.id, False)]
        await store.branches.fork(other.id, at=2)
        assert len(await store.prefix_hashes.exchanges(ANN, said)) == 2, (
            "each turn once, however many branches begin there"
        )

    @pytest.mark.req("API-13")
    async def test_equal_exchanges_are_given_up_to_a_limit(self, store: Store) -> None:
        for number in range(MOST_CANDIDATES + 3):
            await thread(store, f"Hi {number}", "Hello", "Thanks", "Welcome")
        assert len(await store.prefix_hashes.exchanges(ANN, exchange("Thanks", "Welcome"))) == MOST_CANDIDATES + 1

    @pytest.mark.req("API-13")
    async def test_the_different_continuations_of_an_opening_are_counted_in_all_threads(self, store: Store) -> None:
        opening = trail("Hi", "Hello")
        await thread(store, "Hi", "Hello", "a", "Yes")
        assert (await found(store, opening)).continuations == 1
        for question, count in (("a", 1), ("b", 2), ("c", 3), ("d", 3)):
            branch = await new_branch(store, NewSession(owner=ANN))
            recorded = [Exchange(message=say("user", "Hi"), answer=say("assistant", "Hello"), asked=trail("Hi"))]
            await store.turns.record(branch.id, recorded)
            brought = PrefixHashes(asked=after(opening, say("user", question)), before=opening, body=7)
            await failed_turn(store, branch.id, "not counted")
            await store.turns.accept(replace(new_turn(branch.id, question), trail=brought))
            assert (await found(store, opening)).continuations == count

    @pytest.mark.req("API-13")
    async def test_a_turn_that_brings_no_prefix_hash_gets_that_of_all_that_is_stored_before_it(
        self, store: Store
    ) -> None:
        branch = await thread(store, "Hi", "Hello")
        turn = await store.turns.accept(replace(new_turn(branch.id, "And?"), trail=PrefixHashes(body=7)))
        await respond(store, turn, "Nothing")
        assert (await found(store, trail("Hi", "Hello", "And?", "Nothing"))).turn_id == turn.id
        assert await store.prefix_hashes.end(ANN, trail("And?", "Nothing")) is None

    @pytest.mark.req("API-7")
    async def test_a_turn_without_an_answer_leads_nowhere_and_neither_does_what_it_follows(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        stopped = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        await store.turns.finalise(stopped.id, WORKER, TurnEnd(outcome="cancelled"))
        end = await found(store, trail("Hi", "Hello"))
        assert not end.is_free
        await final_turn(store, branch.id, "Well?", "Well")
        assert len(await store.prefix_hashes.exchanges(ANN, exchange("Well?", "Well"))) == 1

    @pytest.mark.req("API-7")
    async def test_a_branch_begun_after_turns_that_failed_leaves_off_before_them(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello", "And?", "Nothing")
        fork = await store.branches.fork(branch.id, at=1)
        failed = await failed_turn(store, fork.id, "Or?")
        again = await store.branches.fork(fork.id, at=failed.turn_seq)
        end = await found(store, trail("Hi", "Hello"))
        assert (end.branch_id, end.turn_seq, end.is_fresh) == (again.id, 1, True)

    @pytest.mark.req("API-7")
    async def test_what_was_logged_or_imported_is_found_by_its_last_exchange(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        told = [Exchange(message=say("user", f"Q{n}"), answer=say("assistant", f"A{n}")) for n in range(3)]
        await store.turns.record(branch.id, told)
        (end,) = await store.prefix_hashes.exchanges(ANN, exchange("Q2", "A2"))
        assert (end.branch_id, end.turn_seq, end.is_free) == (branch.id, 3, True)
        assert await store.prefix_hashes.exchanges(ANN, exchange("Q1", "A1")) == ()
        await store.turns.log(branch.id, say("user", "Q3"))
        assert await store.prefix_hashes.exchanges(ANN, exchange("Q2", "A2")) == ()
        await store.turns.log(branch.id, say("assistant", "A3"))
        (end,) = await store.prefix_hashes.exchanges(ANN, exchange("Q3", "A3"))
        assert (end.branch_id, end.turn_seq) == (branch.id, 4)

    @pytest.mark.req("API-7")
    async def test_turns_that_failed_are_no_part_of_a_trail(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        await failed_turn(store, branch.id, "And?")
        end = await found(store, trail("Hi", "Hello"))
        assert end.is_free
        await final_turn(store, branch.id, "And?", "Nothing")
        place = await store.prefix_hashes.end(ANN, trail("Hi", "Hello", "And?", "Nothing"))
        assert place is not None

    @pytest.mark.req("API-7")
    async def test_a_turn_under_way_follows_and_leads_nowhere_yet(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        await turn_in(store, branch.id, Phase.RESPONDING)
        end = await found(store, trail("Hi", "Hello"))
        assert not end.is_free
        (end,) = await store.prefix_hashes.exchanges(ANN, exchange("Hi", "Hello"))
        assert not end.is_free

    @pytest.mark.req("API-7")
    async def test_a_branch_goes_on_from_what_it_saw_and_a_fresh_one_is_free(self, store: Store) -> None:
        main = await thread(store, "Hi", "Hello", "And?", "Nothing")
        fork = await store.branches.fork(main.id, at=1)
        end = await found(store, trail("Hi", "Hello"))
        assert (end.branch_id, end.turn_seq, end.is_free) == (fork.id, 1, True)
        await answer_turn(store, fork.id, "Or?", "Something")
        end = await found(store, trail("Hi", "Hello", "Or?", "Something"))
        assert (end.branch_id, end.turn_seq) == (fork.id, 2)
        end = await found(store, trail("Hi", "Hello"))
        assert (end.branch_id, end.is_free) == (main.id, False)

    @pytest.mark.req("API-7")
    async def test_a_message_that_brings_its_trail_keeps_it(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        brought = PrefixHashes(asked=trail("Long ago", "It was", "Hi", begun="carl"), body=7)
        turn = await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought))
        walked = await store.prefix_hashes.walked(ANN, brought)
        assert walked is not None
        assert (walked.turn_id, walked.phase) == (turn.id, turn.phase)
        await respond(store, turn, "Hello")
        assert await store.prefix_hashes.end(ANN, trail("Hi", "Hello")) is None
        place = await store.prefix_hashes.end(ANN, trail("Long ago", "It was", "Hi", "Hello", begun="carl"))
        assert place is not None
        assert place.turn_id == turn.id
        assert await store.prefix_hashes.walked(BOB, brought) is None
        assert await store.prefix_hashes.walked(ANN, replace(brought, body=8)) is None
        assert brought.asked is not None
        assert await store.prefix_hashes.asked(ANN, brought.asked) == (turn.id,)
        assert await store.prefix_hashes.asked(BOB, brought.asked) == ()
        walked = await store.prefix_hashes.walked(ANN, brought)
        assert walked is not None
        assert walked.phase is Phase.RESPONSE_FINALIZED
        again = await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought))
        walked = await store.prefix_hashes.walked(ANN, brought)
        assert walked is not None
        assert walked.turn_id == again.id
        assert set(await store.prefix_hashes.asked(ANN, brought.asked)) == {again.id, turn.id}

    @pytest.mark.req("API-7")
    async def test_a_message_that_has_to_follow_a_turn_is_refused_where_others_went_on(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        placed = PrefixHashes(asked=trail("Hi", "Hello", "And?"), body=7, follows=1)
        failed = await failed_turn(store, branch.id, "And?")
        with pytest.raises(BranchBusy):
            await store.turns.accept(replace(new_turn(branch.id, "And?"), trail=placed))
        retry = replace(new_turn(branch.id, "And?"), trail=placed, retry_of=failed.id)
        turn = await store.turns.accept(retry)
        with pytest.raises(BranchBusy):
            await store.turns.accept(replace(new_turn(branch.id, "Or?"), trail=placed))
        with pytest.raises(BranchBusy):
            await store.turns.accept(retry)
        history = await store.turns.history(branch.id, limit=10)
        assert [each.id for each in history if each.phase is not Phase.FAILED][1:] == [turn.id]

    @pytest.mark.req("API-7")
    async def test_an_exchange_is_found_by_who_said_it(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        question, answer = say("user", "Hi"), say("assistant", "Hello")
        mine = alone(question, ANN, "carl")
        brought = PrefixHashes(asked=trail("Hi", begun="carl"), body=7, alone=mine)
        await respond(store, await store.turns.accept(replace(new_turn(branch.id, "Hi"), trail=brought)), "Hello")
        told = Exchange(
            message=say("user", "So?"), answer=answer, asked=1, alone=alone(say("user", "So?"), ANN, "carl")
        )
        other = await new_branch(store, NewSession(owner=ANN))
        await store.turns.record(other.id, [told])
        assert len(await store.prefix_hashes.exchanges(ANN, after(mine, answer))) == 1
        assert len(await store.prefix_hashes.exchanges(ANN, after(told.alone or 0, answer))) == 1
        for said in (question, told.message):
            assert await store.prefix_hashes.exchanges(ANN, after(alone(said, ANN), answer)) == ()

    @pytest.mark.req("API-7")
    async def test_turns_from_elsewhere_are_found_where_they_brought_a_trail(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        told = [Exchange(message=say("user", "Hi"), answer=say("assistant", "Hello"), asked=trail("Hi"))]
        told.append(Exchange(message=say("user", "And?"), answer=say("assistant", "Nothing")))
        await store.turns.record(branch.id, told)
        assert await store.prefix_hashes.end(ANN, trail("Hi", "Hello")) is not None
        assert await store.prefix_hashes.end(ANN, trail("Hi", "Hello", "And?", "Nothing")) is None
        await answer_turn(store, branch.id, "So?", "Well")
        assert await store.prefix_hashes.end(ANN, trail("Hi", "Hello", "And?", "Nothing", "So?", "Well")) is None
        ends = await store.prefix_hashes.exchanges(ANN, exchange("So?", "Well"))
        assert [end.branch_id for end in ends] == [branch.id]

    @pytest.mark.req("API-7", "SAFE-4")
    async def test_nothing_leads_to_what_was_deleted(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello")
        while (await store.deletions.delete(branch.session_id)).more:
            pass
        assert await store.prefix_hashes.end(ANN, trail("Hi", "Hello")) is None
        assert await store.prefix_hashes.exchanges(ANN, exchange("Hi", "Hello")) == ()
