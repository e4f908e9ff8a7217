"""Tests of a store: chunks are found by position and stored once, even if they are written repeatedly."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import Phase, TurnEnd
from contextinfinity.errors import InvalidInput, NotFound, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    commit_turn,
    current,
    embedding,
    exchange,
    failed_turn,
    final_turn,
    new_branch,
    new_turn,
    slice_of,
    turn_in,
)

QUESTION = "Où est le café? 🙂 Where is the café?"
ANSWER = "Around the corner. Where is the café? Ask Rex."


async def committed(store: Store) -> str:
    """Create a committed turn of the question and the answer above."""
    branch = await new_branch(store)
    turn = await final_turn(store, branch.id, QUESTION, ANSWER)
    await commit_turn(store, turn)
    return turn.id


class ChunkSuite:
    """Slices of turns."""

    # --- TX-C ---

    @pytest.mark.req("TURN-5")
    async def test_a_chunk_holds_the_words_of_its_span(self, store: Store) -> None:
        turn_id = await committed(store)
        turn = await store.turns.get(turn_id)
        assert turn is not None
        new = slice_of(QUESTION, "café? 🙂 Where", chunk_type="UserContext", embedding=embedding("small", 0.5, -1.0))
        (chunk,) = await store.chunks.index(turn_id, [new])
        assert await store.chunks.get(chunk.id) == chunk
        assert await store.chunks.of_turn(turn_id) == (chunk,)
        assert UUID(chunk.id).version == 8
        assert chunk.rendered_text == "café? 🙂 Where" == QUESTION[chunk.start : chunk.end]
        assert chunk.content_hash == hashlib.sha256("café? 🙂 Where".encode()).hexdigest()
        assert (chunk.session_id, chunk.branch_id, chunk.source_turn) == (turn.session_id, turn.branch_id, turn_id)
        given = (chunk.side, chunk.start, chunk.end, chunk.summary, chunk.chunk_type, chunk.token_est)
        assert await store.vectors.bodies("small", [chunk.id]) == (embedding("small", 0.5, -1.0).values,)
        assert given == (new.side, new.start, new.end, new.summary, new.chunk_type, new.token_est)

    @pytest.mark.req("TURN-5")
    async def test_chunks_and_phase_become_durable_together(self, store: Store) -> None:
        turn_id = await committed(store)
        before = await store.turns.get(turn_id)
        assert before is not None
        await store.chunks.index(turn_id, [slice_of(QUESTION, "café"), slice_of(ANSWER, "Rex", side="assistant")])
        after = await current(store, before)
        assert after == replace(before, phase=Phase.INDEXED, updated_at=after.updated_at)
        assert len(await store.chunks.of_turn(turn_id)) == 2

    @pytest.mark.req("TURN-5")
    async def test_a_turn_with_nothing_to_index_is_indexed(self, store: Store) -> None:
        turn_id = await committed(store)
        assert await store.chunks.index(turn_id, ()) == ()
        after = await store.turns.get(turn_id)
        assert after is not None
        assert after.phase is Phase.INDEXED

    @pytest.mark.req("TURN-5")
    async def test_one_bad_span_keeps_all_of_them_out(self, store: Store) -> None:
        turn_id = await committed(store)
        before = await store.turns.get(turn_id)
        good = slice_of(QUESTION, "café", embedding=embedding("small", 1.0))
        with pytest.raises(InvalidInput):
            await store.chunks.index(turn_id, [good, replace(good, start=5, end=5)])
        assert await store.chunks.of_turn(turn_id) == ()
        assert await store.turns.get(turn_id) == before

    @pytest.mark.parametrize(
        ("side", "start", "end"),
        [
            ("user", -1, 3),
            ("user", 3, 3),
            ("user", 4, 3),
            ("user", 0, len(QUESTION) + 1),
            ("user", len(QUESTION), len(QUESTION) + 1),
            ("assistant", 0, len(ANSWER) + 1),
        ],
    )
    async def test_a_span_outside_its_message_is_refused(self, store: Store, side: str, start: int, end: int) -> None:
        turn_id = await committed(store)
        new = replace(slice_of(QUESTION, "café"), side=side, start=start, end=end)
        with pytest.raises(InvalidInput):
            await store.chunks.index(turn_id, [new])
        assert await store.chunks.of_turn(turn_id) == ()

    async def test_a_span_may_be_the_whole_message(self, store: Store) -> None:
        turn_id = await committed(store)
        (chunk,) = await store.chunks.index(turn_id, [slice_of(ANSWER, ANSWER, side="assistant")])
        assert (chunk.rendered_text, chunk.start, chunk.end) == (ANSWER, 0, len(ANSWER))

    async def test_a_turn_without_an_answer_has_no_chunk_of_it(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange(QUESTION)])
        with pytest.raises(InvalidInput):
            await store.chunks.index(turn.id, [slice_of(QUESTION, "café", side="assistant")])
        assert len(await store.chunks.index(turn.id, [slice_of(QUESTION, "café")])) == 1

    @pytest.mark.req("TURN-5")
    @pytest.mark.parametrize(
        "phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED]
    )
    async def test_a_turn_is_indexed_only_once_it_is_committed(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        with pytest.raises(WrongPhase):
            await store.chunks.index(turn.id, [slice_of("question", "quest")])
        assert await store.chunks.of_turn(turn.id) == ()
        assert await current(store, turn) == turn

    @pytest.mark.parametrize("phase", [Phase.INDEXED, Phase.DONE, Phase.FAILED])
    async def test_a_settled_turn_can_be_indexed_and_keeps_its_phase(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        (chunk,) = await store.chunks.index(turn.id, [slice_of("question", "quest")])
        assert chunk.rendered_text == "quest"
        assert (await current(store, turn)).phase is phase

    async def test_what_was_shown_of_a_failed_answer_can_be_indexed(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, QUESTION))
        await store.turns.fail(turn.id, WORKER, TurnEnd(outcome="incomplete", answer=say("assistant", "Around the")))
        (chunk,) = await store.chunks.index(turn.id, [slice_of("Around the", "Around", side="assistant")])
        assert chunk.rendered_text == "Around"
        lost = await failed_turn(store, branch.id, QUESTION)
        with pytest.raises(InvalidInput):
            await store.chunks.index(lost.id, [slice_of("Around", "Around", side="assistant")])

    async def test_chunks_of_what_is_unknown(self, store: Store) -> None:
        unknown = new_id()
        assert await store.chunks.get(unknown) is None
        assert await store.chunks.of_turn(unknown) == ()
        with pytest.raises(NotFound):
            await store.chunks.index(unknown, ())

    # --- once, however often ---

    @pytest.mark.req("RETRIEVE-2", "LEDGER-4")
    async def test_indexing_twice_inserts_nothing_twice(self, store: Store) -> None:
        turn_id = await committed(store)
        news = [
            slice_of(QUESTION, "café", embedding=embedding("small", 1.0)),
            slice_of(ANSWER, "Ask Rex", side="assistant", embedding=embedding("small", 0.5)),
        ]
        first = await store.chunks.index(turn_id, news)
        changed = [replace(new, summary="another", token_est=99, embedding=embedding("small", 9.0)) for new in news]
        assert await store.chunks.index(turn_id, news) == first
        assert await store.chunks.index(turn_id, changed) == first
        assert await store.chunks.of_turn(turn_id) == first
        assert [await store.chunks.get(chunk.id) for chunk in first] == list(first)

    @pytest.mark.req("RETRIEVE-2")
    async def test_the_same_words_of_a_turn_are_one_chunk(self, store: Store) -> None:
        turn_id = await committed(store)
        words = "Where is the café?"
        here, there = slice_of(QUESTION, words), slice_of(ANSWER, words, side="assistant")
        (chunk,) = await store.chunks.index(turn_id, [here, there, here])
        assert (chunk.side, chunk.start, chunk.rendered_text) == ("user", here.start, words)

    @pytest.mark.req("RETRIEVE-2")
    async def test_the_same_words_of_another_type_or_turn_are_another_chunk(self, store: Store) -> None:
        turn_id, other_id = await committed(store), await committed(store)
        new = slice_of(QUESTION, "café")
        chunks = await store.chunks.index(turn_id, [new, replace(new, chunk_type="Decision")])
        (elsewhere,) = await store.chunks.index(other_id, [new])
        assert sorted(chunk.chunk_type for chunk in chunks) == ["Decision", "Other"]
        assert len({chunk.id for chunk in (*chunks, elsewhere)}) == 3

    @pytest.mark.req("RETRIEVE-2")
    async def test_a_chunk_has_one_vector_a_namespace(self, store: Store) -> None:
        turn_id = await committed(store)
        new = slice_of(QUESTION, "café")
        (bare,) = await store.chunks.index(turn_id, [new])
        assert await store.vectors.bodies("small", [bare.id]) == (None,)
        first = {"small": embedding("small", 1.0), "large": embedding("large", 3.0, 4.0)}
        for later in (*first.values(), embedding("small", -1.0), embedding("large", 5.0, 6.0)):
            assert await store.chunks.index(turn_id, [replace(new, embedding=later)]) == (bare,)
        for namespace, kept in first.items():
            assert await store.vectors.bodies(namespace, [bare.id]) == (kept.values,)

    async def test_vectors_of_a_namespace_have_one_size(self, store: Store) -> None:
        turn_id = await committed(store)
        await store.chunks.index(turn_id, [slice_of(QUESTION, "café", embedding=embedding("small", 1.0, 2.0))])
        torn = replace(embedding("small", 1.0, 2.0), values=b"\x00\x00\x00")
        for bad in (embedding("small", 1.0), torn, replace(embedding("new", 1.0), dim=2)):
            with pytest.raises(InvalidInput):
                await store.chunks.index(turn_id, [slice_of(QUESTION, "Where", embedding=bad)])
        assert len(await store.chunks.of_turn(turn_id)) == 1

    async def test_indexing_again_gives_all_chunks_of_the_turn(self, store: Store) -> None:
        turn_id = await committed(store)
        await store.chunks.index(turn_id, [slice_of(ANSWER, "Rex", side="assistant")])
        chunks = await store.chunks.index(turn_id, [slice_of(QUESTION, "café")])
        assert [chunk.rendered_text for chunk in chunks] == ["café", "Rex"]

    async def test_chunks_are_read_in_the_order_of_their_place(self, store: Store) -> None:
        turn_id = await committed(store)
        news = [
            slice_of(ANSWER, "Ask", side="assistant"),
            slice_of(ANSWER, "Around", side="assistant"),
            slice_of(QUESTION, "Where"),
            slice_of(QUESTION, "Où"),
            slice_of(QUESTION, "Où est"),
        ]
        chunks = await store.chunks.index(turn_id, news)
        assert [chunk.rendered_text for chunk in chunks] == ["Où", "Où est", "Where", "Around", "Ask"]
        assert await store.chunks.of_turn(turn_id) == chunks
