"""Conversations, pins, folds, search and memories at a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, Unpack, get_args
from uuid import uuid4

import msgspec

from contextinfinity.client.contract import LOCAL, TurnTarget
from contextinfinity.client.cursors import cursor_of
from contextinfinity.client.references import LAST, fits, only_match
from contextinfinity.client.remote.conversation_client import ANY
from contextinfinity.client.remote.server_connection import WAITS, ServerConnection, Unreachable, path
from contextinfinity.client.results import (
    BranchList,
    Committed,
    Findings,
    Forgotten,
    MadeThread,
    MemoryPage,
    Pins,
    ShownBranch,
    ShownFold,
    ShownMemory,
    ShownThread,
    ThreadPage,
)
from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.ids import BranchId, MemoryId, Position, TurnId, is_id
from contextinfinity.domain.search import Hits, IndexReport, ProgressCallback
from contextinfinity.domain.session import CleanupResult, Deleted, NewSession, Owner
from contextinfinity.errors import LedgerBusy, NotFound, Refused
from contextinfinity.memory.memory_findings import MemoryFinding

T = TypeVar("T")

PAGE = 500
ELSEWHERE = "Run it on the server's machine, without --server."
FOLDS: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(CompactionEvent)}


class RemoteThreads:
    """``Threads`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def create(self, new: NewSession, *, key: str | None = None) -> ShownThread:
        """Create an empty conversation; a repeated request with the same idempotency ``key`` returns it."""
        if new.id is not None or new.kind != "thread":
            raise Refused("A server assigns ids itself and creates threads only.", hint="Use an external_id.")
        names = ("title", "external_id", "system", "ttl_hours")
        body = {name: value for name in names if (value := getattr(new, name)) is not None}
        made = await self._line.send("POST", "/threads", MadeThread, body, owner=new.owner, key=key or uuid4().hex)
        return await self.get(made.thread_id, new.owner)

    async def list(
        self, owner: Owner = LOCAL, *, limit: int = 50, after: Position | None = None
    ) -> tuple[ShownThread, ...]:
        """Return an owner's conversations, most recently used first."""
        found: list[ShownThread] = []
        cursor = None if after is None else cursor_of(after)
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._line.get("/threads", ThreadPage, owner=owner, limit=wanted, after=cursor)
            found.extend(page.threads)
            cursor = page.next
            if cursor is None:
                break
        return tuple(found)

    async def get(self, thread_id: str, owner: Owner = LOCAL) -> ShownThread:
        """Return one conversation. An external id is looked up within the owner only."""
        return await self._line.get(path("threads", thread_id), ShownThread, owner=owner)

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownThread:
        """Return a conversation by its id, ``last``, or the first or last 6 or more characters of its id."""
        if reference == LAST:
            newest = await self.list(owner, limit=1)
            if not newest:
                raise NotFound("There are no conversations yet.", hint='Begin one with `cix ask "…"` or `cix chat`.')
            return newest[0]
        try:
            return await self.get(reference, owner)
        except NotFound:
            if is_id(reference):
                raise
        fitting = [one.thread_id async for one in self._all(owner) if fits(one.thread_id, reference)]
        found = only_match("conversation", reference, fitting, hint="`cix sessions` lists the conversations.")
        return await self.get(found, owner)

    async def rename(self, thread_id: str, title: str | None) -> ShownThread:
        """Change the title."""
        return await self._line.send("PATCH", path("threads", thread_id), ShownThread, {"title": title})

    async def retain(self, thread_id: str, hours: float | None) -> ShownThread:
        """Set how long its turns are kept."""
        return await self._line.send("PATCH", path("threads", thread_id), ShownThread, {"ttl_hours": hours})

    async def delete(self, thread_id: str, *, scan: bool = False) -> Deleted:
        """Delete it with everything derived from it."""
        return await self._line.remove(path("threads", thread_id), Deleted, scan=scan)

    async def delete_turn(self, thread_id: str, turn_id: TurnId, *, scan: bool = False) -> Deleted:
        """Delete one turn."""
        return await self._line.remove(path("threads", thread_id, "turns", turn_id), Deleted, scan=scan)

    async def delete_all(self, owner: Owner | None = LOCAL, *, scan: bool = False) -> Deleted:
        """Delete all conversations and memories of a user."""
        if owner is None:
            raise Refused("The data of all users can be deleted only on the server's machine.", hint=ELSEWHERE)
        return await self._line.remove(path("threads"), Deleted, owner=owner, confirm=owner.user_id, scan=scan)

    async def clean_up(self) -> CleanupResult:
        """Refuse: a server cleans up by itself."""
        raise Refused("A server cleans up by itself, every few hours.", hint=ELSEWHERE)

    async def branches(self, thread_id: str) -> tuple[ShownBranch, ...]:
        """Return the branches, oldest first."""
        return (await self._line.get(path("threads", thread_id, "branches"), BranchList)).branches

    async def find_branch(self, thread_id: str, reference: str) -> ShownBranch:
        """Return a branch by its id, its label, or the first or last 6 or more characters of its id."""
        branches = {branch.branch_id: branch for branch in await self.branches(thread_id)}
        labelled = [branch.branch_id for branch in branches.values() if branch.label == reference]
        fitting = labelled or [name for name in branches if name == reference or fits(name, reference)]
        return branches[only_match("branch", reference, fitting, hint="`cix branches` lists the branches.")]

    async def switch(self, thread_id: str, branch_id: BranchId) -> ShownBranch:
        """Make a branch the active one."""
        return await self._change(thread_id, "branches", ShownBranch, active=branch_id)

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Create a branch after a turn, or from a state; by default at the end. The active branch does not change."""
        return await self._change(thread_id, "fork", ShownBranch, at=at, state=state, branch_id=branch_id)

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Go back to a turn or a state on a new branch and make it active; the old branch is kept."""
        return await self._change(thread_id, "rollback", ShownBranch, to=to, state=state, branch_id=branch_id)

    async def commit(self, thread_id: str, *, branch_id: BranchId | None = None, seconds: float = 10.0) -> Committed:
        """Commit pending answers now; wait up to ``seconds`` and return how many are still pending."""
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
        """Return the pinned facts."""
        return await self._line.get(path("threads", thread_id, "pins"), Pins, branch_id=branch_id)

    async def add(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> Pins:
        """Pin a fact and return all; an existing one is not added again. Raises ``InvalidInput`` for a blank fact."""
        body = {"fact": fact, "branch_id": branch_id}
        return await self._line.send("POST", path("threads", thread_id, "pins"), Pins, body)

    async def remove(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> Pins:
        """Remove the fact with that number (from 1) and return the rest. Raises ``NotFound`` if there is none."""
        if number < 1:
            raise NotFound(f"There is no pinned fact {number}.")
        return await self._line.remove(path("threads", thread_id, "pins"), Pins, n=number, branch_id=branch_id)


class RemoteFolds:
    """``Folds`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def fold(self, thread_id: str, *, preview: bool = False, branch_id: BranchId | None = None) -> ShownFold:
        """Fold old turns now; with ``preview``, only return the fold and keep it for the next ``fold``."""
        body = {"preview": preview, "branch_id": branch_id}
        return await self._line.send("POST", path("threads", thread_id, "fold"), ShownFold, body)

    async def undo(self, thread_id: str, *, branch_id: BranchId | None = None) -> ShownFold:
        """Restore the summary from before the last fold. Raises ``Refused`` if there is no fold."""
        return await self._line.send("POST", path("threads", thread_id, "unfold"), ShownFold, {"branch_id": branch_id})

    async def follow(self) -> AsyncIterator[CompactionEvent]:
        """Yield compaction events of the worker that answers; reconnects when the server was away."""
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
    """``HistoryClient`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Search messages; with a budget, return what fits into it. Raises ``InvalidInput`` for a blank query."""
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
        """Return the chunks of a turn in the order of the text, without scores; none before it is indexed."""
        return await self._line.get(path("threads", ANY, "turns", turn_id, "chunks"), Hits)

    async def complete_index(self, *, rebuild: bool = False, progress: ProgressCallback | None = None) -> IndexReport:
        """Refuse: that is work on the ledger itself."""
        raise Refused("The index can be updated only on the server's machine.", hint=ELSEWHERE)


