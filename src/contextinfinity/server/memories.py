"""Routes: what is remembered of a user across conversations. Whatever is another's is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.values import ShownMemory
from contextinfinity.domain.session import Owner
from contextinfinity.server.answers import WITH_BODY, Findings, Forgotten, MemoryPage, answer, gives, takes
from contextinfinity.server.bodies import MemoryChange, NewMemory, body_of
from contextinfinity.server.callers import Asking, Caller, ForUser
from contextinfinity.server.door import door_of
from contextinfinity.server.threads import Limit

routes = APIRouter(tags=["memories"], default_response_class=Response)

USER = "user:"
MemoryName = Annotated[str, Path(description="The id of a memory.")]


@routes.get("/memories", responses=gives(MemoryPage, 404))
async def list_memories(
    request: Request,
    caller: Asking,
    user_id: ForUser = None,
    tag: Annotated[
        str | None,
        Query(
            max_length=200, description="`thread:ID`: of that thread alone; ID is ours, or the one its owner gave it."
        ),
    ] = None,
    q: Annotated[str | None, Query(max_length=10_000, description="Those that matter for a question, best first.")] = (
        None
    ),
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The ``next`` of the page before.")] = None,
) -> Response:
    """Read what is remembered and holds, the newest first."""
    owner = _owner(caller, user_id, () if tag is None else (tag,))
    place = None if after is None else position_of(after)
    found = await door_of(request).client.memories.list(owner, tag=tag, q=q, limit=limit + 1, after=place)
    page, more = found[:limit], len(found) > limit and not (q and q.strip())
    return answer(MemoryPage(memories=page, next=cursor_of(page[-1].position) if more else None))


@routes.post("/memories", responses=gives(ShownMemory, *WITH_BODY, 404), openapi_extra=takes(NewMemory))
async def remember(
    request: Request, caller: Asking, body: Annotated[NewMemory, Depends(body_of(NewMemory))]
) -> Response:
    """Keep a fact."""
    owner = _owner(caller, body.user_id, body.tags)
    return answer(await door_of(request).client.memories.add(body.content, tags=body.tags, owner=owner))


@routes.get("/memories/export", responses=gives(MemoryPage))
async def export(request: Request, caller: Asking, user_id: ForUser = None) -> Response:
    """Read everything that is remembered, with what was true once."""
    return answer(MemoryPage(memories=await door_of(request).client.memories.export(caller.owner(user_id))))


@routes.get("/memories/audit", responses=gives(Findings))
async def audit(request: Request, caller: Asking, user_id: ForUser = None) -> Response:
    """Find memories that their turn does not say, that say the same, or that are over."""
    return answer(Findings(findings=await door_of(request).client.memories.audit(caller.owner(user_id))))


@routes.patch("/memories/{memory_id}", responses=gives(ShownMemory, *WITH_BODY, 404), openapi_extra=takes(MemoryChange))
async def edit(
    request: Request,
    caller: Asking,
    memory_id: MemoryName,
    body: Annotated[MemoryChange, Depends(body_of(MemoryChange))],
    user_id: ForUser = None,
) -> Response:
    """Put other words in a memory's place; the old ones are gone for good."""
    memories = door_of(request).client.memories
    return answer(await memories.edit(memory_id, body.content, owner=caller.owner(user_id)))


@routes.delete("/memories/{memory_id}", responses=gives(Forgotten, 404))
async def forget(request: Request, caller: Asking, memory_id: MemoryName, user_id: ForUser = None) -> Response:
    """Remove a memory for good: no turn that was said before brings it back."""
    await door_of(request).client.memories.forget(memory_id, owner=caller.owner(user_id))
    return answer(Forgotten(forgotten=memory_id))


def _owner(caller: Caller, user_id: str | None, tags: Sequence[str]) -> Owner:
    """Tell whose memories are meant: ``user_id`` says so, or else a tag."""
    named = (tag.removeprefix(USER) for tag in tags if tag.startswith(USER))
    return caller.owner(next(named, None) if user_id is None else user_id)
