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
from contextinfinity.text.plurals import counted

PREFIX = "cix_"
"""What a token begins with, so that people and scanners for secrets know one when they see it."""
HEALTH_SECONDS = 2.0
MOST_KNOWN = 10_000
"""How many tokens are remembered for a time when the ledger is away."""
MANY_FAILED = 1
"""From so many given-up jobs on an engine is degraded: what they stood for is missing until a reindex."""


class LocalTokens:
    """``Tokens`` of an engine's ledger."""

    def __init__(self, engine: Engine) -> None:
        self._tokens = engine.store.tokens
        self._were_any: bool | None = None
        self._known: dict[str, Token] = {}

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
        """Tell whose token that is, if it counts; while the ledger is away, as far as it was known before."""
        sha256 = _hash(text)
        try:
            token = await self._tokens.find(sha256)
        except LedgerError:
            if sha256 not in self._known:
                raise
            return self._known[sha256]
        self._known.pop(sha256, None)
        if token is not None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[sha256] = token
        return token

    async def needed(self) -> bool:
        """Tell whether there ever was one; that never becomes untrue."""
        if not self._were_any:
            try:
                self._were_any = await self._tokens.any()
            except LedgerError:
                if self._were_any is None:
                    raise
        return bool(self._were_any)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def health_of(engine: Engine) -> Health:
    """Look whether the ledger answers, what is held for it, and what work was given up."""
    ledger, backlog, reasons = engine.health(), Backlog(), list[str]()
    try:
        backlog = await asyncio.wait_for(engine.store.jobs.backlog(), HEALTH_SECONDS)
    except LedgerError as error:
        reasons.append(error.message)
    except TimeoutError:
        reasons.append(f"The ledger has not answered for {HEALTH_SECONDS:g} seconds.")
    if ledger.status == "degraded":
        return Health(status="degraded", reasons=(ledger.reason,), backlog=backlog, spool_depth=ledger.spool_depth)
    if reasons:
        return Health(status="unready", reasons=tuple(reasons))
    if backlog.failed >= MANY_FAILED:
        reason = f"{counted(backlog.failed, 'job')} given up; `cix reindex` does what they left."
        return Health(status="degraded", reasons=(reason,), backlog=backlog)
    return Health(status="ready", reasons=(), backlog=backlog)
