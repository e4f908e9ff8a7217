"""Tokens, in memory."""

from __future__ import annotations

from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.token import NewToken, Token, TokenId
from contextinfinity.errors import AlreadyExists, NotFound
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.rules import row_limit
from contextinfinity.storage.tokens import check_new_token


class InMemoryTokens:
    """The ``Tokens`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def create(self, new: NewToken) -> Token:
        """Keep one."""
        check_new_token(new)
        check_text(new)
        with self._tables.transaction() as tables:
            if new.sha256 in tables.tokens:
                raise AlreadyExists("There is a token of that hash already.")
            token = Token(id=new_id(), owner=new.owner, scope=new.scope, created_at=now(), expires_at=new.expires_at)
            tables.tokens[new.sha256] = token
            return token

    async def find(self, sha256: str) -> Token | None:
        """Read the token of that hash."""
        with self._tables.transaction() as tables:
            return tables.tokens.get(sha256)

    async def list(self, *, limit: int = 1000) -> tuple[Token, ...]:
        """Read those there ever were, the oldest first."""
        with self._tables.transaction() as tables:
            return tuple(tables.tokens.values())[: row_limit(limit)]

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke it."""
        with self._tables.transaction() as tables:
            for sha256, token in tables.tokens.items():
                if token.id == token_id:
                    tables.tokens[sha256] = replace(token, revoked_at=token.revoked_at or now())
                    return tables.tokens[sha256]
        raise NotFound(f"There is no token {token_id}.")

    async def any(self) -> bool:
        """Tell whether there ever was one."""
        with self._tables.transaction() as tables:
            return bool(tables.tokens)
