"""Tests of a store: sessions."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import Position, new_id
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.errors import AlreadyExists, InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import exchange, later_than, new_branch, new_turn

ANN = Owner(user_id="ann", org_id="acme")
WITHOUT_ID = NewSession(owner=ANN, external_id="lobby", kind="chat", title="Lobby", system="Be brief.", ttl_hours=1.5)
FIRST_ID, LAST_ID = str(UUID(int=0)), str(UUID(int=2**128 - 1))


async def three_sessions(store: Store) -> list[Session]:
    """Create three sessions, each later than the previous one."""
    made = []
    for _ in range(3):
        made.append(await store.sessions.create(NewSession(owner=ANN)))
        await later_than(made[-1].updated_at)
    return made


async def ids_of(store: Store, owner: Owner = ANN) -> list[str]:
    """Return the ids of an owner's sessions in list order."""
    return [session.id for session in await store.sessions.list(owner)]


class SessionSuite:
    """Conversations and whose they are."""

    # --- making one ---

    @pytest.mark.req("LEDGER-1")
    async def test_a_new_session_reads_back_as_it_was_asked_for(self, store: Store) -> None:
        session = await store.sessions.create(WITHOUT_ID)
        asked = NewSession(
            owner=session.owner,
            external_id=session.external_id,
            kind=session.kind,
            title=session.title,
            system=session.system,
            ttl_hours=session.ttl_hours,
        )
        assert asked == WITHOUT_ID
        assert await store.sessions.get(session.id) == session
        assert session.created_at == session.updated_at

    async def test_a_new_session_is_a_plain_thread_of_the_local_user(self, store: Store) -> None:
        session = await store.sessions.create(NewSession())
        assert (session.owner, session.kind) == (Owner(user_id="local", org_id=""), "thread")
        assert (session.external_id, session.title, session.system, session.ttl_hours) == (None, None, None, None)

    @pytest.mark.req("LEDGER-1", "LEDGER-5")
    async def test_a_new_session_has_one_branch_with_a_root_state(self, store: Store) -> None:
        session = await store.sessions.create(NewSession())
        (branch,) = await store.branches.list(session.id)
        root = await store.states.head(branch.id)
        assert (branch.id, branch.session_id, branch.label) == (session.active_branch, session.id, "main")
        assert (branch.parent_id, branch.fork_seq, branch.head_seq, branch.last_turn_seq) == (None, 0, 0, 0)
        assert branch.base_state == branch.head_state == root.id
        assert (root.state_seq, root.turn_seq, root.covers_turn_seq, root.reason) == (0, 0, 0, "root")
        assert (root.parent_id, root.summary, root.pinned_facts, root.token_count_est) == (None, "", (), 0)
        assert (root.session_id, root.branch_id) == (session.id, branch.id)
        assert await store.turns.history(branch.id) == ()

    @pytest.mark.req("LEDGER-1")
    async def test_ids_that_the_store_makes_are_of_version_seven(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("a", "b")])
        made = [branch.session_id, branch.id, branch.head_state, turn.id, turn.state_after]
        assert [UUID(name).version for name in made] == [7] * 5
        assert len(set(made)) == 5

    async def test_an_id_the_caller_brings_is_kept(self, store: Store) -> None:
        given = str(uuid4())
        session = await store.sessions.create(NewSession(id=given))
        assert session.id == given
        assert await store.sessions.get(given) == session

    @pytest.mark.parametrize(
        "given",
        [
            "",
            "mine",
            "0192f0c1-2345-7ABC-8def-0123456789ab",
            "0192f0c123457abc8def0123456789ab",
            "{0192f0c1-2345-7abc-8def-0123456789ab}",
            "0192f0c1-2345-7abc-8def-0123456789ab\n",
        ],
    )
    async def test_an_id_that_is_no_canonical_uuid_is_refused(self, store: Store, given: str) -> None:
        with pytest.raises(InvalidInput):
            await store.sessions.create(NewSession(id=given))
        assert await store.sessions.list(Owner()) == ()

    async def test_making_the_same_session_again_gives_the_one_that_is_there(self, store: Store) -> None:
        asked = replace(WITHOUT_ID, id=new_id())
        first = await store.sessions.create(asked)
        assert await store.sessions.create(asked) == first
        assert await store.sessions.create(replace(asked, title="Another title")) == first
        assert await store.sessions.list(ANN) == (first,)
        assert len(await store.branches.list(first.id)) == 1

    @pytest.mark.parametrize(
        "changed",
        [
            {"owner": Owner(user_id="bob", org_id="acme")},
            {"owner": Owner(user_id="ann", org_id="other")},
            {"external_id": "attic"},
            {"external_id": None},
            {"kind": "thread"},
        ],
        ids=["user", "org", "external id", "no external id", "kind"],
    )
    async def test_another_session_under_a_taken_id_is_refused(self, store: Store, changed: dict[str, object]) -> None:
        asked = replace(WITHOUT_ID, id=new_id())
        first = await store.sessions.create(asked)
        other = replace(asked, **changed)
        with pytest.raises(AlreadyExists):
            await store.sessions.create(other)
        assert await store.sessions.get(first.id) == first
        if other.owner != ANN:
            assert await store.sessions.list(other.owner) == ()

    # --- foreign ids ---

    @pytest.mark.req("LEDGER-1")
    async def test_a_foreign_id_is_unique_within_its_owner(self, store: Store) -> None:
        first = await store.sessions.create(WITHOUT_ID)
        with pytest.raises(AlreadyExists):
            await store.sessions.create(replace(WITHOUT_ID, title="Second"))
        with pytest.raises(AlreadyExists):
            await store.sessions.create(replace(WITHOUT_ID, id=new_id()))
        assert await store.sessions.find(ANN, "lobby") == first
        assert await store.sessions.list(ANN) == (first,)

    @pytest.mark.req("LEDGER-1")
    async def test_two_owners_may_use_the_same_foreign_id(self, store: Store) -> None:
        owners = [ANN, Owner(user_id="ann", org_id="other"), Owner(user_id="bob", org_id="acme"), Owner(user_id="ann")]
        made = [await store.sessions.create(replace(WITHOUT_ID, owner=owner)) for owner in owners]
        assert [await store.sessions.find(owner, "lobby") for owner in owners] == made

    async def test_a_foreign_id_is_found_for_its_owner_only(self, store: Store) -> None:
        await store.sessions.create(WITHOUT_ID)
        assert await store.sessions.find(Owner(user_id="ann"), "lobby") is None
        assert await store.sessions.find(Owner(user_id="bob", org_id="acme"), "lobby") is None
        assert await store.sessions.find(ANN, "LOBBY") is None
        assert await store.sessions.find(ANN, "lobb") is None

    async def test_sessions_without_a_foreign_id_do_not_clash(self, store: Store) -> None:
        made = [await store.sessions.create(NewSession()) for _ in range(2)]
        assert made[0].id != made[1].id

    @pytest.mark.parametrize(
        "new",
        [
            NewSession(external_id=""),
            NewSession(external_id="x" * 129),
            NewSession(owner=Owner(user_id="")),
            NewSession(owner=Owner(user_id="x" * 129)),
            NewSession(owner=Owner(org_id="x" * 129)),
        ],
        ids=["no external id", "long external id", "no user", "long user", "long org"],
    )
    async def test_a_name_too_short_or_too_long_is_refused(self, store: Store, new: NewSession) -> None:
        with pytest.raises(InvalidInput):
            await store.sessions.create(new)
        assert await store.sessions.list(new.owner) == ()

    async def test_names_may_have_128_characters_of_any_script(self, store: Store) -> None:
        owner = Owner(user_id="語" * 128, org_id="é" * 128)
        session = await store.sessions.create(NewSession(owner=owner, external_id="🙂" * 128))
        assert await store.sessions.find(owner, "🙂" * 128) == session

    # --- the list ---

    async def test_the_session_spoken_in_last_comes_first(self, store: Store) -> None:
        first, second, third = await three_sessions(store)
        assert await ids_of(store) == [third.id, second.id, first.id]
        await store.turns.accept(new_turn(first.active_branch, "hello"))
        assert await ids_of(store) == [first.id, third.id, second.id]

    async def test_a_recorded_turn_counts_as_spoken(self, store: Store) -> None:
        first, second, third = await three_sessions(store)
        await store.turns.record(second.active_branch, [exchange("hello", "hi")])
        assert await ids_of(store) == [second.id, third.id, first.id]

    async def test_sessions_of_the_same_moment_are_listed_newest_id_first(self, store: Store) -> None:
        made = [await store.sessions.create(NewSession(owner=ANN)) for _ in range(20)]
        listed = await store.sessions.list(ANN)
        assert list(listed) == sorted(made, key=lambda session: (session.updated_at, session.id), reverse=True)

    async def test_the_list_can_be_read_page_by_page(self, store: Store) -> None:
        made = [await store.sessions.create(NewSession(owner=ANN)) for _ in range(7)]
        pages: list[tuple[Session, ...]] = []
        for _ in range(4):
            after = pages[-1][-1].position if pages else None
            pages.append(await store.sessions.list(ANN, limit=3, after=after))
            if len(pages[-1]) < 3:
                break
        assert [len(page) for page in pages] == [3, 3, 1]
        assert await store.sessions.list(ANN, after=pages[-1][-1].position) == ()
        assert [session.id for page in pages for session in page] == await ids_of(store)
        assert {session.id for session in made} == set(await ids_of(store))

    async def test_an_owner_sees_no_session_of_another(self, store: Store) -> None:
        mine = await store.sessions.create(WITHOUT_ID)
        others = await store.sessions.create(NewSession(owner=Owner(user_id="ann")))
        assert await store.sessions.list(ANN) == (mine,)
        assert await store.sessions.list(ANN, after=others.position) in ((), (mine,))
        assert others not in await store.sessions.list(ANN, after=Position(others.updated_at, LAST_ID))
        listed = await store.sessions.list(None)
        assert list(listed) == sorted((mine, others), key=lambda one: (one.updated_at, one.id), reverse=True)
        assert await store.sessions.list(None, limit=1, after=listed[0].position) == listed[1:]

    async def test_a_page_goes_on_where_a_session_stood_that_was_spoken_in_since(self, store: Store) -> None:
        first, second, third = await three_sessions(store)
        (listed,) = await store.sessions.list(ANN, limit=1)
        await store.turns.accept(new_turn(third.active_branch, "hello"))
        rest = await store.sessions.list(ANN, after=listed.position)
        assert [session.id for session in rest] == [second.id, first.id]

    async def test_a_page_goes_on_where_a_session_stood_that_is_gone(self, store: Store) -> None:
        first, second, third = await three_sessions(store)
        await store.deletions.delete(third.id)
        assert await store.sessions.list(ANN, after=third.position) == (second, first)

    @pytest.mark.parametrize("identifier", [FIRST_ID, LAST_ID, "no id"])
    async def test_a_page_goes_on_at_a_place_where_nothing_ever_stood(self, store: Store, identifier: str) -> None:
        session = await store.sessions.create(WITHOUT_ID)
        newer = await store.sessions.list(ANN, after=Position(session.updated_at + timedelta(days=1), identifier))
        older = await store.sessions.list(ANN, after=Position(session.updated_at - timedelta(days=1), identifier))
        assert (newer, older) == ((session,), ())

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_list_of_no_length_is_empty(self, store: Store, limit: int) -> None:
        await store.sessions.create(WITHOUT_ID)
        assert await store.sessions.list(ANN, limit=limit) == ()

    # --- changing one ---

    async def test_a_session_can_be_renamed_and_lose_its_name(self, store: Store) -> None:
        session = await store.sessions.create(WITHOUT_ID)
        await later_than(session.updated_at)
        renamed = await store.sessions.rename(session.id, "Hall")
        assert renamed == replace(session, title="Hall", updated_at=renamed.updated_at)
        assert renamed.updated_at > session.updated_at
        assert (await store.sessions.rename(session.id, None)).title is None

    @pytest.mark.req("LEDGER-8")
    async def test_switching_the_branch_changes_nothing_else(self, store: Store) -> None:
        session = await store.sessions.create(WITHOUT_ID)
        fork = await store.branches.fork(session.active_branch)
        await later_than(session.updated_at)
        switched = await store.sessions.activate(session.id, fork.id)
        assert switched == replace(session, active_branch=fork.id, updated_at=switched.updated_at)
        assert switched.updated_at > session.updated_at
        assert await store.sessions.get(session.id) == switched

    async def test_a_branch_of_another_session_cannot_become_active(self, store: Store) -> None:
        session = await store.sessions.create(NewSession())
        stranger = await new_branch(store)
        for branch_id in (stranger.id, new_id()):
            with pytest.raises(NotFound):
                await store.sessions.activate(session.id, branch_id)
        assert await store.sessions.get(session.id) == session

    async def test_an_unknown_session_cannot_be_read_or_changed(self, store: Store) -> None:
        unknown = new_id()
        assert await store.sessions.get(unknown) is None
        assert await store.branches.list(unknown) == ()
        branch = await new_branch(store)
        with pytest.raises(NotFound):
            await store.sessions.rename(unknown, "Hall")
        with pytest.raises(NotFound):
            await store.sessions.activate(unknown, branch.id)
        assert await store.sessions.get(unknown) is None
