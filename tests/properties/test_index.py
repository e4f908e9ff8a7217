"""Finding by words gives what looking at every text gives."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.search import Scope, TextPosition
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.keyword_index import weight
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import terms
from contextinfinity_testing.builders import exchange, new_branch, slice_of
from tests.sizes import sized

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
    lent: dict[int, set[str]]


async def tell(store: Store, talk: list[Said]) -> Told:
    roots = [await new_branch(store, NewSession(owner=owner)) for owner in OWNERS]
    owner_of = {root.session_id: owner for root, owner in zip(roots, OWNERS, strict=True)}
    told = Told([], [root.id for root in roots], owner_of, {})
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
            told.lent[len(told.turns) - 1] = set(terms(said.borrowed))
    return told


async def ask(store: Store, told: Told, asked: Asked) -> None:
    scope = Scope(
        owner=None if asked.owner is None else OWNERS[asked.owner],
        branch_id=None if asked.branch is None else told.branches[asked.branch % len(told.branches)],
        before=asked.before,
        sides=asked.sides,  # type: ignore[arg-type]
    )
    question = terms(" ".join(asked.words))
    found = await store.index.find_words(question, scope, most=asked.most)
    await check(store, told, scope, question, [hit.place for hit in found.hits])
    hits, counts, total = await looked_at(store, told, scope, question)
    assert [(hit.place, hit.own, hit.lent) for hit in found.hits] == hits[: asked.most]
    assert (found.counts, found.total) == (counts, total)


async def looked_at(
    store: Store, told: Told, scope: Scope, question: list[str]
) -> tuple[list[tuple[TextPosition, int, int]], tuple[int, ...], int]:
    """Look at every text: what a search has to give, the best first and of equals the newer."""
    session = None if scope.branch_id is None else (await store.branches.lineage(scope.branch_id)).owner_of(0)
    root = None if session is None else await store.branches.get(session)
    seen = None
    if scope.branch_id is not None:
        seen = {turn.id for turn in await store.turns.history(scope.branch_id, limit=100, before=scope.before)}
    within: list[tuple[TextPosition, set[str], set[str]]] = []
    for at, turn in enumerate(told.turns):
        if root is not None and turn.session_id != root.session_id:
            continue
        if scope.owner is not None and told.owner_of[turn.session_id] != scope.owner:
            continue
        within.append(
            (TextPosition(turn.id, "user"), set(terms(turn.user_message.rendered_text)), told.lent.get(at, set()))
        )
        if turn.answer is not None:
            within.append((TextPosition(turn.id, "assistant"), set(terms(turn.answer.rendered_text)), set()))
    counts = tuple(sum(term in own for _, own, _ in within) for term in question)
    weights = {term: weight(count, len(within)) for term, count in zip(question, counts, strict=True)}

    def score(own: set[str], lent: set[str]) -> int:
        return sum(each if term in own else each // 2 if term in lent else 0 for term, each in weights.items())

    shown = [
        (place, own, lent)
        for place, own, lent in reversed(within)
        if set(question) & (own | lent)
        and (seen is None or place.turn_id in seen)
        and (not scope.sides or place.side in scope.sides)
    ]
    shown.sort(key=lambda each: -score(each[1], each[2]))
    return [(place, bits(question, own), bits(question, lent)) for place, own, lent in shown], counts, len(within)


def bits(question: list[str], words: set[str]) -> int:
    return sum((term in words) << at for at, term in enumerate(question))


async def check(store: Store, told: Told, scope: Scope, question: list[str], places: list[TextPosition]) -> None:
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
@settings(max_examples=sized(15, 200), deadline=None)
@given(talk=talks, asked=searches)
def test_words_find_what_looking_at_every_text_finds(talk: list[Said], asked: list[Asked]) -> None:
    async def compare() -> None:
        store = SqliteStore(None)
        told = await tell(store, talk)
        for each in asked:
            await ask(store, told, each)
        await store.close()

    asyncio.run(compare())
