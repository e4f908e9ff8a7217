"""Routes: search, and a user's memories. Other users' memories are not found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from contextinfinity.client.contract import TurnTarget
from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.results import Findings, Forgotten, MemoryPage, ShownMemory
from contextinfinity.domain.search import ChunkSide, ChunkType, Hits
from contextinfinity.server.auth import ActingUser, ActingWith, Asking, ForUser, acting, acting_with
from contextinfinity.server.bodies import WITH_BODY, MemoryChange, NewMemoryBody, answer, gives, takes
from contextinfinity.server.thread_routes import Limit

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
        Query(max_length=200, description="`thread:ID`: memories of that thread only, by its id or external id."),
    ] = None,
    q: Annotated[
        str | None, Query(max_length=10_000, description="Only memories relevant to this question, best first.")
    ] = (None),
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The ``next`` value of the previous page.")] = None,
) -> Response:
    """List valid memories, newest first."""
    act = acting(request, caller, _user_in(() if tag is None else (tag,)) if user_id is None else user_id)
    place = None if after is None else position_of(after)
    found = await act.client.memories.list(tag=tag, q=q, limit=limit + 1, after=place)
    page, more = found[:limit], len(found) > limit and not (q and q.strip())
    return answer(MemoryPage(memories=page, next=cursor_of(page[-1].position) if more else None))


@routes.post("/memories", responses=gives(ShownMemory, *WITH_BODY, 404), openapi_extra=takes(NewMemoryBody))
async def remember(
    act: Annotated[
        ActingWith[NewMemoryBody],
        Depends(acting_with(NewMemoryBody, otherwise=lambda body: _user_in(body.tags))),
    ],
) -> Response:
    """Store a fact as a memory."""
    return answer(await act.client.memories.add(act.body.content, tags=act.body.tags))


@routes.get("/memories/export", responses=gives(MemoryPage))
async def export(act: ActingUser) -> Response:
    """Return all memories, including superseded ones."""
    return answer(MemoryPage(memories=await act.client.memories.export()))


@routes.get("/memories/audit", responses=gives(Findings))
async def audit(act: ActingUser) -> Response:
    """Find memories that their turn does not support, duplicates, and expired ones."""
    return answer(Findings(findings=await act.client.memories.audit()))


@routes.patch("/memories/{memory_id}", responses=gives(ShownMemory, *WITH_BODY, 404), openapi_extra=takes(MemoryChange))
async def edit(
    memory_id: MemoryName, act: Annotated[ActingWith[MemoryChange], Depends(acting_with(MemoryChange))]
) -> Response:
    """Replace the text of a memory; the old text is deleted permanently."""
    return answer(await act.client.memories.edit(memory_id, act.body.content))


@routes.delete("/memories/{memory_id}", responses=gives(Forgotten, 404))
async def forget(act: ActingUser, memory_id: MemoryName) -> Response:
    """Delete a memory permanently; earlier turns cannot restore it."""
    await act.client.memories.forget(memory_id)
    return answer(Forgotten(forgotten=memory_id))


def _user_in(tags: Sequence[str]) -> str | None:
    """Return the user that a tag names; ``user_id`` takes precedence."""
    return next((tag.removeprefix(USER) for tag in tags if tag.startswith(USER)), None)


search_router = APIRouter(tags=["search"], default_response_class=Response)


def limits_of(
    type: Annotated[tuple[ChunkType, ...], Query(description="Only chunks of these types.")] = (),  # noqa: A002
    role: Annotated[tuple[ChunkSide, ...], Query(description="Only chunks of these roles.")] = (),
    since: Annotated[datetime | None, Query(description="Only chunks from this time on.")] = None,
    budget: Annotated[
        int | None, Query(ge=1, le=10_000_000, description="A token budget: return the results that fit.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="The maximum number of results.")] = 10,
) -> TurnTarget:
    """Return the filters of a search; a time without a zone is in UTC."""
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return {"types": type, "roles": role, "since": since, "budget": budget, "limit": limit}


@search_router.get("/search", responses=gives(Hits, 404))
async def search(
    act: ActingUser,
    q: Annotated[str, Query(min_length=1, max_length=10_000, description="The search query.")],
    limits: Annotated[TurnTarget, Depends(limits_of)],
    thread_id: Annotated[str | None, Query(description="Only in this thread.")] = None,
) -> Response:
    """Search messages, best matches first."""
    where: TurnTarget = {**limits, "thread_id": thread_id}
    return answer(await act.client.past.search(q, **where))
