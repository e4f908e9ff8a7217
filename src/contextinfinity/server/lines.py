"""Routes: the branches of a thread, and what stands in each of its prompts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from contextinfinity.client.values import Committed, Pins, ShownBranch, ShownFold
from contextinfinity.server.answers import WITH_BODY, answer, gives, takes
from contextinfinity.server.answers import Branches as BranchList
from contextinfinity.server.bodies import ActiveBranch, BranchWish, FoldWish, ForkPlace, NewPin, RollbackPlace, body_of
from contextinfinity.server.callers import Found
from contextinfinity.server.door import door_of
from contextinfinity.server.talking import BranchWanted

routes = APIRouter(tags=["branches, pins and folds"], default_response_class=Response)

CHANGING = (*WITH_BODY, 404, 409)
COMMIT_SECONDS = 10.0
Wish = Annotated[BranchWish, Depends(body_of(BranchWish, may_be_empty=True))]


@routes.get("/threads/{thread_id}/branches", responses=gives(BranchList, 404))
async def list_branches(request: Request, thread: Found) -> Response:
    """List the branches, the oldest first."""
    branches = await door_of(request).client.threads.branches(thread.thread_id)
    return answer(BranchList(thread_id=thread.thread_id, branches=branches))


@routes.post(
    "/threads/{thread_id}/branches", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(ActiveBranch)
)
async def switch(
    request: Request, thread: Found, body: Annotated[ActiveBranch, Depends(body_of(ActiveBranch))]
) -> Response:
    """Make a branch the active one."""
    return answer(await door_of(request).client.threads.switch(thread.thread_id, body.active))


@routes.post(
    "/threads/{thread_id}/fork",
    responses=gives(ShownBranch, *CHANGING),
    openapi_extra=takes(ForkPlace, required=False),
)
async def fork(
    request: Request, thread: Found, body: Annotated[ForkPlace, Depends(body_of(ForkPlace, may_be_empty=True))]
) -> Response:
    """Start a new branch; the active one stays as it is. Pins go along, except with `state`: it restores its own."""
    threads = door_of(request).client.threads
    return answer(await threads.fork(thread.thread_id, at=body.at, state=body.state, branch_id=body.branch_id))


@routes.post(
    "/threads/{thread_id}/rollback", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(RollbackPlace)
)
async def roll_back(
    request: Request, thread: Found, body: Annotated[RollbackPlace, Depends(body_of(RollbackPlace))]
) -> Response:
    """Go back on a new branch and make it active; the old one stays. Pins go along, except with `state`."""
    threads = door_of(request).client.threads
    return answer(await threads.rollback(thread.thread_id, to=body.to, state=body.state, branch_id=body.branch_id))


@routes.get("/threads/{thread_id}/pins", responses=gives(Pins, 404))
async def list_pins(request: Request, thread: Found, branch_id: BranchWanted = None) -> Response:
    """List the facts that every prompt holds."""
    return answer(await door_of(request).client.pins.list(thread.thread_id, branch_id=branch_id))


@routes.post("/threads/{thread_id}/pins", responses=gives(Pins, *CHANGING), openapi_extra=takes(NewPin))
async def pin(request: Request, thread: Found, body: Annotated[NewPin, Depends(body_of(NewPin))]) -> Response:
    """Pin a fact; one that is there stays once."""
    return answer(await door_of(request).client.pins.add(thread.thread_id, body.fact, branch_id=body.branch_id))


@routes.delete("/threads/{thread_id}/pins", responses=gives(Pins, 404, 409))
async def unpin(
    request: Request,
    thread: Found,
    n: Annotated[int, Query(ge=1, le=1_000_000, description="The number of the fact, from 1.")],
    branch_id: BranchWanted = None,
) -> Response:
    """Let go of the fact of that number."""
    return answer(await door_of(request).client.pins.remove(thread.thread_id, n, branch_id=branch_id))


@routes.post(
    "/threads/{thread_id}/fold", responses=gives(ShownFold, *CHANGING), openapi_extra=takes(FoldWish, required=False)
)
async def fold(
    request: Request, thread: Found, body: Annotated[FoldWish, Depends(body_of(FoldWish, may_be_empty=True))]
) -> Response:
    """Fold old turns into the summary, or show what that would do."""
    folds = door_of(request).client.folds
    return answer(await folds.fold(thread.thread_id, preview=body.preview, branch_id=body.branch_id))


@routes.post(
    "/threads/{thread_id}/unfold",
    responses=gives(ShownFold, *CHANGING),
    openapi_extra=takes(BranchWish, required=False),
)
async def unfold(request: Request, thread: Found, body: Wish) -> Response:
    """Go back to the summary before the last fold."""
    return answer(await door_of(request).client.folds.undo(thread.thread_id, branch_id=body.branch_id))


@routes.post(
    "/threads/{thread_id}/commit",
    responses=gives(Committed, *CHANGING),
    openapi_extra=takes(BranchWish, required=False),
)
async def commit(request: Request, thread: Found, body: Wish) -> Response:
    """Have the answers that wait committed now."""
    threads = door_of(request).client.threads
    committed = await threads.commit(thread.thread_id, branch_id=body.branch_id, seconds=COMMIT_SECONDS)
    return answer(committed)
