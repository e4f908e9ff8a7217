"""API tokens, and the health of an engine."""

from __future__ import annotations

import asyncio
import secrets
from datetime import datetime
from hashlib import sha256

from contextinfinity.client.results import Health, MadeToken
from contextinfinity.domain.ids import now
from contextinfinity.domain.job import Backlog
from contextinfinity.domain.session import Owner
from contextinfinity.domain.token import NewToken, Token, TokenId, TokenScope
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import LedgerError, TokenNeeded
from contextinfinity.text.plurals import counted

PREFIX = "cix_"
"""What a token begins with, so that people and scanners for secrets know one when they see it."""
HEALTH_SECONDS = 2.0
MOST_KNOWN = 10_000
"""How many tokens are remembered for a time when the ledger is away."""
MANY_FAILED = 1
"""From so many given-up jobs on an engine is degraded: their work is missing until a reindex."""


class LocalTokens:
    """``TokenClient`` of an engine's ledger."""

    def __init__(self, engine: Engine) -> None:
        self._tokens = engine.store.tokens
        self._were_any: bool | None = None
        self._known: dict[str, Token] = {}

    async def create(
        self, owner: Owner, *, scope: TokenScope = "user", expires_at: datetime | None = None
    ) -> MadeToken:
        """Create a token and return its text once; only its hash is stored. ``expires_at`` None: it does not expire."""
        text = PREFIX + secrets.token_urlsafe(32)
        new = NewToken(sha256=_hash(text), owner=owner, scope=scope, expires_at=expires_at)
        token = await self._tokens.create(new)
        return MadeToken(
            id=token.id, user=owner.user_id, org=owner.org_id, scope=scope, token=text, expires_at=token.expires_at
        )

    async def list(self) -> tuple[Token, ...]:
        """Return all tokens, including revoked and expired ones, oldest first."""
        return await self._tokens.list()

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke a token, effective at once in every process. Raises ``NotFound`` if it is unknown."""
        return await self._tokens.revoke(token_id)

    async def check(self, text: str) -> Token:
        """Return the valid token with that text. Raises ``TokenNeeded`` if it is missing, unknown or expired."""
        token = await self._find(text) if text else None
        state = None if token is None else token.state(now())
        if token is not None and state == "valid":
            return token
        if await self.closed():
            raise TokenNeeded(
                "This server needs a token, and all its tokens are revoked or expired: it refuses every request.",
                hint="Create one on the server's machine with `cix token create`; for `cix --server` set CIX_TOKEN.",
            )
        if token is None:
            what = "the request has none" if not text else "the one in the request is unknown"
            raise TokenNeeded(f"This server needs a token, and {what}.")
        over = token.revoked_at if state == "revoked" else token.expires_at
        when = "" if over is None else f" on {over:%Y-%m-%d} at {over:%H:%M} UTC"
        did = "was revoked" if state == "revoked" else "expired"
        raise TokenNeeded(f"Token {token.id} of {token.owner.user_id} {did}{when}.")

    async def closed(self) -> bool:
        """Return whether tokens exist and none is valid: then a server rejects every request."""
        try:
            tokens = await self._tokens.list(limit=MOST_KNOWN)
        except LedgerError:
            return False
        moment = now()
        return bool(tokens) and all(token.state(moment) != "valid" for token in tokens)

    async def _find(self, text: str) -> Token | None:
        """Return a token; while the ledger is unavailable, as it was read last."""
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
        """Return whether any token exists; once true, it stays true."""
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
    """Return whether the ledger answers, what is pending for it, and which jobs failed permanently."""
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
        reason = f"{counted(backlog.failed, 'job')} failed permanently; `cix reindex` repeats their work."
        return Health(status="degraded", reasons=(reason,), backlog=backlog)
    return Health(status="ready", reasons=(), backlog=backlog)
