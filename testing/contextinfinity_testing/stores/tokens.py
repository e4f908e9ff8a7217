"""Tests of a store: tokens and repeated requests."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from hashlib import sha256

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.session import IdempotencyKey, NewSession, Owner
from contextinfinity.domain.token import NewToken
from contextinfinity.errors import AlreadyExists, InvalidInput, KeyReused, LedgerClosed, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import WORKER, answer_turn, broken_off, new_branch, new_turn

ANN = Owner(user_id="ann", org_id="acme")


def hash_of(text: str) -> str:
    """Hash a text as tokens and keys are hashed."""
    return sha256(text.encode()).hexdigest()


def once(key: str, asked: str = "this") -> IdempotencyKey:
    """Return an idempotency key."""
    return IdempotencyKey(key=hash_of(key), asked=hash_of(asked))


class TokenSuite:
    """``Tokens``."""

    @pytest.mark.req("SAFE-5")
    async def test_a_token_is_found_by_its_hash_alone(self, store: Store) -> None:
        made = await store.tokens.create(NewToken(sha256=hash_of("a"), owner=ANN, scope="app"))
        assert (made.owner, made.scope, made.revoked_at) == (ANN, "app", None)
        assert await store.tokens.find(hash_of("a")) == made
        for other in (hash_of("b"), "a", "", made.id):
            assert await store.tokens.find(other) is None

    @pytest.mark.req("SAFE-5")
    async def test_a_revoked_or_expired_token_is_not_valid_and_stays_on_the_list(self, store: Store) -> None:
        ends = now() + timedelta(days=1)
        made = await store.tokens.create(NewToken(sha256=hash_of("a"), expires_at=ends))
        assert [made.state(at) for at in (now(), ends)] == ["valid", "expired"]
        assert await store.tokens.find(hash_of("a")) == made
        revoked = await store.tokens.revoke(made.id)
        assert (revoked.state(now()), revoked.expires_at) == ("revoked", ends)
        assert await store.tokens.find(hash_of("a")) == revoked
        assert await store.tokens.list() == (revoked,)
        assert await store.tokens.revoke(made.id) == revoked

    @pytest.mark.req("SAFE-5")
    async def test_that_there_ever_was_a_token_is_never_forgotten(self, store: Store) -> None:
        assert not await store.tokens.any()
        made = await store.tokens.create(NewToken(sha256=hash_of("a")))
        await store.tokens.revoke(made.id)
        assert await store.tokens.any()

    async def test_tokens_are_listed_oldest_first(self, store: Store) -> None:
        made = [await store.tokens.create(NewToken(sha256=hash_of(text))) for text in "abc"]
        assert await store.tokens.list() == tuple(made)
        assert await store.tokens.list(limit=2) == tuple(made[:2])

    async def test_a_token_that_breaks_a_rule_is_refused(self, store: Store) -> None:
        good = NewToken(sha256=hash_of("a"), owner=ANN)
        await store.tokens.create(good)
        with pytest.raises(AlreadyExists):
            await store.tokens.create(good)
        for bad in (
            replace(good, sha256="a"),
            replace(good, sha256=hash_of("b"), owner=Owner(user_id="")),
            replace(good, sha256=hash_of("b"), owner=Owner(user_id="x" * 129)),
            replace(good, sha256=hash_of("b"), scope="root"),
        ):
            with pytest.raises(InvalidInput):
                await store.tokens.create(bad)
        assert len(await store.tokens.list()) == 1

    async def test_an_unknown_token_cannot_be_revoked(self, store: Store) -> None:
        for unknown in (new_id(), "nothing"):
            with pytest.raises(NotFound):
                await store.tokens.revoke(unknown)

    async def test_a_closed_store_knows_no_tokens(self, store: Store) -> None:
        await store.close()
        for attempt in (
            lambda: store.tokens.create(NewToken(sha256=hash_of("a"))),
            lambda: store.tokens.find(hash_of("a")),
            lambda: store.tokens.list(),
            lambda: store.tokens.revoke(new_id()),
            lambda: store.tokens.any(),
        ):
            with pytest.raises(LedgerClosed):
                await attempt()


class RequestSuite:
    """``Turns.accept`` of a request that comes again."""

    @pytest.mark.req("API-15")
    async def test_a_request_that_comes_again_is_given_the_turn_it_made(self, store: Store) -> None:
        branch, other = await new_branch(store), await new_branch(store)
        first = await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k")))
        for again in (new_turn(branch.id, "Hello"), new_turn(branch.id, "Hello", "another"), new_turn(other.id, "Hi")):
            assert await store.turns.accept(replace(again, once=once("k"))) == first
        assert len(await store.turns.history(branch.id)) == 1
        assert await store.turns.history(other.id) == ()

    @pytest.mark.req("API-15")
    async def test_a_request_that_comes_again_later_is_given_the_turn_as_it_is_now(self, store: Store) -> None:
        branch = await new_branch(store)
        first = await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k")))
        await store.turns.cancel(first.id)
        again = await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k")))
        assert (again.id, again.cancel_requested) == (first.id, True)

    @pytest.mark.req("API-15")
    async def test_a_key_that_named_another_request_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k")))
        with pytest.raises(KeyReused):
            await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k", "that")))
        assert len(await store.turns.history(branch.id)) == 1

    @pytest.mark.req("API-15")
    async def test_a_session_asked_for_again_under_its_key_is_the_one_that_was_made(self, store: Store) -> None:
        new = NewSession(owner=ANN, title="Plans", once=once("k"))
        made = await asyncio.gather(*(store.sessions.create(new) for _ in range(8)))
        assert len({session.id for session in made}) == 1
        assert len(await store.sessions.list(ANN)) == 1
        with pytest.raises(KeyReused):
            await store.sessions.create(replace(new, once=once("k", "that")))
        assert (await store.sessions.create(replace(new, once=once("l")))).id != made[0].id

    async def test_a_deleted_session_takes_its_keys_along(self, store: Store) -> None:
        session = await store.sessions.create(NewSession(once=once("k")))
        turn = await store.turns.accept(replace(new_turn(session.active_branch, "Hello"), once=once("l")))
        await store.turns.fail(turn.id, WORKER, broken_off())
        while (await store.deletions.delete(session.id)).more:
            pass
        again = await store.sessions.create(NewSession(once=once("k")))
        assert again.id != session.id
        assert (await store.turns.accept(replace(new_turn(again.active_branch, "Hello"), once=once("l")))).id != turn.id

    async def test_other_keys_and_no_key_make_other_turns(self, store: Store) -> None:
        branch = await new_branch(store)
        for key in (once("k"), once("l"), None, None):
            await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=key))
        assert len(await store.turns.history(branch.id)) == 4

    async def test_a_known_request_is_answered_though_the_queue_is_full(self, store: Store) -> None:
        branch = await new_branch(store)
        new = replace(new_turn(branch.id, "Hello"), once=once("k"), queue_limit=1)
        first = await store.turns.accept(new)
        assert await store.turns.accept(new) == first

    @pytest.mark.req("API-15")
    async def test_requests_of_one_key_at_the_same_time_make_one_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        new = replace(new_turn(branch.id, "Hello"), once=once("k"))
        made = await asyncio.gather(*(store.turns.accept(new) for _ in range(20)))
        assert len({turn.id for turn in made}) == 1
        assert len(await store.turns.history(branch.id)) == 1

    async def test_a_refused_request_does_not_use_its_key_up(self, store: Store) -> None:
        branch = await new_branch(store)
        with pytest.raises(NotFound):
            await store.turns.accept(replace(new_turn(new_id(), "Hello"), once=once("k")))
        made = await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=once("k")))
        assert made.user_message == say("user", "Hello")

    async def test_a_key_that_is_no_hash_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "Hello", "Hi")
        for bad in (IdempotencyKey(key="k", asked=hash_of("a")), IdempotencyKey(key=hash_of("a"), asked="")):
            with pytest.raises(InvalidInput):
                await store.turns.accept(replace(new_turn(branch.id, "Hello"), once=bad))
