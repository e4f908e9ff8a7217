"""What a local client is made of besides conversations: tokens, memories, images, and its health.

``ClientResource`` is the base of all resources of a local client: an engine, and the owner whose objects they find.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256

from contextinfinity.client.contract import LOCAL
from contextinfinity.client.references import fits, only_match
from contextinfinity.client.results import Health, MadeToken, ShownMemory, shown_memory
from contextinfinity.domain.ids import BranchId, MemoryId, Position, TurnId, is_id, now
from contextinfinity.domain.job import Backlog
from contextinfinity.domain.message import blobs_of
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.token import NewToken, Token, TokenId, TokenScope
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.memory_editing import HINT, thread_of_tags
from contextinfinity.engine.turn_cache import read_back
from contextinfinity.errors import LedgerError, NotFound, TokenNeeded
from contextinfinity.memory.memory_findings import MemoryFinding
from contextinfinity.prompt.measure import Measure
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


async def history_status(engine: Engine, session: Session) -> dict[str, int | float | bool | str]:
    """Return the tokens and messages that are shown verbatim, and the trigger of compaction."""
    from contextinfinity.workspace.history import messages_of

    store, model = engine.store, engine.models.named(None)
    branch_id = session.active_branch
    head, branch = await store.states.head(branch_id), await store.branches.get(branch_id)
    end = head.turn_seq if branch is None else branch.last_turn_seq
    turns = await read_back(store.turns, branch_id, after=head.covers_turn_seq, before=end + 1)
    messages = [message for turn in turns for message in messages_of(turn)]
    tokens, trigger = Measure(model.counter).messages(messages), engine.budget_of(model).fold_trigger
    return {
        "session_id": session.id,
        "message_count": len(messages),
        "history_tokens": tokens,
        "trigger": trigger,
        "percent": round(100 * tokens / max(1, trigger), 1),
        "enabled": engine.setup.folds,
    }


class ClientResource:
    """Look-ups for one owner (``acting``), or for all: None.

    A resource that acts for an owner finds and creates only that owner's objects, whatever owner a method is given.
    """

    def __init__(self, engine: Engine, acting: Owner | None) -> None:
        self._engine = engine
        self._store = engine.store
        self._acting = acting

    def _acting_owner(self, owner: Owner) -> Owner:
        """Return the owner that a method works for."""
        return self._acting or owner

    async def _session(self, thread_id: str, owner: Owner = LOCAL) -> Session:
        """Find a thread. Without an acting owner our ids find any thread, and a name is one of ``owner``'s."""
        if self._acting is None and is_id(thread_id):
            with suppress(NotFound):
                return await self._engine.session(thread_id)
        return await self._engine.session(thread_id, self._acting_owner(owner))

    async def _place(self, thread_id: str, branch_id: BranchId | None) -> tuple[Session, BranchId]:
        """Find a thread and one of its branches; None: the active one."""
        session = await self._session(thread_id)
        return session, await self._engine.branch_of(session, branch_id)

    async def _turn(self, turn_id: TurnId) -> Turn:
        """Read a turn."""
        return await self._engine.turn(turn_id, self._acting)

    async def _check_turns(self, *turn_ids: TurnId | None) -> None:
        """Raise ``NotFound`` for turns of others; without an acting owner nothing is read."""
        for turn_id in turn_ids if self._acting is not None else ():
            if turn_id is not None:
                await self._turn(turn_id)


class LocalMemories(ClientResource):
    """``MemoryClient`` of an engine."""

    async def list(
        self,
        owner: Owner = LOCAL,
        *,
        tag: str | None = None,
        q: str | None = None,
        limit: int = 50,
        after: Position | None = None,
    ) -> tuple[ShownMemory, ...]:
        """Read an owner's memories, the newest first; ``tag`` (``thread:ID``): of that thread alone."""
        owner, memories = self._acting_owner(owner), self._engine.memories
        thread = None if tag is None else thread_of_tags(owner, [tag])
        if thread:
            await self._session(thread, owner)
        if q is not None and q.strip():
            found = await memories.find(owner, q, thread=thread, limit=limit)
        else:
            found = await memories.list(owner, thread=thread, limit=limit, after=after)
        return tuple(map(shown_memory, found))

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownMemory:
        """Return a memory by its id, or by its first or last 6 or more characters."""
        found = {memory.id: memory for memory in await self._engine.memories.everything(self._acting_owner(owner))}
        if is_id(reference) and reference not in found:
            raise NotFound(f"There is no memory {reference}.", hint=HINT)
        fitting = [name for name in found if name == reference or fits(name, reference)]
        return shown_memory(found[only_match("memory", reference, fitting, hint=HINT)])

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads."""
        owner = self._acting_owner(owner)
        return shown_memory(await self._engine.memories.add(owner, content, thread=thread_of_tags(owner, tags)))

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Replace the text of a memory; the old text is deleted permanently."""
        return shown_memory(await self._engine.memories.edit(self._acting_owner(owner), memory_id, content))

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Delete a memory permanently; earlier turns cannot restore it."""
        await self._engine.memories.forget(self._acting_owner(owner), memory_id)

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Return all memories, including superseded ones."""
        return tuple(map(shown_memory, await self._engine.memories.everything(self._acting_owner(owner))))

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Find memories that their turn does not support, duplicates, and expired ones."""
        return await self._engine.memories.audit(self._acting_owner(owner))


class ImageClient(ClientResource):
    """Reads the images of turns that the acting owner may see."""

    async def get(self, turn_id: TurnId, number: int) -> tuple[bytes, str]:
        """Return the bytes and the media type of image ``number`` (from 1) of a turn; ``NotFound`` without one."""
        names = blobs_of((await self._turn(turn_id)).user_message.blocks)
        found = await self._store.contents.blob(names[number - 1]) if 0 < number <= len(names) else None
        if found is None:
            raise NotFound(f"Turn {turn_id} has no image {number}.", hint=f"It has {len(names)}.")
        return found
