"""Tests of a store: what a deletion removes, and what it leaves unchanged."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, new_id, now, to_millis
from contextinfinity.domain.message import ContentBlock, ImageBlock, Message, TextBlock, blob_source, say
from contextinfinity.domain.search import Scope, TextPosition
from contextinfinity.domain.session import NewSession, Owner, Removed, Session
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Exchange, Phase, Turn
from contextinfinity.errors import AccessDenied, AlreadyExists, BranchBusy, InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    current,
    embedding,
    exchange,
    failed_turn,
    final_turn,
    later_than,
    new_branch,
    new_step,
    said,
    slice_of,
    step_end,
    turn_end,
    turn_in,
)

TTL = 24.0
INSTANT = 1 / 3_600_000
"""A time to live of a millisecond."""


def told(words: str, *, hours: float = 0.0) -> Exchange:
    """Return an exchange that happened this many hours ago."""
    then = now() - timedelta(hours=hours)
    return Exchange(message=say("user", words), answer=say("assistant", f"{words}!"), created_at=then)


async def chat(store: Store, *exchanges: Exchange, ttl_hours: float | None = TTL) -> Session:
    """Create a chat with a time to live and these messages."""
    session = await store.sessions.create(NewSession(kind="chat", ttl_hours=ttl_hours))
    await store.turns.record(session.active_branch, exchanges)
    return session


async def expired(store: Store, session_id: SessionId, limit: int = 200) -> Removed:
    """Delete everything that has expired."""
    turns = sessions = 0
    more = True
    while more:
        removed = await store.deletions.expire(session_id, limit=limit)
        turns, sessions, more = turns + removed.turns, sessions + removed.sessions, removed.more
    return Removed(turns=turns, sessions=sessions)


async def deleted(store: Store, session_id: SessionId, limit: int = 200) -> int:
    """Delete a session completely; return the number of its turns."""
    turns, more = 0, True
    while more:
        removed = await store.deletions.delete(session_id, limit=limit)
        turns, more = turns + removed.turns, removed.more
    return turns


async def folded(store: Store, branch_id: BranchId, covers: int, summary: str) -> None:
    """Commit a summary that covers turns."""
    draft = StateDraft(branch_id=branch_id, reason="fold", summary=summary, covers_turn_seq=covers)
    await store.states.commit(draft, expected_head=None)


async def found(store: Store, word: str, session: Session) -> list[str]:
    """Search for a word; return the turns it was found in."""
    hits = await store.index.find_words([word], Scope(owner=session.owner))
    return [hit.place.turn_id for hit in hits.hits]


class TurnDeletionSuite:
    """One turn is deleted, and how long turns are kept is changed."""

    @pytest.mark.req("SAFE-4")
    async def test_a_deleted_turn_takes_along_all_of_it_and_its_neighbours_stay(self, store: Store) -> None:
        session = await chat(store, told("first"), told("heron"), told("last"), ttl_hours=None)
        await folded(store, session.active_branch, 2, "about a heron")
        _, heron, _ = await store.turns.history(session.active_branch)
        await store.chunks.index(heron.id, [slice_of("heron", "heron")])
        assert (await store.deletions.rows_left([], [heron.id]))["turn"] == 1
        assert await store.deletions.said({"heron", "crane"}) == {"heron"}
        assert await store.deletions.delete_turn(heron.id) == Removed(turns=1)
        assert await said(store, session.active_branch) == ["first", "last"]
        assert not any((await store.deletions.rows_left([], [heron.id])).values())
        assert await store.deletions.said({"heron", "first"}) == {"first"}
        assert await found(store, "heron", session) == []
        assert "heron" not in (await store.states.head(session.active_branch)).summary
        with pytest.raises(NotFound):
            await store.deletions.delete_turn(heron.id)
        assert await deleted(store, session.id) == 2
        assert not any((await store.deletions.rows_left([session.id])).values())

    @pytest.mark.req("SAFE-4")
    async def test_a_turn_that_is_being_answered_is_not_deleted(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        with pytest.raises(BranchBusy):
            await store.deletions.delete_turn(turn.id)
        assert await store.turns.get(turn.id) is not None

    @pytest.mark.req("SAFE-7")
    async def test_how_long_turns_are_kept_can_be_changed(self, store: Store) -> None:
        session = await chat(store, told("older", hours=30), told("younger"), ttl_hours=None)
        assert (await store.sessions.retain(session.id, TTL)).ttl_hours == TTL
        assert await said(store, session.active_branch) == ["younger"]
        assert (await store.sessions.retain(session.id, 100.0)).ttl_hours == 100
        assert await said(store, session.active_branch) == ["older", "younger"]
        assert (await store.sessions.retain(session.id, None)).ttl_hours is None
        assert await store.deletions.due() == ()
        await store.sessions.retain(session.id, TTL)
        assert await expired(store, session.id) == Removed(turns=1)
        for hours in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidInput):
                await store.sessions.retain(session.id, hours)
        with pytest.raises(NotFound):
            await store.sessions.retain(new_id(), TTL)

    @pytest.mark.req("SAFE-7")
    async def test_a_limit_shortens_what_is_kept_longer_and_nothing_else(self, store: Store) -> None:
        short = await chat(store, told("short"), ttl_hours=1.0)
        other = await chat(store, told("other", hours=30), ttl_hours=None)
        owner = Owner(user_id="anna")
        hers = await store.sessions.create(NewSession(owner=owner))
        await store.turns.record(hers.active_branch, [told("hers", hours=30)])
        assert await store.deletions.limit_retention(TTL, user_id="anna") == 1
        assert await store.deletions.due() == (hers.id,)
        assert await store.deletions.limit_retention(48.0) == 1
        assert await store.deletions.limit_retention(48.0) == 0
        kept = {each.id: each.ttl_hours for each in await store.sessions.list(Owner())}
        assert kept == {short.id: 1.0, other.id: 48.0}

    @pytest.mark.req("SAFE-7")
    async def test_raw_responses_past_their_time_are_deleted_and_nothing_else(self, store: Store) -> None:
        turns: list[Turn] = []
        for hours in (30, 25, 23, 0):
            moment = f"{to_millis(now() - timedelta(hours=hours)):012x}"
            step = replace(new_step(), id=f"{moment[:8]}-{moment[8:]}{new_id()[13:]}")
            turn = await turn_in(store, (await new_branch(store)).id, Phase.CONTEXT_PREPARED)
            await store.turns.open_step(turn.id, WORKER, step)
            end = replace(turn_end(step), step=replace(step_end(step), response=b"raw"))
            turns.append(await store.turns.finalise(turn.id, WORKER, end))
        assert await store.deletions.prune_responses(1e300) == 0
        assert [await store.deletions.prune_responses(TTL, limit=1) for _ in range(3)] == [1, 1, 0]
        responses = [step.response for turn in turns for step in await store.turns.steps(turn.id)]
        assert responses == [None, None, b"raw", b"raw"]
        assert [await current(store, turn) for turn in turns] == turns


class ExpirySuite:
    """What is past its time to live."""

    @pytest.mark.req("CHATMEM-4")
    async def test_turns_past_their_time_are_not_given_before_anybody_deletes_them(self, store: Store) -> None:
        session = await chat(store, told("older", hours=25), told("younger", hours=23))
        assert await said(store, session.active_branch) == ["younger"]
        (alive,) = await store.turns.history(session.active_branch)
        (old,) = await store.turns.record(session.active_branch, [told("oldest heron", hours=30)])
        assert await store.turns.get(alive.id) == alive
        assert await store.turns.get(old.id) is None
        assert await found(store, "heron", session) == []
        assert await store.index.read([TextPosition(old.id, "user")]) == ()

    @pytest.mark.req("CHATMEM-4")
    async def test_without_a_time_to_live_nothing_ever_expires(self, store: Store) -> None:
        session = await chat(store, told("ancient", hours=1_000_000), ttl_hours=None)
        assert await store.deletions.due() == ()
        assert await store.deletions.expire(session.id) == Removed()
        assert await said(store, session.active_branch) == ["ancient"]

    @pytest.mark.req("CHATMEM-4")
    async def test_a_very_long_time_to_live_is_no_trouble(self, store: Store) -> None:
        session = await chat(store, told("a"), ttl_hours=2.0**53)
        assert await store.deletions.due() == ()
        assert await said(store, session.active_branch) == ["a"]

    @pytest.mark.req("CHATMEM-4", "CHATMEM-5")
    async def test_what_is_past_its_time_is_deleted_and_the_rest_stays(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b", hours=25), told("c", hours=1))
        other = await chat(store, told("d"))
        assert await store.deletions.due() == (session.id,)
        assert await expired(store, session.id) == Removed(turns=2)
        assert await store.deletions.due() == ()
        (rest,) = await store.turns.history(session.active_branch)
        assert (rest.turn_seq, rest.user_message) == (3, say("user", "c"))
        assert await said(store, other.active_branch) == ["d"]
        assert await store.deletions.expire(session.id) == Removed()

    @pytest.mark.req("CHATMEM-4")
    async def test_a_session_goes_with_its_last_turn(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b", hours=25))
        assert await expired(store, session.id) == Removed(turns=2, sessions=1)
        assert await store.sessions.get(session.id) is None
        assert await store.branches.get(session.active_branch) is None
        assert await store.sessions.list(session.owner) == ()

    @pytest.mark.req("CHATMEM-4")
    async def test_a_session_nobody_spoke_in_goes_when_its_time_is_over(self, store: Store) -> None:
        session = await chat(store, ttl_hours=INSTANT)
        await later_than(session.created_at + timedelta(milliseconds=1))
        assert await store.deletions.due() == (session.id,)
        assert await expired(store, session.id) == Removed(sessions=1)
        young = await chat(store)
        assert await store.deletions.expire(young.id) == Removed()
        assert await store.sessions.get(young.id) is not None

    @pytest.mark.req("CHATMEM-4")
    async def test_numbers_are_not_given_again(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b", hours=25), told("c"))
        await expired(store, session.id)
        (again,) = await store.turns.record(session.active_branch, [told("d")])
        assert again.turn_seq == 4

    @pytest.mark.req("CHATMEM-4")
    async def test_not_even_when_the_session_was_gone_in_between(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b", hours=25))
        await expired(store, session.id)
        again = await store.sessions.create(NewSession(id=session.id, kind="chat"))
        (turn,) = await store.turns.record(again.active_branch, [told("c")])
        assert turn.turn_seq == 3
        assert await said(store, again.active_branch) == ["c"]

    @pytest.mark.req("CHATMEM-3", "CHATMEM-4")
    async def test_the_id_of_a_deleted_session_stays_its_owners(self, store: Store) -> None:
        session = await chat(store, told("a"))
        await deleted(store, session.id)
        with pytest.raises(AccessDenied):
            await store.sessions.create(NewSession(id=session.id, owner=Owner(user_id="eve"), kind="chat"))
        assert await store.sessions.get(session.id) is None
        assert (await store.sessions.create(NewSession(id=session.id, kind="chat"))).owner == session.owner

    @pytest.mark.req("CHATMEM-5")
    async def test_much_is_deleted_in_small_batches(self, store: Store) -> None:
        session = await chat(store, *(told(f"turn {n}", hours=30) for n in range(7)), told("young"))
        first = await store.deletions.expire(session.id, limit=3)
        assert (first.turns, first.more) == (3, True)
        assert await store.deletions.due() == (session.id,)
        assert await expired(store, session.id, limit=3) == Removed(turns=4)
        assert await said(store, session.active_branch) == ["young"]

    @pytest.mark.req("CHATMEM-4")
    async def test_turns_that_are_not_over_wait(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(ttl_hours=INSTANT))
        over = await failed_turn(store, branch.id, "over")
        running = await turn_in(store, (await new_branch(store)).id, Phase.RESPONDING)
        assert running.phase is Phase.RESPONDING
        waiting = await final_turn(store, branch.id, "answered, not committed")
        await later_than(waiting.created_at + timedelta(milliseconds=1))
        assert (await store.deletions.expire(branch.session_id)).turns == 1
        assert await store.sessions.get(branch.session_id) is not None
        assert [job.turn_id for job in await store.jobs.list(branch_id=branch.id)] == [waiting.id]
        assert over.turn_seq == 1


class DeletionSuite:
    """What a deletion removes, and what other readers see."""

    @pytest.mark.req("CHATMEM-4")
    async def test_what_was_made_from_a_turn_goes_with_it(self, store: Store) -> None:
        session = await chat(store, told("the heron stood still", hours=30), told("the egret flew"))
        old = (await store.index.turns())[0]
        text = old.user_message.rendered_text
        vector = embedding("tiny", 1.0, 0.0)
        await store.index.fill([(old.id, [slice_of(text, "heron", embedding=vector)])])
        (chunk,) = await store.chunks.of_turn(old.id)
        await expired(store, session.id)
        assert await store.turns.get(old.id) is None
        assert await store.chunks.get(chunk.id) is None
        assert await store.vectors.bodies("tiny", [chunk.id]) == (None,)
        assert (await store.vectors.namespaces())[0].placed == 0
        assert await found(store, "heron", session) == []
        assert len(await found(store, "egret", session)) == 2
        state = await store.index.state()
        assert (state.messages, state.indexed, state.chunks) == (2, 2, 0)

    @pytest.mark.req("CHATMEM-4")
    async def test_words_that_were_borrowed_from_it_go_too(self, store: Store) -> None:
        session = await chat(store, told("the heron", hours=30), told("it flew"), told("far"), told("away"))
        for turn in (await store.index.turns())[1:]:
            text = turn.user_message.rendered_text
            await store.index.fill([(turn.id, [replace(slice_of(text, text), borrowed="heron")])])
        assert len(await found(store, "heron", session)) == 3
        await expired(store, session.id)
        (last,) = await found(store, "heron", session)
        assert [turn.turn_seq for turn in await store.index.uncut()] == [2, 3]
        assert (await store.turns.history(session.active_branch))[-1].id == last, "it never borrowed from that one"

    @pytest.mark.req("CHATMEM-4")
    async def test_a_deleted_session_leaves_nothing_of_its_turns(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(external_id="mine", system="Be brief."))
        turn = await answer_turn(store, branch.id, "the heron", "stood still")
        removed = await store.deletions.delete(branch.session_id)
        assert (removed.turns, removed.sessions, removed.more) == (1, 1, False)
        assert await store.turns.get(turn.id) is None
        assert await store.turns.steps(turn.id) == ()
        assert await store.turns.plan(turn.id) is None
        assert await store.jobs.list() == ()
        assert await store.turns.history(branch.id) == ()
        assert (await store.index.state()).messages == 0
        again = await store.sessions.create(NewSession(external_id="mine"))
        assert again.id != branch.session_id

    @pytest.mark.req("CHATMEM-4")
    async def test_a_large_session_is_gone_for_everybody_from_the_first_batch_on(self, store: Store) -> None:
        session = await chat(store, *(told(f"word{n}") for n in range(9)))
        kept = await chat(store, told("word1 too"))
        first = await store.deletions.delete(session.id, limit=2)
        assert await store.sessions.get(session.id) is None
        assert [each.id for each in await store.sessions.list(session.owner)] == [kept.id]
        assert len(await found(store, "word8", session)) == 0
        if first.more:
            assert await store.deletions.due() == (session.id,)
            with pytest.raises(NotFound):
                await store.turns.record(session.active_branch, [told("too late")])
            with pytest.raises(AlreadyExists):
                await store.sessions.create(NewSession(id=session.id))
        rest = await expired(store, session.id, limit=2) if first.more else Removed()
        assert first.turns + rest.turns == 9
        assert await store.deletions.due() == ()
        assert await said(store, kept.active_branch) == ["word1 too"]

    async def test_blobs_go_with_the_last_that_showed_them(self, store: Store) -> None:
        shared = await store.contents.keep_blob(b"a heron", "image/png")
        own = await store.contents.keep_blob(b"an egret", "image/png")

        def shown(*names: str) -> Exchange:
            pictures = (ImageBlock(media_type="image/png", source=blob_source(name)) for name in names)
            blocks: tuple[ContentBlock, ...] = (TextBlock(text="look"), *pictures)
            return Exchange(message=Message(role="user", blocks=blocks), answer=say("assistant", "nice"))

        session, other = await chat(store, shown(shared, own)), await chat(store, shown(shared))
        await deleted(store, session.id)
        assert await store.contents.blob(own) is None
        assert await store.contents.blob(shared) is not None
        await deleted(store, other.id)
        assert await store.contents.blob(shared) is None

    # --- what others see ---

    @pytest.mark.req("CHATMEM-4", "COMPACT-1")
    async def test_a_summary_of_what_is_gone_goes_and_the_rest_stands_word_for_word(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b", hours=25), told("c", hours=1), told("d"))
        branch = session.active_branch
        await store.states.pin(branch, "tea, not coffee")
        await folded(store, branch, 3, "They said a, b and c.")
        before = await store.states.head(branch)
        await expired(store, session.id)
        head = await store.states.head(branch)
        assert (head.summary, head.covers_turn_seq, head.reason) == ("", 2, "delete")
        assert (head.pinned_facts, head.turn_seq) == (("tea, not coffee",), 4)
        assert head.id != before.id
        assert all(not state.summary for state in await store.states.list(branch))
        assert [job.job_type for job in await store.jobs.list(branch_id=branch)] == ["fold_branch"]

    @pytest.mark.req("CHATMEM-4")
    async def test_a_summary_that_covers_nothing_of_it_stays(self, store: Store) -> None:
        session = await chat(store, told("a"), told("b"), told("late, but from long ago", hours=30))
        await folded(store, session.active_branch, 2, "They said a and b.")
        await expired(store, session.id)
        head = await store.states.head(session.active_branch)
        assert (head.summary, head.covers_turn_seq, head.reason) == ("They said a and b.", 2, "delete")
        newest = await store.states.newest(session.active_branch, {"delete"})
        assert newest == head

    @pytest.mark.req("CHATMEM-4")
    async def test_branches_that_never_saw_the_turn_are_as_they_were(self, store: Store) -> None:
        session = await chat(store, told("a"))
        fork = await store.branches.fork(session.active_branch)
        await store.turns.record(fork.id, [told("of the fork")])
        await folded(store, fork.id, 2, "a, and more")
        await store.turns.record(session.active_branch, [told("of main", hours=30)])
        before = await store.states.head(fork.id)
        await expired(store, session.id)
        assert await store.states.head(fork.id) == before
        assert await said(store, fork.id) == ["a", "of the fork"]
        assert (await store.states.head(session.active_branch)).reason == "delete"

    @pytest.mark.req("CHATMEM-4")
    async def test_a_fork_of_what_is_gone_sees_the_rest_and_nothing_of_a_summary(self, store: Store) -> None:
        session = await chat(store, told("a", hours=30), told("b"), told("c"))
        await folded(store, session.active_branch, 2, "a and b")
        fork = await store.branches.fork(session.active_branch, at=2)
        await expired(store, session.id)
        for branch in (fork.id, (await store.branches.fork(session.active_branch, at=2)).id):
            head = await store.states.head(branch)
            assert (head.summary, head.covers_turn_seq <= 1) == ("", True)
            assert await said(store, branch) == ["b"]

    @pytest.mark.req("CHATMEM-4")
    async def test_a_fork_before_a_gap_starts_from_what_was_known_there(self, store: Store) -> None:
        session = await chat(store, told("a"))
        for word in ("b", "c"):
            await store.turns.record(session.active_branch, [told(word, hours=30)])
        await store.turns.record(session.active_branch, [told("d")])
        await expired(store, session.id)
        fork = await store.branches.fork(session.active_branch, at=1)
        assert (await store.states.head(fork.id)).turn_seq == 1
        assert await said(store, fork.id) == ["a"]
        assert await said(store, session.active_branch) == ["a", "d"]

    async def test_turns_before_and_after_a_gap_are_read_a_page_at_a_time(self, store: Store) -> None:
        hours = (0.0, 30.0, 0.0, 30.0, 30.0, 0.0)
        session = await chat(store, *(told(f"t{n}", hours=ago) for n, ago in enumerate(hours, 1)))
        await expired(store, session.id)
        newest = await store.turns.history(session.active_branch, limit=2)
        assert [turn.turn_seq for turn in newest] == [3, 6]
        older = await store.turns.history(session.active_branch, limit=2, before=newest[0].turn_seq)
        assert [turn.turn_seq for turn in older] == [1]
        assert await store.turns.history(session.active_branch, limit=2, before=1) == ()

    # --- refusals ---

    async def test_an_unknown_session_cannot_be_deleted(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.deletions.delete(new_id())
        assert await store.deletions.expire(new_id()) == Removed()

    @pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING])
    async def test_a_session_in_which_somebody_is_being_answered_cannot_be_deleted(
        self, store: Store, phase: Phase
    ) -> None:
        branch = await new_branch(store)
        await turn_in(store, branch.id, phase)
        with pytest.raises(BranchBusy):
            await store.deletions.delete(branch.session_id)
        assert await store.sessions.get(branch.session_id) is not None

    @pytest.mark.parametrize("phase", [Phase.RESPONSE_FINALIZED, Phase.STATE_COMMITTED, Phase.INDEXED, Phase.FAILED])
    async def test_work_that_waits_for_a_deleted_turn_is_not_done(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        await turn_in(store, branch.id, phase)
        assert await deleted(store, branch.session_id) == 1
        assert await store.jobs.list() == ()

    async def test_sweeping_comes_to_an_end(self, store: Store) -> None:
        session = await chat(store, *(told(f"w{n} " * 50) for n in range(20)))
        await deleted(store, session.id, limit=3)
        rounds = 0
        while await store.deletions.sweep(steps=2):
            rounds += 1
            assert rounds < 100
        assert not await store.deletions.sweep()

    # --- once ---

    async def test_an_exchange_with_an_id_is_recorded_once(self, store: Store) -> None:
        branch = await new_branch(store)
        one = Exchange(id=new_id(), message=say("user", "a"), answer=say("assistant", "b"))
        first: tuple[Turn, ...] = await store.turns.record(branch.id, [one])
        again = await store.turns.record(branch.id, [exchange("c", "d"), one])
        assert [turn.turn_seq for turn in again] == [2, 1]
        assert first[0].id == one.id == again[1].id
        with pytest.raises(AlreadyExists):
            await store.turns.record((await new_branch(store)).id, [one])
