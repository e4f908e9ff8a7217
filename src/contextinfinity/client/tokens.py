"""Tokens and the state of an engine, for the doors that need them."""

from __future__ import annotations

import asyncio
import secrets
from hashlib import sha256

from contextinfinity.client.values import Health, MadeToken
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import NewToken, Token, TokenId, TokenScope
from contextinfinity.domain.work import Backlog
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import LedgerError

PREFIX = "cix_"
"""What a token begins with, so that people and scanners for secrets know one when they see it."""
HEALTH_SECONDS = 2.0
MANY_FAILED = 1
"""From so many given-up jobs on an engine is degraded: what they stood for is missing until a reindex."""


class LocalTokens:
    """``Tokens`` of an engine's ledger."""

    def __init__(self, engine: Engine) -> None:
        self._tokens = engine.store.tokens
        self._were_any = False

    async def create(self, owner: Owner, *, scope: TokenScope = "user") -> MadeToken:
        """Make one, and show it this once."""
        text = PREFIX + secrets.token_urlsafe(32)
        token = await self._tokens.create(NewToken(sha256=_hash(text), owner=owner, scope=scope))
        return MadeToken(id=token.id, user=owner.user_id, org=owner.org_id, scope=scope, token=text)

    async def list(self) -> tuple[Token, ...]:
        """Read those there ever were."""
        return await self._tokens.list()

    async def revoke(self, token_id: TokenId) -> Token:
        """Let one count no more."""
        return await self._tokens.revoke(token_id)

    async def of(self, text: str) -> Token | None:
        """Tell whose token that is, if it counts."""
        return await self._tokens.find(_hash(text))

    async def needed(self) -> bool:
        """Tell whether there ever was one; that never becomes untrue."""
        self._were_any = self._were_any or await self._tokens.any()
        return self._were_any


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def health_of(engine: Engine) -> Health:
    """Look whether the ledger answers, and what work was given up."""
    try:
        backlog = await asyncio.wait_for(engine.store.jobs.backlog(), HEALTH_SECONDS)
    except LedgerError as error:
        return Health(status="unready", reasons=(error.message,), backlog=Backlog())
    except TimeoutError:
        reason = f"The ledger has not answered for {HEALTH_SECONDS:g} seconds."
        return Health(status="unready", reasons=(reason,), backlog=Backlog())
    if backlog.failed >= MANY_FAILED:
        reason = f"{backlog.failed} jobs were given up; `cix reindex` does what they left."
        return Health(status="degraded", reasons=(reason,), backlog=backlog)
    return Health(status="ready", reasons=(), backlog=backlog)
