"""Tests of a client with an engine of its own: tokens."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, NotFound, TokenNeeded

ANNA = Owner(user_id="anna", org_id="acme")


class TokenPromises:
    """``Tokens``, and how the engine does."""

    @pytest.mark.req("SAFE-5")
    async def test_a_token_is_valid_from_the_moment_it_is_made_until_it_is_revoked(self, client: Client) -> None:
        assert not await client.tokens.needed()
        assert not await client.tokens.closed()
        made, other = await client.tokens.create(ANNA), await client.tokens.create(ANNA)
        token = await client.tokens.check(made.token)
        assert (token.id, token.owner, token.scope) == (made.id, ANNA, "user")
        await client.tokens.revoke(made.id)
        with pytest.raises(TokenNeeded, match=f"{made.id} of anna was revoked on"):
            await client.tokens.check(made.token)
        assert (await client.tokens.needed(), await client.tokens.closed()) == (True, False)
        await client.tokens.revoke(other.id)
        assert (await client.tokens.needed(), await client.tokens.closed()) == (True, True)
        for text in ("", made.token):
            with pytest.raises(TokenNeeded, match="all its tokens are revoked or expired: it refuses every request"):
                await client.tokens.check(text)

    @pytest.mark.req("SAFE-5")
    async def test_a_token_that_expired_says_so(self, client: Client) -> None:
        await client.tokens.create(ANNA, expires_at=now() + timedelta(hours=1))
        made = await client.tokens.create(ANNA, expires_at=now() - timedelta(seconds=1))
        with pytest.raises(TokenNeeded, match=f"{made.id} of anna expired on"):
            await client.tokens.check(made.token)

    @pytest.mark.req("SAFE-5")
    async def test_what_a_token_says_is_shown_once(self, client: Client) -> None:
        made = await client.tokens.create(ANNA, scope="app")
        assert made.token.startswith("cix_")
        assert len(made.token) > 40
        (listed,) = await client.tokens.list()
        assert made.token not in repr(listed)
        assert (await client.tokens.create(ANNA)).token != made.token

    @pytest.mark.req("SAFE-5")
    async def test_a_text_that_is_no_token_is_refused(self, client: Client) -> None:
        made = await client.tokens.create(ANNA)
        for text in ("", "cix_", made.id, made.token[:-1], made.token + "=", made.token.upper(), "\ud800"):
            with pytest.raises(TokenNeeded, match="CIX_TOKEN"):
                await client.tokens.check(text)

    async def test_a_token_is_for_somebody(self, client: Client) -> None:
        with pytest.raises(InvalidInput):
            await client.tokens.create(Owner(user_id=""))
        with pytest.raises(NotFound):
            await client.tokens.revoke(new_id())

    async def test_an_engine_that_works_says_so(self, client: Client) -> None:
        health = await client.health()
        assert (health.status, health.reasons) == ("ready", ())

    async def test_an_engine_without_its_ledger_says_so(self, client: Client) -> None:
        await client.close()
        health = await client.health()
        assert health.status == "unready"
        assert health.reasons
