"""No user ever receives another user's memory, whatever they ask and in whatever order things happen."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.compat.context import LedgerSnippets
from contextinfinity.domain.ids import now
from contextinfinity.domain.memory import NewMemory, Recall
from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import terms
from contextinfinity_testing.builders import answer_turn, new_branch
from tests.sizes import sized

OWNERS = [Owner(user_id=user, org_id=org) for user in ("ann", "bob", "ann ", "a%") for org in ("", "acme")]
WORDS = ["tea", "rum", "boat", "oslo", "chess"]

Step = tuple[int, str, str, bool]
"""Whose, what is done, about what, and whether for the thread alone."""
steps = st.lists(
    st.tuples(
        st.integers(0, len(OWNERS) - 1),
        st.sampled_from(["add", "draw", "draw", "edit", "forget", "expire", "placed"]),
        st.sampled_from(WORDS),
        st.booleans(),
    ),
    min_size=4,
    max_size=24,
)


async def walk(store: Store, taken: list[Step]) -> None:
    """Let users do things, each with everyone's ids, and look at what each of them gets."""
    branches = {owner: await new_branch(store, NewSession(owner=owner)) for owner in OWNERS}
    ids: list[str] = []
    for number, verb, word, here in taken:
        owner = OWNERS[number]
        thread = branches[owner].session_id if here else None
        content = f"{owner.user_id}|{owner.org_id} likes {word}."
        new = NewMemory(owner=owner, content=content, said_at=now(), thread=thread, about=f"like:{word}")
        if verb == "add":
            ids.append((await store.memories.add(new)).id)
        elif verb == "draw":
            turn = await answer_turn(store, branches[owner].id, "hello")
            ids += [memory.id for memory in await store.memories.replace_extracted(turn.id, [new])]
        elif verb == "edit":
            for memory in await store.memories.read(owner, ids):
                if await store.memories.read(owner, [memory.id]):  # the edit before may have joined it to a twin
                    await store.memories.edit(owner, memory.id, new)
        elif verb == "forget":
            await store.memories.forget(owner, ids[:3])
        elif verb == "expire":
            await store.memories.expire(owner, now())
        else:
            await store.memories.placed(owner, ids, now())
        await look(store, branches, ids)


async def look(store: Store, branches: dict[Owner, Branch], ids: list[str]) -> None:
    for owner, branch in branches.items():
        asked = Recall(
            owner=owner,
            session_id=branch.session_id,
            branch_id=branch.id,
            terms=tuple(terms(" ".join(WORDS))),
            at=now(),
            oldest=now().replace(year=2020),
            other_branches=True,
        )
        recalled = await store.memories.recall(asked)
        seen = [each.memory for each in (*recalled.found, *recalled.standing)]
        seen += await store.memories.read(owner, ids)
        seen += await store.memories.list(owner, superseded=True, limit=1000)
        assert all(memory.owner == owner for memory in seen)
        assert all(memory.content.startswith(f"{owner.user_id}|{owner.org_id} ") for memory in seen)
        shown = await LedgerSnippets(store).snippet(
            "Who likes tea?", thread_id=asked.session_id, user_id=owner.user_id, org_id=owner.org_id
        )
        assert all(line.startswith(f"{owner.user_id}|{owner.org_id} ") for line in (shown or "").splitlines())


@pytest.mark.req("MEMORY-6", "MEMORY-1")
@settings(max_examples=sized(15, 200), deadline=None)
@given(steps)
def test_no_user_gets_anothers_memory(taken: list[Step]) -> None:
    async def run() -> None:
        store = SqliteStore(None)
        await walk(store, taken)
        await store.close()

    asyncio.run(run())
