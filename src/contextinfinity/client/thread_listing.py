"""Listing conversations: needs a store and no engine, so that a command that only looks starts quickly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from contextinfinity.client.results import ShownThread, shown_thread
from contextinfinity.errors import NotFound

if TYPE_CHECKING:
    from contextinfinity.domain.ids import BranchId, Position
    from contextinfinity.domain.session import Branch, Owner, Session
    from contextinfinity.storage.contract import Store


async def list_threads(
    store: Store, owner: Owner, limit: int, after: Position | None = None
) -> tuple[ShownThread, ...]:
    """Read an owner's threads, the one spoken in last first."""
    found = list[ShownThread]()
    while (wanted := limit - len(found)) > 0:
        sessions = await store.sessions.list(owner, limit=wanted, after=after)
        shown = await asyncio.gather(*(_still_there(store, session) for session in sessions))
        found += [each for each in shown if each is not None]
        if len(sessions) < wanted:
            break
        after = sessions[-1].position
    return tuple(found)


async def show_thread(store: Store, session: Session) -> ShownThread:
    """Show a thread with its first and its newest turn."""
    branch, turns = session.active_branch, store.turns
    newest = await turns.history(branch, limit=1)
    first = await turns.history(branch, limit=1, before=2) if newest and newest[0].turn_seq > 1 else newest
    return shown_thread(session, await read_branch(store, branch), first, newest)


async def read_branch(store: Store, branch_id: BranchId) -> Branch:
    """Read a branch; ``NotFound`` if there is none."""
    branch = await store.branches.get(branch_id)
    if branch is None:
        raise NotFound(f"There is no branch {branch_id}.")
    return branch


async def _still_there(store: Store, session: Session) -> ShownThread | None:
    """Show one of a list; None if it was deleted since."""
    try:
        return await show_thread(store, session)
    except NotFound:
        return None
