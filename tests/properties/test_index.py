"""Finding by words is the same in every store, and the same as asking every text."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.search import Place, Scope
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.contract import Store
from contextinfinity.storage.in_memory import InMemoryStore
from contextinfinity.testing.builders import exchange, new_branch, slice_of
from contextinfinity.text.keywords import terms
from tests.ledgers import open_store

WORDS = ["heron", "nest", "reed", "東京", "ﷺ", "⑽", "getName", "don't", "pond_side", "the"]
OWNERS = [Owner(user_id="ada"), Owner(user_id="bob")]

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


class Said(Struct, frozen=True):
    """A turn on one of the branches there are by then; ``forks`` first, after one of its turns."""

    branch: int
    question: str
    answer: str | None
    borrowed: str | None
    forks: bool


class Asked(Struct, frozen=True):
    """A search: by words, in a session, a branch, for an owner."""

    words: list[str]
    owner: int | None
    branch: int | None
    before: int | None
    sides: tuple[str, ...]
    most: int


talks = st.lists(
    st.builds(Said, st.integers(0, 9), texts, st.none() | texts, st.none() | texts, st.booleans()),
    min_size=1,
    max_size=12,
)
searches = st.lists(
    st.builds(
        Asked,
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        st.none() | st.integers(0, 1),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(1, 6),
        st.sampled_from([(), ("user",), ("assistant",)]),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=6,
)


class Told(Struct):
    """What was said in a store, by number: ids are its own."""

    turns: list[Turn]
    branches: list[BranchId]
    owner_of: dict[str, Owner]


async def tell(store: Store, talk: list[Said]) -> Told:
    roots = [await new_branch(store, NewSession(owner=owner)) for owner in OWNERS]
    owner_of = {root.session_id: owner for root, owner in zip(roots, OWNERS, strict=True)}
    told = Told([], [root.id for root in roots], owner_of)
    for said in talk:
        branch = told.branches[said.branch % len(told.branches)]
        if said.forks:
            branch = (await store.branches.fork(branch)).id
            told.branches.append(branch)
        (turn,) = await store.turns.record(branch, [exchange(said.question, said.answer)])
        told.turns.append(turn)
        if said.borrowed is not None:
            chunk = replace(slice_of(said.question, said.question), borrowed=said.borrowed)
            await store.index.fill([(turn.id, [chunk])])
    return told


async def ask(store: Store, told: Told, asked: Asked) -> tuple[object, ...]:
    scope = Scope(
        owner=None if asked.owner is None else OWNERS[asked.owner],
        branch_id=None if asked.branch is None else told.branches[asked.branch % len(told.branches)],
        before=asked.before,
        sides=asked.sides,  # type: ignore[arg-type]
    )
    question = terms(" ".join(asked.words))
    found = await store.index.find_words(question, scope, most=asked.most)
    await check(store, told, scope, question, [hit.place for hit in found.hits])
    number = {turn.id: at for at, turn in enumerate(told.turns)}
    hits = [(number[hit.place.turn_id], hit.place.side, hit.own, hit.lent) for hit in found.hits]
    return hits, found.counts, found.total


async def check(store: Store, told: Told, scope: Scope, question: list[str], places: list[Place]) -> None:
    """Ask the texts themselves: whatever is shown may be seen, and holds a word unless it borrows one."""
    seen = None
    if scope.branch_id is not None:
        history = await store.turns.history(scope.branch_id, limit=100, before=scope.before)
        seen = {turn.id for turn in history}
    by_id = {turn.id: turn for turn in told.turns}
    for place in places:
        turn = by_id[place.turn_id]
        assert seen is None or turn.id in seen
        assert scope.owner is None or told.owner_of[turn.session_id] == scope.owner
        said = turn.user_message if place.side == "user" else turn.answer
        assert said is not None
        lent = place.side == "user" and await store.chunks.of_turn(turn.id)
        assert lent or set(question) & set(terms(said.rendered_text))


@pytest.mark.req("RETRIEVE-5", "RETRIEVE-10")
@settings(max_examples=40, deadline=None)
@given(talk=talks, asked=searches)
def test_both_stores_find_the_same_and_never_what_may_not_be_seen(talk: list[Said], asked: list[Asked]) -> None:
    async def compare(folder: Path) -> None:
        plain, sqlite = InMemoryStore(), open_store(folder / "ledger.db")
        told = await tell(plain, talk), await tell(sqlite, talk)
        for each in asked:
            assert await ask(plain, told[0], each) == await ask(sqlite, told[1], each)
        await sqlite.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))
