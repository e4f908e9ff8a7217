"""Threads, pins, folds and the past at a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, TypeVar, Unpack, get_args
from uuid import uuid4

import msgspec
from msgspec import Struct

from contextinfinity.client.contract import LOCAL, TurnTarget
from contextinfinity.client.cursors import cursor_of
from contextinfinity.client.references import LAST, fits, the_one
from contextinfinity.client.remote.conversation_client import ANY
from contextinfinity.client.remote.server_connection import WAITS, ServerConnection, Unreachable, path
from contextinfinity.client.results import Committed, Pins, ShownBranch, ShownFold, ShownThread
from contextinfinity.domain.deletion import CleanupResult, Deleted
from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.ids import BranchId, Position, SessionId, TurnId, is_id
from contextinfinity.domain.search import Hits, HowFar, RetrievedMessage
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import LedgerBusy, NotFound, Refused

T = TypeVar("T")

PAGE = 500
ELSEWHERE = "Run it on the server's machine, without --server."
FOLDS: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(CompactionEvent)}


class _Made(Struct, frozen=True, kw_only=True):
    thread_id: SessionId


class _ThreadPage(Struct, frozen=True, kw_only=True):
    threads: tuple[ShownThread, ...]
    next: str | None


class _Branches(Struct, frozen=True, kw_only=True):
    branches: tuple[ShownBranch, ...]


class RemoteThreads:
    """``Threads`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def create(self, new: NewSession, *, key: str | None = None) -> ShownThread:
        """Make an empty one."""
        if new.id is not None or new.kind != "thread":
            raise Refused("A server gives ids itself, and makes threads only.", hint="Name it by an external_id.")
        names = ("title", "external_id", "system", "ttl_hours")
        body = {name: value for name in names if (value := getattr(new, name)) is not None}
        made = await self._line.send("POST", "/threads", _Made, body, owner=new.owner, key=key or uuid4().hex)
        return await self.get(made.thread_id, new.owner)

    async def list(
        self, owner: Owner = LOCAL, *, limit: int = 50, after: Position | None = None
    ) -> tuple[ShownThread, ...]:
        """Read an owner's threads, the one spoken in last first."""
        found: list[ShownThread] = []
        cursor = None if after is None else cursor_of(after)
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._line.get("/threads", _ThreadPage, owner=owner, limit=wanted, after=cursor)
            found.extend(page.threads)
            cursor = page.next
            if cursor is None:
                break
        return tuple(found)

    async def get(self, thread_id: str, owner: Owner = LOCAL) -> ShownThread:
        """Read one."""
        return await self._line.get(path("threads", thread_id), ShownThread, owner=owner)

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownThread:
        """Read the one a person means."""
        if reference == LAST:
            newest = await self.list(owner, limit=1)
            if not newest:
                raise NotFound("There is no thread yet.", hint='Begin one with `cix ask "…"` or `cix chat`.')
            return newest[0]
        try:
            return await self.get(reference, owner)
        except NotFound:
            if is_id(reference):
                raise
        fitting = [one.thread_id async for one in self._all(owner) if fits(one.thread_id, reference)]
        found = the_one("thread", reference, fitting, hint="`cix sessions` lists those there are.")
        return await self.get(found, owner)

    async def rename(self, thread_id: str, title: str | None) -> ShownThread:
        """Give it another title."""
        return await self._line.send("PATCH", path("threads", thread_id), ShownThread, {"title": title})

    async def delete(self, thread_id: str) -> Deleted:
        """Delete it with everything that was made from it."""
        return await self._line.remove(path("threads", thread_id), Deleted)

    async def clean_up(self) -> CleanupResult:
        """Refuse: a server cleans up by itself."""
        raise Refused("A server cleans up by itself, every few hours.", hint=ELSEWHERE)

    async def branches(self, thread_id: str) -> tuple[ShownBranch, ...]:
        """Read its branches, the oldest first."""
        return (await self._line.get(path("threads", thread_id, "branches"), _Branches)).branches

    async def find_branch(self, thread_id: str, reference: str) -> ShownBranch:
        """Read the branch a person means."""
        branches = {branch.branch_id: branch for branch in await self.branches(thread_id)}
        labelled = [branch.branch_id for branch in branches.values() if branch.label == reference]
        fitting = labelled or [name for name in branches if name == reference or fits(name, reference)]
        return branches[the_one("branch", reference, fitting, hint="`cix branches` lists those there are.")]

    async def switch(self, thread_id: str, branch_id: BranchId) -> ShownBranch:
        """Make a branch the active one."""
        return await self._change(thread_id, "branches", ShownBranch, active=branch_id)

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Start a new branch; the active one stays."""
        return await self._change(thread_id, "fork", ShownBranch, at=at, state=state, branch_id=branch_id)

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Go back on a new branch and make it the active one."""
        return await self._change(thread_id, "rollback", ShownBranch, to=to, state=state, branch_id=branch_id)

    async def commit(self, thread_id: str, *, branch_id: BranchId | None = None, seconds: float = 10.0) -> Committed:
        """Have the answers that wait committed now; a server waits for 10 seconds."""
        return await self._change(thread_id, "commit", Committed, branch_id=branch_id)

    async def _change(self, thread_id: str, what: str, kind: type[T], **body: object) -> T:
        return await self._line.send("POST", path("threads", thread_id, what), kind, body)

    async def _all(self, owner: Owner) -> AsyncIterator[ShownThread]:
        after: Position | None = None
        while page := await self.list(owner, limit=PAGE, after=after):
            for thread in page:
                yield thread
            after = page[-1].position


class RemotePins:
    """``PinnedFacts`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def list(self, thread_id: str, *, branch_id: BranchId | None = None) -> Pins:
        """Read them."""
        return await self._line.get(path("threads", thread_id, "pins"), Pins, branch_id=branch_id)

    async def add(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> Pins:
        """Pin one more and give all."""
        body = {"fact": fact, "branch_id": branch_id}
        return await self._line.send("POST", path("threads", thread_id, "pins"), Pins, body)

    async def remove(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> Pins:
        """Let go of one and give the rest."""
        if number < 1:
            raise NotFound(f"There is no pinned fact {number}.")
        return await self._line.remove(path("threads", thread_id, "pins"), Pins, n=number, branch_id=branch_id)


class RemoteFolds:
    """``Folds`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def fold(self, thread_id: str, *, preview: bool = False, branch_id: BranchId | None = None) -> ShownFold:
        """Fold now, or show what that would do."""
        body = {"preview": preview, "branch_id": branch_id}
        return await self._line.send("POST", path("threads", thread_id, "fold"), ShownFold, body)

    async def undo(self, thread_id: str, *, branch_id: BranchId | None = None) -> ShownFold:
        """Go back to the summary before the last fold."""
        return await self._line.send("POST", path("threads", thread_id, "unfold"), ShownFold, {"branch_id": branch_id})

    async def follow(self) -> AsyncIterator[CompactionEvent]:
        """Hear of folds as they go on, in the worker that answers; a server that was away is listened to again."""
        tries = 0
        while True:
            with suppress(Unreachable, LedgerBusy):
                async with self._line.blocks("GET", "/compactions") as blocks:
                    tries = 0
                    async for name, data, _ in blocks:
                        if (kind := FOLDS.get(name)) is not None:
                            yield msgspec.convert({**msgspec.json.decode(data), "type": name}, kind)
            await asyncio.sleep(WAITS[min(tries, len(WAITS) - 1)])
            tries += 1


class RemoteHistory:
    """``Past`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Find what was said."""
        if where.get("branch_id") is not None or where.get("until") is not None:
            raise Refused("A server searches all branches, up to now.", hint="Leave branch and until out.")
        owner = Owner(user_id=where.get("user_id") or LOCAL.user_id, org_id=where.get("org_id") or "")
        since = where.get("since")
        return await self._line.get(
            "/search",
            Hits,
            owner=owner,
            q=q,
            thread_id=where.get("thread_id"),
            type=list(where.get("types", ())),
            role=list(where.get("roles", ())),
            since=None if since is None else since.isoformat(),
            budget=where.get("budget"),
            limit=where.get("limit"),
        )

    async def chunks(self, turn_id: TurnId) -> Hits:
        """Read the chunks of a turn."""
        return await self._line.get(path("threads", ANY, "turns", turn_id, "chunks"), Hits)

    async def bring_in_step(self, *, anew: bool = False, progress: HowFar | None = None) -> RetrievedMessage:
        """Refuse: that is work on the ledger itself."""
        raise Refused("An index is brought in step where the ledger is.", hint=ELSEWHERE)
