"""Routes: threads as wholes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.values import ShownThread
from contextinfinity.domain.deletion import Deleted
from contextinfinity.domain.session import NewSession
from contextinfinity.server.answers import WITH_BODY, MadeThread, ThreadPage, answer, gives, takes
from contextinfinity.server.bodies import NewThread, ThreadChange, body_of
from contextinfinity.server.callers import Asking, ForUser, Found, check_thread_name
from contextinfinity.server.door import door_of

routes = APIRouter(tags=["threads"], default_response_class=Response)

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The caller's own name of the request: sent again under it, it is done once.",
        min_length=1,
        max_length=255,
    ),
]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]


@routes.post("/threads", responses=gives(MadeThread, *WITH_BODY, 409), openapi_extra=takes(NewThread))
async def make_thread(
    request: Request, caller: Asking, body: Annotated[NewThread, Depends(body_of(NewThread))], key: Key = None
) -> Response:
    """Make an empty thread."""
    owner = caller.owner(body.user_id)
    if body.external_id is not None:
        check_thread_name(body.external_id)
    new = NewSession(
        owner=owner, external_id=body.external_id, title=body.title, system=body.system, ttl_hours=body.ttl_hours
    )
    made = await door_of(request).client.threads.create(new, key=key)
    return answer(MadeThread(thread_id=made.thread_id, branch_id=made.branch_id))


@routes.get("/threads", responses=gives(ThreadPage))
async def list_threads(
    request: Request,
    caller: Asking,
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The ``next`` of the page before.")] = None,
    user_id: ForUser = None,
) -> Response:
    """List the caller's threads, the one spoken in last first."""
    owner, place = caller.owner(user_id), None if after is None else position_of(after)
    listed = await door_of(request).client.threads.list(owner, limit=limit + 1, after=place)
    page, more = listed[:limit], len(listed) > limit
    return answer(ThreadPage(threads=page, next=cursor_of(page[-1].position) if more else None))


@routes.get("/threads/{thread_id}", responses=gives(ShownThread, 404))
async def get_thread(thread: Found) -> Response:
    """Read one thread."""
    return answer(thread)


@routes.patch("/threads/{thread_id}", responses=gives(ShownThread, *WITH_BODY, 404), openapi_extra=takes(ThreadChange))
async def change_thread(
    request: Request, thread: Found, body: Annotated[ThreadChange, Depends(body_of(ThreadChange))]
) -> Response:
    """Give a thread another title."""
    return answer(await door_of(request).client.threads.rename(thread.thread_id, body.title))


@routes.delete("/threads/{thread_id}", responses=gives(Deleted, 404, 409))
async def delete_thread(request: Request, thread: Found) -> Response:
    """Delete a thread with everything that was made from it; nothing of it comes back."""
    return answer(await door_of(request).client.threads.delete(thread.thread_id))
