"""Tests of a store: messages that are logged one by one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.message import ImageBlock, Message, Role, TextBlock, ToolUseBlock, blob_source, say
from contextinfinity.domain.session import Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Phase, Turn, Usage
from contextinfinity.errors import HeadMoved, InvalidInput, NotFound, OutOfOrder
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    answer_turn,
    current,
    exchange,
    failed_turn,
    later_than,
    new_branch,
    new_turn,
    slice_of,
    turn_in,
)

ASKING: tuple[Role, ...] = ("user", "system", "tool")
ROLES: tuple[Role, ...] = (*ASKING, "assistant")
ANSWER = say("assistant", "answer")


async def logged(store: Store, branch_id: BranchId, role: Role, text: str = "question") -> Turn:
    """Log a text message."""
    return await store.turns.log(branch_id, say(role, text))


async def read_back(store: Store, branch_id: BranchId) -> list[Message]:
    """Return all messages in order."""
    turns = await store.turns.history(branch_id, limit=1_000_000)
    return [said for turn in turns for said in (turn.user_message, turn.answer) if said is not None]


def every_run_of_three() -> list[Role]:
    """Return a sequence of roles that contains every run of three."""
    roles: list[Role] = ["user", "user"]
    seen: set[tuple[Role, ...]] = set()
    while True:
        left = [role for role in reversed(ROLES) if (*roles[-2:], role) not in seen]
        if not left:
            return roles
        seen.add((*roles[-2:], left[0]))
        roles.append(left[0])


class LogSuite:
    """Messages logged as they are said."""

    # --- opening and closing ---

    @pytest.mark.req("THREAD-13", "LEDGER-5")
    @pytest.mark.parametrize("role", ROLES)
    async def test_a_logged_message_opens_a_turn_that_is_done_and_nobodys(self, store: Store, role: Role) -> None:
        branch = await new_branch(store)
        head = await store.states.pin(branch.id, "fact")
        turn = await store.turns.log(branch.id, say(role, "hello"), metadata={"from": "a log"})
        assert await current(store, turn) == turn
        assert (turn.phase, turn.outcome, turn.answer, turn.owner) == (Phase.DONE, None, None, None)
        assert (turn.user_message, turn.metadata, turn.turn_seq) == (say(role, "hello"), {"from": "a log"}, 1)
        assert (turn.usage, turn.provider, turn.model, turn.error) == (Usage(), "", "", None)
        state = await store.states.head(branch.id)
        assert (turn.state_before, turn.state_after) == (head.id, state.id)
        assert (state.reason, state.turn_seq, state.state_seq) == ("record", 1, head.state_seq + 1)
        assert (state.parent_id, state.pinned_facts) == (head.id, ("fact",))
        assert await store.jobs.list() == ()

    @pytest.mark.req("THREAD-13")
    @pytest.mark.parametrize("role", ASKING)
    async def test_an_assistants_message_closes_the_turn_before_it(self, store: Store, role: Role) -> None:
        branch = await new_branch(store)
        opened = await store.turns.log(branch.id, say(role, "question"), metadata={"n": 1})
        await later_than(opened.updated_at)
        closed = await store.turns.log(branch.id, ANSWER, metadata={"n": 2})
        assert closed == replace(opened, answer=ANSWER, outcome="completed", updated_at=closed.updated_at)
        assert closed.updated_at > opened.updated_at
        assert await store.turns.history(branch.id) == (closed,)
        assert await current(store, opened) == closed
        after = await store.branches.get(branch.id)
        assert after is not None
        assert after.last_turn_seq == 1

    async def test_a_turn_recorded_without_an_answer_can_be_closed_too(self, store: Store) -> None:
        branch = await new_branch(store)
        first, second = await store.turns.record(branch.id, [exchange("one"), exchange("two")])
        closed = await store.turns.log(branch.id, ANSWER)
        assert (closed.id, closed.answer) == (second.id, ANSWER)
        assert await store.turns.history(branch.id) == (first, closed)

    @pytest.mark.req("LEDGER-4", "THREAD-13")
    async def test_a_turn_is_closed_once(self, store: Store) -> None:
        branch = await new_branch(store)
        await logged(store, branch.id, "user")
        closed = await store.turns.log(branch.id, ANSWER)
        alone = await logged(store, branch.id, "assistant", "and more")
        third = await logged(store, branch.id, "assistant", "and yet more")
        assert [turn.turn_seq for turn in (closed, alone, third)] == [1, 2, 3]
        assert await store.turns.history(branch.id) == (closed, alone, third)
        assert (alone.user_message, alone.answer) == (say("assistant", "and more"), None)

    @pytest.mark.req("THREAD-13")
    async def test_all_roles_come_back_in_any_order(self, store: Store) -> None:
        branch = await new_branch(store)
        said = [say(role, f"{role} {place}") for place, role in enumerate(every_run_of_three())]
        assert len(said) > len(ROLES) ** 3
        for message in said:
            await store.turns.log(branch.id, message)
        assert await read_back(store, branch.id) == said

    async def test_rich_messages_are_logged_as_they_are(self, store: Store) -> None:
        branch = await new_branch(store)
        sha256 = await store.contents.keep_blob(b"pixels", "image/png")
        image = ImageBlock(media_type="image/png", source=blob_source(sha256))
        call = ToolUseBlock(tool_use_id="c", name="look", input={"at": [1, None]})
        said = [
            Message(role="user", blocks=(TextBlock(text="Look:"), image)),
            Message(role="assistant", blocks=(TextBlock(text="I do."), call, image)),
        ]
        for message in said:
            await store.turns.log(branch.id, message)
        assert await read_back(store, branch.id) == said

    async def test_a_session_that_is_logged_to_was_spoken_in(self, store: Store) -> None:
        first, second = await new_branch(store), await new_branch(store)
        for role in ("user", "assistant"):
            for branch in (first, second, first):
                newest = (await store.sessions.list(Owner()))[0]
                await later_than(newest.updated_at)
                await logged(store, branch.id, role)
                assert (await store.sessions.list(Owner()))[0].active_branch == branch.id

    @pytest.mark.req("LEDGER-4")
    async def test_what_was_taken_from_a_question_stays_when_it_is_answered(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await logged(store, branch.id, "user", "the code word")
        (chunk,) = await store.chunks.index(turn.id, [slice_of("the code word", "code")])
        await store.turns.log(branch.id, ANSWER)
        assert await store.chunks.index(turn.id, [slice_of("answer", "answer", side="assistant")]) != (chunk,)
        assert chunk in await store.chunks.of_turn(turn.id)

    # --- what is past stays as it was ---

    @pytest.mark.req("LEDGER-4", "LEDGER-8")
    @pytest.mark.parametrize("how", ["at", "state", "end"])
    async def test_a_question_that_a_branch_goes_on_from_stays_open(self, store: Store, how: str) -> None:
        main = await new_branch(store)
        opened = await logged(store, main.id, "user")
        head = await store.states.head(main.id)
        place = {"at": {"at": 1}, "state": {"state": head.state_seq}, "end": {}}[how]
        fork = await store.branches.fork(main.id, **place)  # type: ignore[arg-type]
        on_main = await store.turns.log(main.id, ANSWER)
        on_fork = await store.turns.log(fork.id, ANSWER)
        assert await store.turns.history(main.id) == (opened, on_main)
        assert await store.turns.history(fork.id) == (opened, on_fork)

    async def test_a_fork_before_a_question_does_not_keep_it_open(self, store: Store) -> None:
        main = await new_branch(store)
        await store.turns.record(main.id, [exchange("before", "yes")])
        opened = await logged(store, main.id, "user")
        fork = await store.branches.fork(main.id, at=1)
        aside = await logged(store, fork.id, "user", "aside")
        assert (await store.turns.log(main.id, ANSWER)).id == opened.id
        assert (await store.turns.log(fork.id, ANSWER)).id == aside.id

    @pytest.mark.req("LEDGER-4")
    async def test_a_question_that_a_summary_tells_of_stays_open(self, store: Store) -> None:
        branch = await new_branch(store)
        opened = await logged(store, branch.id, "user")
        fold = StateDraft(branch_id=branch.id, reason="fold", summary="Something was asked.", covers_turn_seq=1)
        await store.states.commit(fold, expected_head=None)
        alone = await store.turns.log(branch.id, ANSWER)
        assert await store.turns.history(branch.id) == (opened, alone)

    @pytest.mark.req("LEDGER-5")
    async def test_a_summary_made_before_the_answer_came_is_not_committed(self, store: Store) -> None:
        branch = await new_branch(store)
        await logged(store, branch.id, "user")
        seen = await store.states.head(branch.id)
        await store.turns.log(branch.id, ANSWER)
        fold = StateDraft(branch_id=branch.id, reason="fold", summary="Nobody answered.", covers_turn_seq=1)
        with pytest.raises(HeadMoved):
            await store.states.commit(fold, expected_head=seen.id)
        head = await store.states.head(branch.id)
        assert (head.reason, head.parent_id, head.turn_seq) == ("record", seen.id, 1)

    async def test_turns_of_the_engine_are_never_closed_by_a_log(self, store: Store) -> None:
        branch = await new_branch(store)
        failed = await failed_turn(store, branch.id, "lost")
        after_failure = await store.turns.log(branch.id, ANSWER)
        answered = await answer_turn(store, branch.id, "one", "two")
        after_answer = await store.turns.log(branch.id, ANSWER)
        assert await store.turns.history(branch.id) == (failed, after_failure, answered, after_answer)

    async def test_a_question_with_a_turn_of_the_engine_after_it_stays_open(self, store: Store) -> None:
        branch = await new_branch(store)
        opened = await logged(store, branch.id, "user")
        failed = await failed_turn(store, branch.id, "lost")
        alone = await store.turns.log(branch.id, ANSWER)
        assert await store.turns.history(branch.id) == (opened, failed, alone)

    # --- what is refused ---

    @pytest.mark.parametrize("role", ["user", "assistant"])
    @pytest.mark.parametrize(
        "phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED]
    )
    async def test_nothing_is_logged_past_an_unsettled_turn(self, store: Store, phase: Phase, role: Role) -> None:
        branch = await new_branch(store)
        opened = await logged(store, branch.id, "user")
        turn = await turn_in(store, branch.id, phase)
        before = await store.branches.get(branch.id)
        with pytest.raises(OutOfOrder):
            await logged(store, branch.id, role)
        assert await store.turns.history(branch.id) == (opened, turn)
        assert await store.branches.get(branch.id) == before

    @pytest.mark.parametrize("role", ["user", "assistant"])
    async def test_what_cannot_be_kept_is_not_logged(self, store: Store, role: Role) -> None:
        branch = await new_branch(store)
        opened = await logged(store, branch.id, "user")
        before = await store.branches.get(branch.id)
        lost = ImageBlock(media_type="image/png", source=blob_source("0" * 64))
        for message in (
            say(role, "\udc00"),
            Message(role=role, blocks=(lost,)),
            Message(role=role, blocks=(ToolUseBlock(tool_use_id="t", name="n", input={2}),)),
            say("nobody", "hello"),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidInput):
                await store.turns.log(branch.id, message)
        with pytest.raises(InvalidInput):
            await store.turns.log(branch.id, say(role, "hello"), metadata={1: 2})
        assert await store.turns.history(branch.id) == (opened,)
        assert await store.branches.get(branch.id) == before
        for unknown in (new_id(), branch.id.upper()):
            with pytest.raises(NotFound):
                await logged(store, unknown, role)

    # --- many at once ---

    @pytest.mark.req("THREAD-10")
    async def test_of_many_answers_at_once_one_closes_the_turn_and_none_is_lost(self, store: Store) -> None:
        branch = await new_branch(store)
        opened = await logged(store, branch.id, "user")
        answers = [say("assistant", str(number)) for number in range(20)]
        turns = await asyncio.gather(*(store.turns.log(branch.id, answer) for answer in answers))
        assert [turn.id for turn in turns].count(opened.id) == 1
        assert len({turn.id for turn in turns}) == len(answers)
        said = (await read_back(store, branch.id))[1:]
        assert sorted(message.rendered_text for message in said) == sorted(each.rendered_text for each in answers)

    @pytest.mark.req("THREAD-13")
    async def test_the_engine_goes_on_after_a_log(self, store: Store) -> None:
        branch = await new_branch(store)
        await logged(store, branch.id, "user")
        await store.turns.log(branch.id, ANSWER)
        head = await store.states.head(branch.id)
        turn = await store.turns.accept(new_turn(branch.id, "next"))
        assert (turn.turn_seq, turn.state_before) == (2, head.id)
