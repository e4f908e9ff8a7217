"""Routes: what is remembered of a user across conversations. Whatever is another's is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.results import ShownMemory
from contextinfinity.server.auth import ActingUser, ActingWith, Asking, ForUser, acting, acting_with
from contextinfinity.server.request_bodies import MemoryChange, NewMemoryBody
from contextinfinity.server.response_bodies import WITH_BODY, Findings, Forgotten, MemoryPage, answer, gives, takes
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
    """Keep a fact."""
    return answer(await act.client.memories.add(act.body.content, tags=act.body.tags))


@routes.get("/memories/export", responses=gives(MemoryPage))
async def export(act: ActingUser) -> Response:
    """Read everything that is remembered, with what was true once."""
    return answer(MemoryPage(memories=await act.client.memories.export()))


@routes.get("/memories/audit", responses=gives(Findings))
async def audit(act: ActingUser) -> Response:
    """Find memories that their turn does not say, that say the same, or that are over."""
    return answer(Findings(findings=await act.client.memories.audit()))


@routes.patch("/memories/{memory_id}", responses=gives(ShownMemory, *WITH_BODY, 404), openapi_extra=takes(MemoryChange))
async def edit(
    memory_id: MemoryName, act: Annotated[ActingWith[MemoryChange], Depends(acting_with(MemoryChange))]
) -> Response:
    """Put other words in a memory's place; the old ones are gone for good."""
    return answer(await act.client.memories.edit(memory_id, act.body.content))


@routes.delete("/memories/{memory_id}", responses=gives(Forgotten, 404))
async def forget(act: ActingUser, memory_id: MemoryName) -> Response:
    """Remove a memory for good: no turn that was said before brings it back."""
    await act.client.memories.forget(memory_id)
    return answer(Forgotten(forgotten=memory_id))


def _user_in(tags: Sequence[str]) -> str | None:
    """Return the user that a tag names; ``user_id`` goes before it."""
    return next((tag.removeprefix(USER) for tag in tags if tag.startswith(USER)), None)
