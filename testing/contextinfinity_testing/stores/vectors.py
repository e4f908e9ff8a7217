"""Tests of a store: vectors. One per chunk and namespace, nearest first, nothing out of scope."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from contextinfinity.domain.ids import BranchId, ChunkId, new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.search import Chunk, ChunkSide, ChunkType, Embedding, Namespace, Scope
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import embedding, exchange, new_branch, slice_of

SPACE = "small"
EVERYWHERE = Scope()
ANN, BEN = Owner(user_id="ann"), Owner(user_id="ben")
_numbers = count(1)


def at(degrees: float, namespace: str = SPACE) -> Embedding:
    """Return a two-dimensional vector of this angle: the closer two angles, the closer the vectors."""
    return embedding(namespace, math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))


async def put(
    store: Store,
    branch_id: BranchId,
    vector: Embedding | None,
    *,
    side: ChunkSide = "user",
    chunk_type: ChunkType = "Other",
) -> Chunk:
    """Record a turn in a branch, and index it with a vector."""
    words = f"words {next(_numbers)}"
    (turn,) = await store.turns.record(branch_id, [exchange(words, words)])
    new = slice_of(words, words, side=side, chunk_type=chunk_type, embedding=vector)
    (chunk,) = await store.chunks.index(turn.id, [new])
    return chunk


async def near(
    store: Store, degrees: float = 0, scope: Scope = EVERYWHERE, *, most: int = 128, namespace: str = SPACE
) -> list[ChunkId]:
    """Return the chunks nearest to an angle."""
    hits = await store.vectors.near(at(degrees).values, namespace, scope, most=most)
    return [hit.chunk_id for hit in hits]


async def states(store: Store) -> list[tuple[str, str, int]]:
    """Return a short description of the namespaces."""
    return [(space.name, space.state, space.placed) for space in await store.vectors.namespaces()]


class VectorSuite:
    """Vectors of chunks."""

    async def test_the_nearest_come_first_with_their_cosine_and_place(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in (90, 10, 180, 40)]
        hits = await store.vectors.near(at(0).values, SPACE, EVERYWHERE)
        assert [hit.chunk_id for hit in hits] == [chunks[place].id for place in (1, 3, 0, 2)]
        cosines = [math.cos(math.radians(angle)) for angle in (10, 40, 90, 180)]
        assert [hit.similarity for hit in hits] == pytest.approx(cosines, abs=0.01)
        first = hits[0].place
        assert (first.turn_id, first.side) == (chunks[1].source_turn, "user")

    async def test_no_more_are_found_than_were_asked_for(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in (0, 20, 40)]
        assert await near(store, most=2) == [chunk.id for chunk in chunks[:2]]
        assert await near(store, most=0) == []

    async def test_a_vector_of_zeros_is_near_to_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        behind, nowhere = await put(store, branch.id, at(180)), await put(store, branch.id, embedding(SPACE, 0.0, 0.0))
        hits = await store.vectors.near(at(0).values, SPACE, EVERYWHERE)
        assert [(hit.chunk_id, round(hit.similarity, 2)) for hit in hits] == [(nowhere.id, 0.0), (behind.id, -1.0)]

    async def test_a_search_in_what_is_unknown_finds_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        assert await near(store) == []
        chunk = await put(store, branch.id, at(0))
        assert await near(store, namespace="another") == []
        for scope in (
            Scope(session_id=new_id()),
            Scope(branch_id=new_id()),
            Scope(owner=BEN),
            Scope(session_id=new_id(), branch_id=branch.id),
        ):
            assert await near(store, scope=scope) == []
        assert await near(store) == [chunk.id]

    async def test_a_question_of_another_size_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        await put(store, branch.id, at(0))
        for wrong in (embedding(SPACE, 1.0).values, b"", at(0).values + b"\x00"):
            with pytest.raises(InvalidInput):
                await store.vectors.near(wrong, SPACE, EVERYWHERE)

    async def test_what_was_added_after_a_search_is_found_by_the_next(self, store: Store) -> None:
        branch = await new_branch(store)
        found: list[ChunkId] = []
        for angle in range(0, 60, 10):
            found.append((await put(store, branch.id, at(angle))).id)
            assert await near(store) == found
            assert await near(store, scope=Scope(session_id=branch.session_id)) == found

    @pytest.mark.parametrize("size", [255, 256, 257, 600])
    async def test_many_vectors_of_a_session_are_found_like_few(self, store: Store, size: int) -> None:
        branch = await new_branch(store)
        text = "".join(f"<{number:04}>" for number in range(size))
        (turn,) = await store.turns.record(branch.id, [exchange(text)])
        news = [slice_of(text, f"<{number:04}>", embedding=at(number * 180 / size)) for number in range(size)]
        chunks = await store.chunks.index(turn.id, news)
        for place in (0, size // 2, size - 1):
            hits = await store.vectors.near(at(place * 180 / size).values, SPACE, EVERYWHERE, most=5)
            assert abs([chunk.id for chunk in chunks].index(hits[0].chunk_id) - place) <= 2  # a byte is half a degree
        assert len(await near(store, most=size + 1)) == size
        bodies = await store.vectors.bodies(SPACE, [chunk.id for chunk in chunks])
        assert bodies == tuple(new.embedding.values for new in news if new.embedding is not None)

    # --- filters ---

    @pytest.mark.req("RETRIEVE-5")
    async def test_a_session_or_an_owner_sees_only_its_own(self, store: Store) -> None:
        anns, bens = await new_branch(store, NewSession(owner=ANN)), await new_branch(store, NewSession(owner=BEN))
        again = await new_branch(store, NewSession(owner=ANN))
        hers, his, more = [await put(store, b.id, at(n)) for n, b in enumerate((anns, bens, again), 1)]
        assert await near(store, scope=Scope(session_id=anns.session_id)) == [hers.id]
        assert await near(store, scope=Scope(owner=ANN)) == [hers.id, more.id]
        assert await near(store, scope=Scope(owner=BEN)) == [his.id]
        assert await near(store, scope=Scope(owner=BEN, session_id=anns.session_id)) == []
        assert await near(store, scope=Scope(owner=BEN, branch_id=anns.id)) == []
        assert await near(store, scope=Scope(owner=Owner(user_id="ann", org_id="elsewhere"))) == []
        late = await put(store, again.id, at(0))
        assert await near(store, scope=Scope(owner=ANN)) == [late.id, hers.id, more.id]
        assert await near(store, scope=Scope(owner=BEN)) == [his.id]

    @pytest.mark.req("RETRIEVE-10", "RETRIEVE-5")
    async def test_a_branch_sees_its_lineage_and_never_a_sibling(self, store: Store) -> None:
        root = await new_branch(store)
        one, two = await put(store, root.id, at(1)), await put(store, root.id, at(2))
        left = await store.branches.fork(root.id, at=1)
        right = await store.branches.fork(root.id, at=2)
        lefts, rights = await put(store, left.id, at(3)), await put(store, right.id, at(4))
        later = await put(store, root.id, at(5))
        seen = {root.id: [one, two, later], left.id: [one, lefts], right.id: [one, two, rights]}
        for branch_id, chunks in seen.items():
            assert await near(store, scope=Scope(branch_id=branch_id)) == [chunk.id for chunk in chunks]
        whole = Scope(session_id=root.session_id)
        assert await near(store, scope=whole) == [chunk.id for chunk in (one, two, lefts, rights, later)]

    @pytest.mark.req("RETRIEVE-10")
    async def test_a_branch_can_be_searched_up_to_a_turn(self, store: Store) -> None:
        root = await new_branch(store)
        one, two = await put(store, root.id, at(1)), await put(store, root.id, at(2))
        fork = await store.branches.fork(root.id, at=2)
        three = await put(store, fork.id, at(3))
        ids = [chunk.id for chunk in (one, two, three)]
        for before, seen in ((0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (99, 3)):
            assert await near(store, scope=Scope(branch_id=fork.id, before=before)) == ids[:seen]

    @pytest.mark.req("RETRIEVE-5")
    async def test_sides_and_types_are_filters(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = await put(store, branch.id, at(1), chunk_type="Decision")
        said = await put(store, branch.id, at(2), side="assistant", chunk_type="Code")
        told = await put(store, branch.id, at(3), side="assistant")
        assert await near(store, scope=Scope(sides=("user",))) == [asked.id]
        assert await near(store, scope=Scope(sides=("assistant", "tool"))) == [said.id, told.id]
        assert await near(store, scope=Scope(types=("Code", "Decision"))) == [asked.id, said.id]
        assert await near(store, scope=Scope(types=("Code",), sides=("user",))) == []

    @pytest.mark.req("RETRIEVE-5")
    async def test_times_are_those_when_it_was_said_also_elsewhere(self, store: Store) -> None:
        branch = await new_branch(store)
        long_ago = datetime(2019, 5, 1, tzinfo=UTC)
        arrival = ImportedMessage(message=say("user", "long ago"), place=0, created_at=long_ago)
        await store.imports.add(branch.id, [arrival])
        (turn,) = await store.turns.history(branch.id)
        (old,) = await store.chunks.index(turn.id, [slice_of("long ago", "long ago", embedding=at(1))])
        new = await put(store, branch.id, at(2))
        day = timedelta(days=1)
        assert await near(store, scope=Scope(until=long_ago + day)) == [old.id]
        assert await near(store, scope=Scope(since=long_ago, until=long_ago)) == []
        assert await near(store, scope=Scope(since=long_ago)) == [old.id, new.id]
        assert await near(store, scope=Scope(since=long_ago + day)) == [new.id]

    @pytest.mark.req("RETRIEVE-5")
    async def test_what_a_filter_lets_through_is_found_behind_much_that_is_nearer(self, store: Store) -> None:
        branch = await new_branch(store)
        text = "".join(f"<{number:04}>" for number in range(400))
        (turn,) = await store.turns.record(branch.id, [exchange(text)])
        await store.chunks.index(
            turn.id, [slice_of(text, f"<{number:04}>", embedding=at(number / 10)) for number in range(400)]
        )
        far = await put(store, branch.id, at(90), chunk_type="Code")
        assert await near(store, scope=Scope(types=("Code",)), most=3) == [far.id]


class NamespaceSuite:
    """Vectors of several embedders."""

    @pytest.mark.req("RETRIEVE-3")
    async def test_the_first_namespace_is_current_and_another_is_filled(self, store: Store) -> None:
        assert await store.vectors.namespaces() == ()
        assert await store.vectors.open("a", 2) == Namespace(name="a", dim=2, state="current")
        assert await store.vectors.open("a", 2) == Namespace(name="a", dim=2, state="current")
        assert await store.vectors.open("b", 3) == Namespace(name="b", dim=3, state="filling")
        assert await states(store) == [("a", "current", 0), ("b", "filling", 0)]

    @pytest.mark.req("RETRIEVE-3")
    async def test_a_namespace_has_one_size(self, store: Store) -> None:
        await store.vectors.open("a", 2)
        branch = await new_branch(store)
        chunk = await put(store, branch.id, None)
        for name, dim in (("a", 3), ("", 2), ("x" * 200, 2), ("b", 0), ("b", -1), ("b", 2**40)):
            with pytest.raises(InvalidInput):
                await store.vectors.open(name, dim)
        with pytest.raises(InvalidInput):
            await store.vectors.place("a", [(chunk.id, at(0).values), (chunk.id, embedding("a", 1.0).values)])
        assert await states(store) == [("a", "current", 0)]

    async def test_an_unknown_namespace_is_not_filled(self, store: Store) -> None:
        for verb in (store.vectors.unplaced("a"), store.vectors.place("a", ()), store.vectors.switch("a")):
            with pytest.raises(NotFound):
                await verb
        assert await store.vectors.bodies("a", [new_id()]) == (None,)
        assert await store.vectors.drop_old() == 0

    @pytest.mark.req("RETRIEVE-2")
    async def test_a_chunk_keeps_the_vector_it_has(self, store: Store) -> None:
        branch = await new_branch(store)
        chunk, bare = await put(store, branch.id, at(0)), await put(store, branch.id, None)
        await store.vectors.place(SPACE, [(chunk.id, at(90).values), (bare.id, at(45).values), (bare.id, at(0).values)])
        await store.vectors.place(SPACE, [(bare.id, at(90).values), (new_id(), at(90).values)])
        assert await store.vectors.bodies(SPACE, [bare.id, chunk.id]) == (at(45).values, at(0).values)
        assert await near(store, 90) == [bare.id, chunk.id]
        assert await states(store) == [(SPACE, "current", 2)]

    async def test_bodies_are_read_in_the_order_asked_for(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in (10, 20)]
        bare = await put(store, branch.id, None)
        asked = [chunks[1].id, bare.id, new_id(), chunks[0].id, chunks[1].id]
        wanted = (at(20).values, None, None, at(10).values, at(20).values)
        assert await store.vectors.bodies(SPACE, asked) == wanted
        assert await store.vectors.bodies(SPACE, ()) == ()

    @pytest.mark.req("RETRIEVE-3")
    async def test_unplaced_chunks_are_read_the_oldest_first(self, store: Store) -> None:
        branch = await new_branch(store)
        first, _, second, third = [await put(store, branch.id, at(0) if n == 1 else None) for n in range(4)]
        assert await store.vectors.unplaced(SPACE) == (first, second, third)
        assert await store.vectors.unplaced(SPACE, limit=2) == (first, second)
        await store.vectors.place(SPACE, [(second.id, at(0).values)])
        assert await store.vectors.unplaced(SPACE) == (first, third)
        await store.vectors.place(SPACE, [(first.id, at(0).values)])
        assert await store.vectors.unplaced(SPACE) == (third,)
        await store.vectors.place(SPACE, [(third.id, at(0).values)])
        assert await store.vectors.unplaced(SPACE) == ()

    @pytest.mark.req("RETRIEVE-3")
    async def test_a_search_is_never_empty_while_another_namespace_is_filled(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in (0, 20, 40)]
        ids = [chunk.id for chunk in chunks]
        await store.vectors.open("large", 3)
        for chunk, filled in zip(reversed(chunks), ([], ids[2:], ids[1:]), strict=True):
            assert not await store.vectors.switch("large")
            assert await near(store) == ids
            hits = await store.vectors.near(embedding("large", 1.0, 0.0, 0.0).values, "large", EVERYWHERE)
            assert sorted(hit.chunk_id for hit in hits) == sorted(filled)
            await store.vectors.place("large", [(chunk.id, embedding("large", 1.0, 0.0, 0.0).values)])
        assert await store.vectors.switch("large")
        assert await states(store) == [("large", "current", 3), (SPACE, "old", 3)]
        hits = await store.vectors.near(embedding("large", 1.0, 0.0, 0.0).values, "large", EVERYWHERE)
        assert sorted(hit.chunk_id for hit in hits) == sorted(ids)

    @pytest.mark.req("RETRIEVE-3")
    async def test_what_is_said_during_a_fill_has_to_be_filled_too(self, store: Store) -> None:
        branch = await new_branch(store)
        chunk = await put(store, branch.id, at(0))
        await store.vectors.open("other", 2)
        await store.vectors.place("other", [(chunk.id, at(0).values)])
        late = await put(store, branch.id, at(10))
        assert not await store.vectors.switch("other")
        assert await store.vectors.unplaced("other") == (late,)
        both = await put(store, branch.id, at(20, "other"))
        assert await store.vectors.unplaced(SPACE) == (both,)
        await store.vectors.place("other", [(late.id, at(10).values)])
        assert await store.vectors.switch("other")
        assert await near(store, namespace="other") == [chunk.id, late.id, both.id]

    @pytest.mark.req("RETRIEVE-3")
    async def test_the_same_place_in_two_namespaces_is_never_confused(self, store: Store) -> None:
        branch = await new_branch(store)
        here, there = await put(store, branch.id, at(0)), await put(store, branch.id, at(90))
        await store.vectors.open("turned", 2)
        await store.vectors.place("turned", [(here.id, at(90).values), (there.id, at(0).values)])
        for scope in (EVERYWHERE, Scope(session_id=branch.session_id), Scope(owner=Owner())):
            assert await near(store, scope=scope) == [here.id, there.id]
            assert await near(store, scope=scope, namespace="turned") == [there.id, here.id]

    @pytest.mark.req("RETRIEVE-3")
    async def test_an_old_namespace_is_removed_bit_by_bit(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in range(5)]
        await store.vectors.open("other", 2)
        await store.vectors.place("other", [(chunk.id, at(0).values) for chunk in chunks])
        assert await store.vectors.drop_old() == 0
        assert await store.vectors.switch("other")
        assert await store.vectors.drop_old(limit=2) == 2
        assert await states(store) == [("other", "current", 5), (SPACE, "old", 3)]
        assert await store.vectors.drop_old() == 3
        assert await store.vectors.drop_old() == 0
        assert await states(store) == [("other", "current", 5)]
        assert await near(store) == []
        assert len(await near(store, namespace="other")) == 5

    @pytest.mark.req("RETRIEVE-3")
    async def test_an_old_namespace_that_is_wanted_again_is_filled_anew(self, store: Store) -> None:
        branch = await new_branch(store)
        chunks = [await put(store, branch.id, at(angle)) for angle in range(3)]
        await store.vectors.open("other", 2)
        await store.vectors.place("other", [(chunk.id, at(0).values) for chunk in chunks])
        await store.vectors.switch("other")
        await store.vectors.drop_old(limit=1)
        assert (await store.vectors.open(SPACE, 2)).state == "filling"
        missing = await store.vectors.unplaced(SPACE)
        assert len(missing) == 1
        assert not await store.vectors.switch(SPACE)
        await store.vectors.place(SPACE, [(chunk.id, at(0).values) for chunk in missing])
        assert await store.vectors.switch(SPACE)
        assert await states(store) == [(SPACE, "current", 3), ("other", "old", 3)]
