"""Tests of a store: invalid ids, values that are not JSON and numbers out of range are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    UnknownItem,
    say,
)
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    broken_off,
    current,
    exchange,
    new_branch,
    new_step,
    new_turn,
    said,
    slice_of,
    step_end,
    turn_end,
    turn_in,
)

HUGE = 2**70
GIVEN = "0192f0c1-2345-7abc-8def-0123456789ab"
OTHER_FORMS = (GIVEN.upper(), GIVEN.replace("-", ""), f"{GIVEN[:8]}{GIVEN[9:]}", f"{GIVEN} ", "")


def nested(levels: int) -> Json:
    """Return nested lists."""
    value: Json = []
    for _ in range(levels - 1):
        value = [value]
    return value


def results(levels: int) -> ContentBlock:
    """Return nested tool results."""
    block = ToolResultBlock(tool_use_id="t")
    for _ in range(levels - 1):
        block = ToolResultBlock(tool_use_id="t", content=(block,))
    return block


def loop() -> Json:
    """Return a list that contains itself."""
    value: list[Json] = []
    value += [value, value]
    return value


NO_JSON: dict[str, Json] = {
    "not a number": float("nan"),
    "infinity": {"a": [float("inf")]},
    "bytes": [b"bytes"],
    "set": {"a": {1}},
    "tuple": {"a": (1, 2)},
    "object": object(),
    "number as key": {1: 2},
    "a number of many digits": 10**5000,
    "too deep": nested(101),
    "far too deep": nested(100_000),
    "itself": loop(),
}
BLOCKS: dict[str, ContentBlock] = {
    "text.annotations": TextBlock(text="words", annotations=(1, {2})),
    "tool_use.input": ToolUseBlock(tool_use_id="t", name="n", input={2}),
    "image.source": ImageBlock(media_type="image/png", source={2}),
    "reasoning.raw": ReasoningBlock(raw={2}),
    "unknown.raw": UnknownBlock(provider="p", raw={2}),
    "tool_result.content": results(101),
}
ITEMS: dict[str, TranscriptItem] = {
    "tool_use.input": AssistantItem(blocks=(BLOCKS["tool_use.input"],)),
    "tool_call.arguments": ToolCallItem(call_id="c", name="n", arguments={2}),
    "tool_output.output": ToolOutputItem(call_id="c", output={2}),
    "reasoning.raw": ReasoningItem(raw={2}),
    "unknown.raw": UnknownItem(provider="p", raw={2}),
}


class RefusalSuite:
    """Values that are invalid or cannot be stored unchanged."""

    # --- ids and hashes in another form ---

    @pytest.mark.parametrize("other", OTHER_FORMS)
    async def test_an_id_in_another_form_names_nothing(self, store: Store, other: str) -> None:
        session = await store.sessions.create(NewSession(id=GIVEN))
        turn = await store.turns.accept(replace(new_turn(session.active_branch, "hello"), id=GIVEN))
        assert await store.sessions.get(other) is None
        assert await store.branches.list(other) == ()
        assert await store.turns.get(other) is None
        assert await store.turns.steps(other) == ()
        assert await store.chunks.of_turn(other) == ()
        with pytest.raises(NotFound):
            await store.sessions.rename(other, "Hall")
        with pytest.raises(NotFound):
            await store.turns.prepare(other, WORKER)
        with pytest.raises(NotFound):
            await store.turns.cancel(other)
        there = await store.sessions.get(GIVEN)
        assert there is not None
        assert (there.title, await current(store, turn)) == (None, turn)

    async def test_a_branch_or_state_in_another_form_names_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await answer_turn(store, branch.id, "hello")
        (chunk,) = await store.chunks.index(turn.id, [slice_of("hello", "hell")])
        head = await store.states.head(branch.id)
        upper = branch.id.upper()
        assert await store.branches.get(upper) is None
        assert await store.turns.history(upper) == ()
        assert await store.states.list(upper) == ()
        assert await store.states.get(head.id.upper()) is None
        assert await store.chunks.get(chunk.id.upper()) is None
        for write in (
            lambda: store.turns.accept(new_turn(upper, "again")),
            lambda: store.turns.record(upper, [exchange("again")]),
            lambda: store.branches.fork(upper),
            lambda: store.states.pin(upper, "fact"),
            lambda: store.states.commit(StateDraft(branch_id=upper, reason="fold"), expected_head=None),
        ):
            with pytest.raises(NotFound):
                await write()
        assert await said(store, branch.id) == ["hello"]
        assert await store.states.head(branch.id) == head

    @pytest.mark.parametrize("other", OTHER_FORMS)
    async def test_the_id_of_a_step_or_of_a_retried_turn_has_to_be_one(self, store: Store, other: str) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        with pytest.raises(InvalidInput):
            await store.turns.accept(replace(new_turn(branch.id, "again"), retry_of=other))
        with pytest.raises(InvalidInput):
            await store.turns.open_step(turn.id, WORKER, replace(new_step(), id=other))
        assert await store.turns.history(branch.id) == (turn,)

    async def test_a_hash_in_another_form_finds_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        text, blob = await store.contents.keep_text("words"), await store.contents.keep_blob(b"bytes", "image/png")
        for form in (str.upper, lambda sha256: f"{sha256[:8]}-{sha256[8:]}", lambda _: GIVEN):
            assert await store.contents.text(form(text)) is None
            assert await store.contents.blob(form(blob)) is None
            image = ImageBlock(media_type="image/png", source={"type": "blob", "sha256": form(blob)})
            message = Message(role="user", blocks=(image,))
            with pytest.raises(InvalidInput):
                await store.turns.accept(replace(new_turn(branch.id, ""), message=message))
        assert await store.contents.text(text) == "words"

    # --- what JSON cannot say ---

    @pytest.mark.req("LEDGER-2")
    @pytest.mark.parametrize("what", NO_JSON)
    async def test_a_value_that_is_no_json_is_refused_by_its_place(self, store: Store, what: str) -> None:
        branch = await new_branch(store)
        with pytest.raises(InvalidInput, match=r"^metadata "):
            await store.turns.accept(replace(new_turn(branch.id, "hello"), metadata=NO_JSON[what]))
        with pytest.raises(InvalidInput, match=r"^metadata "):
            await store.turns.record(branch.id, [exchange("a"), replace(exchange("b"), metadata=NO_JSON[what])])
        block = ToolUseBlock(tool_use_id="t", name="n", input=NO_JSON[what])
        message = Message(role="user", blocks=(ToolResultBlock(tool_use_id="t", content=(block,)),))
        with pytest.raises(InvalidInput, match=r"^tool_use\.input "):
            await store.turns.accept(replace(new_turn(branch.id, ""), message=message))
        assert await said(store, branch.id) == []

    @pytest.mark.req("LEDGER-2")
    @pytest.mark.parametrize("where", BLOCKS)
    async def test_a_block_that_holds_no_json_is_refused(self, store: Store, where: str) -> None:
        branch = await new_branch(store)
        message = Message(role="user", blocks=(TextBlock(text="see: "), BLOCKS[where]))
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.accept(replace(new_turn(branch.id, ""), message=message))
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.fail(turn.id, WORKER, replace(broken_off(), answer=message))
        (step,) = await store.turns.steps(turn.id)
        end = turn_end(replace(new_step(), id=step.id))
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.finalise(turn.id, WORKER, replace(end, answer=message))
        other = await new_branch(store)
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.record(other.id, [replace(exchange("a"), answer=message)])
        assert await store.turns.history(branch.id) == (turn,)

    @pytest.mark.req("LEDGER-2")
    @pytest.mark.parametrize("where", ITEMS)
    async def test_an_item_that_holds_no_json_is_refused(self, store: Store, where: str) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        (step,) = await store.turns.steps(turn.id)
        end = replace(step_end(replace(new_step(), id=step.id)), items=(ITEMS[where],))
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.open_step(turn.id, WORKER, new_step(1, closes=end))
        with pytest.raises(InvalidInput, match=f"^{where} "):
            await store.turns.fail(turn.id, WORKER, replace(broken_off(), step=end))
        assert await store.turns.steps(turn.id) == (step,)
        assert await current(store, turn) == turn

    async def test_the_inputs_of_a_step_have_to_be_json(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        inputs = (ToolOutputItem(call_id="c", output=float("nan")),)
        with pytest.raises(InvalidInput, match=r"^tool_output\.output "):
            await store.turns.open_step(turn.id, WORKER, replace(new_step(), inputs=inputs))
        assert await current(store, turn) == turn

    @pytest.mark.req("LEDGER-2")
    async def test_json_of_a_hundred_levels_comes_back_equal(self, store: Store) -> None:
        branch = await new_branch(store)
        message = Message(role="user", blocks=(results(100), UnknownBlock(provider="p", raw=nested(100))))
        turn = await store.turns.accept(
            replace(new_turn(branch.id, ""), message=message, metadata=[nested(99), 2**100, 0.1])
        )
        assert await store.turns.get(turn.id) == turn
        assert turn.user_message == message

    # --- numbers and names out of bounds ---

    async def test_a_limit_beyond_all_counting_reads_everything(self, store: Store) -> None:
        session = await store.sessions.create(NewSession(owner=Owner(user_id="ann")))
        turns = await store.turns.record(session.active_branch, [exchange("one"), exchange("two")])
        listed = await store.sessions.list(session.owner, limit=HUGE)
        assert [found.id for found in listed] == [session.id]
        assert await store.turns.history(session.active_branch, limit=HUGE) == turns
        assert await store.turns.history(session.active_branch, before=HUGE) == turns
        assert await store.turns.history(session.active_branch, before=-HUGE) == ()
        assert len(await store.states.list(session.active_branch, limit=HUGE)) == 2
        assert await store.sessions.list(session.owner, limit=-HUGE) == ()
        assert await store.turns.history(session.active_branch, limit=-HUGE) == ()
        assert await store.states.list(session.active_branch, limit=-HUGE) == ()

    @pytest.mark.parametrize("changed", [{"token_count_est": HUGE}, {"token_count_est": -1}, {"reason": "whim"}])
    async def test_a_state_out_of_bounds_is_refused(self, store: Store, changed: dict[str, Any]) -> None:
        branch = await new_branch(store)
        draft = replace(StateDraft(branch_id=branch.id, reason="fold"), **changed)
        with pytest.raises(InvalidInput):
            await store.states.commit(draft, expected_head=None)
        assert await store.branches.get(branch.id) == branch

    @pytest.mark.parametrize("hours", [0, 0.0, -1, float("nan"), float("inf"), -float("inf"), HUGE])
    async def test_a_time_to_live_is_a_finite_number_over_zero(self, store: Store, hours: float) -> None:
        with pytest.raises(InvalidInput):
            await store.sessions.create(NewSession(kind="chat", ttl_hours=hours))
        assert await store.sessions.list(Owner()) == ()

    async def test_a_kind_that_is_none_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            await store.sessions.create(NewSession(kind="party"))  # type: ignore[arg-type]
        assert await store.sessions.list(Owner()) == ()

    async def test_a_role_that_is_none_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        message = say("narrator", "Once upon a time")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            await store.turns.accept(replace(new_turn(branch.id, ""), id=new_id(), message=message))
        with pytest.raises(InvalidInput):
            await store.turns.record(branch.id, [replace(exchange("a"), answer=message)])
        assert await said(store, branch.id) == []