HINT = "`cix memories list` lists the memories."


class RemoteMemories:
    """``MemoryClient`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

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
        found: list[ShownMemory] = []
        cursor = None if after is None else cursor_of(after)
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._line.get("/memories", MemoryPage, owner=owner, tag=tag, q=q, limit=wanted, after=cursor)
            found.extend(page.memories)
            cursor = page.next
            if cursor is None:
                break
        return tuple(found)

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownMemory:
        """Return a memory by its id, or by its first or last 6 or more characters."""
        found = {memory.id: memory for memory in await self.export(owner)}
        fitting = [reference] if reference in found else [name for name in found if fits(name, reference)]
        return found[only_match("memory", reference, fitting, hint=HINT)]

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads."""
        body = {"content": content, "tags": tags}
        return await self._line.send("POST", "/memories", ShownMemory, body, owner=owner)

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Replace the text of a memory; the old text is deleted permanently."""
        place, body = path("memories", memory_id), {"content": content}
        return await self._line.send("PATCH", place, ShownMemory, body, owner=owner)

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Delete a memory permanently; earlier turns cannot restore it."""
        await self._line.remove(path("memories", memory_id), Forgotten, owner=owner)

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Return all memories, including superseded ones."""
        page = await self._line.get("/memories/export", MemoryPage, owner=owner)
        return page.memories

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Find memories that their turn does not support, duplicates, and expired ones."""
        return (await self._line.get("/memories/audit", Findings, owner=owner)).findings
