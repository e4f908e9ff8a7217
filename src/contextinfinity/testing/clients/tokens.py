"""What a client of an engine of its own promises about tokens."""

from __future__ import annotations

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, NotFound

ANNA = Owner(user_id="anna", org_id="acme")


class TokenPromises:
    """``Tokens``, and how the engine does."""

    @pytest.mark.req("SAFE-5")
    async def test_a_token_counts_from_the_moment_it_is_made_until_it_is_revoked(self, client: Client) -> None:
        assert not await client.tokens.needed()
        made = await client.tokens.create(ANNA)
        token = await client.tokens.of(made.token)
        assert token is not None
        assert (token.id, token.owner, token.scope) == (made.id, ANNA, "user")
        await client.tokens.revoke(made.id)
        assert await client.tokens.of(made.token) is None
        assert await client.tokens.needed()

    @pytest.mark.req("SAFE-5")
    async def test_what_a_token_says_is_shown_once(self, client: Client) -> None:
        made = await client.tokens.create(ANNA, scope="app")
        assert made.token.startswith("cix_")
        assert len(made.token) > 40
        (listed,) = await client.tokens.list()
        assert made.token not in repr(listed)
        assert (await client.tokens.create(ANNA)).token != made.token

    @pytest.mark.req("SAFE-5")
    async def test_words_that_are_no_token_count_for_nothing(self, client: Client) -> None:
        made = await client.tokens.create(ANNA)
        for text in ("", "cix_", made.id, made.token[:-1], made.token + "=", made.token.upper(), "\ud800"):
            assert await client.tokens.of(text) is None

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
