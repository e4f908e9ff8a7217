"""Tests of a store: messages come back equal and never change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Message,
    MetadataItem,
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
from contextinfinity.domain.plan import Budget, LeftOut, Plan, PlanSection, Retrieved
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Completed, Exchange, Phase, StepEnd, Turn, TurnEnd
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    broken_off,
    commit_turn,
    current,
    exchange,
    new_branch,
    new_step,
    new_turn,
    slice_of,
    turn_in,
)

JSON = {"b": [1, -2.5, None, True, {"ü": ""}], "a": {"type": "text"}, "": 2**53 + 1}
BLOCKS: dict[str, ContentBlock] = {
    "text": TextBlock(text="words"),
    "annotated text": TextBlock(text="words", annotations=({"url": "https://example.org"}, "note", 3)),
    "tool use": ToolUseBlock(tool_use_id="t1", name="search", input=JSON),
    "tool result": ToolResultBlock(tool_use_id="t1", content=(TextBlock(text="found"),)),
    "nested tool result": ToolResultBlock(
        tool_use_id="t1",
        content=(
            ToolResultBlock(
                tool_use_id="t2", content=(ImageBlock(media_type="image/png", source=JSON),), is_error=True
            ),
            UnknownBlock(provider="p", raw=JSON),
        ),
        is_error=True,
    ),
    "image": ImageBlock(media_type="image/webp", source={"kind": "blob", "sha256": "ab" * 32}),
    "reasoning": ReasoningBlock(encrypted_content="gAAA==", summary="thought", raw=JSON),
    "bare reasoning": ReasoningBlock(),
    "unknown": UnknownBlock(provider="acme", raw={"type": "hologram", "data": JSON}),
}
ITEMS: dict[str, TranscriptItem] = {
    "message": AssistantItem(blocks=tuple(BLOCKS.values())),
    "tool call": ToolCallItem(call_id="c1", name="search", arguments=JSON),
    "tool output": ToolOutputItem(call_id="c1", output=JSON),
    "reasoning": ReasoningItem(encrypted_content="gAAA==", raw=JSON),
    "bare reasoning": ReasoningItem(),
    "metadata": MetadataItem(key="finish_reason", value="stop"),
    "unknown": UnknownItem(provider="acme", raw=["anything", JSON]),
}
TEXTS = {
    "nothing": "",
    "space": " \t\r\n\x0b\x0c ",
    "a zero byte": "before\x00after",
    "line ends": "a\r\nb\rc\nd\u2028e\u2029f\x85g",
    "a byte order mark": "\ufeffwords",
    "composed and decomposed": "é e\u0301",
    "beyond the first plane": "🙂𝕏👨‍👩‍👧\U0010ffff",
    "noncharacters": "\ufffe\uffff\ufffd",
    "controls": "".join(chr(number) for number in range(32)) + "\x7f\x80\x9f",
    "quotes": "'; DROP TABLE turns; -- \" \\ %s ? :x {}",
    "right to left": "שלום \u202eabc\u202c",
    "a lot": "word " * 200_000,
}
PLAN = Plan(
    front="ab" * 32,
    epoch_reason="fold",
    budget=Budget(model_limit=128_000, base_tokens=1, retrieval_budget=2, response_reserve=3, safety_margin=4),
    sections=(PlanSection(name="system", tokens=12, source={"sha256": "ab"}), PlanSection(name="turns", tokens=0)),
    retrieved=(Retrieved(chunk_id=new_id(), similarity=0.1 + 0.2, rank=1),),
    left_out=(LeftOut(what="turn 3", reason="budget", tokens=7),),
    shrink_steps=("artifacts",),
    request_sha256="cd" * 32,
)


async def answered(store: Store, end: TurnEnd, step_id: str) -> Turn:
    """Answer a turn in one step with the given end."""
    branch = await new_branch(store)
    turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
    await store.turns.open_step(turn.id, WORKER, replace(new_step(), id=step_id, plan=PLAN))
    return await store.turns.finalise(turn.id, WORKER, end)


class ContentSuite:
    """What is said comes back as it was said."""

    @pytest.mark.req("LEDGER-2", "LEDGER-4")
    @pytest.mark.parametrize("kind", BLOCKS)
    async def test_a_block_comes_back_equal_on_both_sides(self, store: Store, kind: str) -> None:
        branch = await new_branch(store)
        blocks = (TextBlock(text="see: "), BLOCKS[kind], TextBlock(text="!"))
        message, answer = Message(role="user", blocks=blocks), Message(role="assistant", blocks=blocks[::-1])
        turn = await store.turns.accept(replace(new_turn(branch.id, ""), message=message))
        await store.turns.fail(turn.id, WORKER, replace(broken_off(), answer=answer))
        (recorded,) = await store.turns.record(branch.id, [Exchange(message=message, answer=answer)])
        for found in await store.turns.history(branch.id):
            assert (found.user_message, found.answer) == (message, answer)
            assert found.user_message.rendered_text == message.rendered_text
        assert await store.turns.get(recorded.id) == recorded

    @pytest.mark.req("LEDGER-3", "LEDGER-4")
    @pytest.mark.parametrize("kind", ITEMS)
    async def test_a_transcript_item_comes_back_equal(self, store: Store, kind: str) -> None:
        step_id = new_id()
        items = (MetadataItem(key="n", value="1"), ITEMS[kind], ITEMS[kind])
        end = StepEnd(step_id=step_id, outcome=Completed(), items=items, response=bytes(range(256)) * 3)
        turn = await answered(store, TurnEnd(outcome="completed", step=end), step_id)
        (step,) = await store.turns.steps(turn.id)
        assert (step.items, step.response, step.plan) == (items, end.response, PLAN)
        assert await store.turns.plan(turn.id) == PLAN

    @pytest.mark.req("LEDGER-3")
    async def test_an_empty_reply_is_not_a_missing_one(self, store: Store) -> None:
        for response in (b"", None):
            step_id = new_id()
            end = TurnEnd(outcome="completed", step=StepEnd(step_id=step_id, outcome=Completed(), response=response))
            turn = await answered(store, end, step_id)
            (step,) = await store.turns.steps(turn.id)
            assert step.response == response

    @pytest.mark.req("LEDGER-4")
    @pytest.mark.parametrize("kind", TEXTS)
    async def test_any_text_comes_back_word_for_word(self, store: Store, kind: str) -> None:
        text = TEXTS[kind]
        branch = await new_branch(store, NewSession(title=text, system=text))
        session = await store.sessions.get(branch.session_id)
        assert session is not None
        assert (session.title, session.system) == (text, text)
        (turn,) = await store.turns.record(branch.id, [exchange(text, text)])
        found = await current(store, turn)
        assert (found.user_message, found.answer) == (say("user", text), say("assistant", text))
        draft = StateDraft(branch_id=branch.id, reason="fold", summary=text)
        head = await store.states.head(branch.id)
        await store.states.commit(draft, expected_head=head.id)
        await store.states.pin(branch.id, f"fact {text}")
        state = await store.states.head(branch.id)
        assert (state.summary, state.pinned_facts) == (text, (f"fact {text}",))
        if text:
            (chunk,) = await store.chunks.index(turn.id, [replace(slice_of(text, text), summary=text)])
            assert (await store.chunks.get(chunk.id)) == chunk
            assert (chunk.rendered_text, chunk.summary, chunk.end) == (text, text, len(text))

    @pytest.mark.req("LEDGER-2")
    async def test_text_that_is_no_unicode_is_refused_everywhere(self, store: Store) -> None:
        bad = "half \ud83d"
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("words", "words")])
        before = (await store.branches.get(branch.id), await store.turns.history(branch.id))
        nested = Message(role="user", blocks=(ToolUseBlock(tool_use_id="t", name="n", input={"k": [bad]}),))
        head = await store.states.head(branch.id)
        for attempt in (
            lambda: store.sessions.create(NewSession(title=bad)),
            lambda: store.sessions.rename(branch.session_id, bad),
            lambda: store.branches.fork(branch.id, label=bad),
            lambda: store.turns.accept(new_turn(branch.id, bad)),
            lambda: store.turns.accept(replace(new_turn(branch.id, ""), message=nested)),
            lambda: store.turns.accept(replace(new_turn(branch.id, ""), metadata={bad: 1})),
            lambda: store.turns.record(branch.id, [exchange(bad)]),
            lambda: store.states.commit(
                StateDraft(branch_id=branch.id, reason="fold", summary=bad), expected_head=head.id
            ),
            lambda: store.chunks.index(turn.id, [replace(slice_of("words", "words"), summary=bad)]),
        ):
            with pytest.raises(InvalidInput):
                await attempt()
        assert (await store.branches.get(branch.id), await store.turns.history(branch.id)) == before
        assert await store.chunks.of_turn(turn.id) == ()

    @pytest.mark.req("LEDGER-4")
    async def test_nothing_said_changes_whatever_happens_later(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await answer_turn(store, branch.id, "question", "answer")
        chunks = await store.chunks.index(turn.id, [slice_of("question", "quest")])
        state, steps = await store.states.head(branch.id), await store.turns.steps(turn.id)
        await store.states.pin(branch.id, "fact")
        fork = await store.branches.rollback(branch.id, to=1)
        await answer_turn(store, fork.id, "another question", "another answer")
        await commit_turn(store, turn)
        await store.chunks.index(turn.id, [replace(slice_of("question", "quest"), summary="another")])
        await store.turns.record(branch.id, [exchange("later", "on")])
        assert await store.turns.get(turn.id) == turn
        assert await store.turns.steps(turn.id) == steps
        assert await store.chunks.of_turn(turn.id) == chunks
        assert await store.states.get(state.id) == state

    async def test_metadata_are_kept_and_changed_key_by_key(self, store: Store) -> None:
        session = await store.sessions.create(NewSession(metadata={"one": {"a": [1]}}))
        assert session.metadata == {"one": {"a": [1]}}
        noted = await store.sessions.note(session.id, "two-2", "x")
        assert noted == replace(session, metadata={"one": {"a": [1]}, "two-2": "x"})
        assert (await store.sessions.note(session.id, "one", {"b": None})).metadata["one"] == {"b": None}
        with pytest.raises(InvalidInput):
            await store.sessions.note(session.id, 'x" || "', 1)
