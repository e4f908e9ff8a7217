"""Tokens in every store: the contract, and what a token has to be."""

from __future__ import annotations

from typing import Protocol, get_args

from contextinfinity.domain.token import NewToken, Token, TokenId, TokenScope
from contextinfinity.storage.idempotency import check_hash
from contextinfinity.storage.rules import check_name, check_one_of

_SCOPES = get_args(TokenScope)


class Tokens(Protocol):
    """Who may use a server. What a token says is never kept, only its hash."""

    async def create(self, new: NewToken) -> Token:
        """Keep one. ``AlreadyExists`` for a hash that is there; ``InvalidInput`` for what is no hash."""
        ...

    async def find(self, sha256: str) -> Token | None:
        """Read the token of that hash, also a revoked or expired one."""
        ...

    async def list(self, *, limit: int = 1000) -> tuple[Token, ...]:
        """Read those there ever were, the oldest first."""
        ...

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke it, from now on and in every process. A second time changes nothing."""
        ...

    async def any(self) -> bool:
        """Tell whether there ever was one, revoked or not."""
        ...


def check_new_token(new: NewToken) -> None:
    """Refuse a token whose hash or names break the rules."""
    check_hash("sha256", new.sha256)
    check_name("user_id", new.owner.user_id, least=1)
    check_name("org_id", new.owner.org_id, least=0)
    check_one_of("scope", new.scope, _SCOPES)
