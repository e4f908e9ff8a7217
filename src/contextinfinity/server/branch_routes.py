"""Routes: branches, pins and folds of a conversation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from contextinfinity.client.results import Committed, Pins, ShownBranch, ShownFold
from contextinfinity.server.auth import ActingUser, ActingWith, ThreadId, acting_with
from contextinfinity.server.message_routes import BranchWanted
from contextinfinity.server.request_bodies import ActiveBranch, BranchBody, FoldBody, ForkBody, NewPin, RollbackBody
from contextinfinity.server.response_bodies import WITH_BODY, answer, gives, takes
from contextinfinity.server.response_bodies import BranchList as BranchList

routes = APIRouter(tags=["branches, pins and folds"], default_response_class=Response)

CHANGING = (*WITH_BODY, 404, 409)
COMMIT_SECONDS = 10.0
Wish = Annotated[ActingWith[BranchBody], Depends(acting_with(BranchBody, may_be_empty=True))]


@routes.get("/threads/{thread_id}/branches", responses=gives(BranchList, 404))
async def list_branches(act: ActingUser, thread_id: ThreadId) -> Response:
    """List the branches, oldest first."""
    branches = await act.client.threads.branches(thread_id)
    return answer(BranchList(thread_id=thread_id, branches=branches))


@routes.post(
    "/threads/{thread_id}/branches", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(ActiveBranch)
)
async def switch(
    thread_id: ThreadId, act: Annotated[ActingWith[ActiveBranch], Depends(acting_with(ActiveBranch))]
) -> Response:
    """Make a branch the active one."""
    return answer(await act.client.threads.switch(thread_id, act.body.active))


@routes.post(
    "/threads/{thread_id}/fork",
    responses=gives(ShownBranch, *CHANGING),
    openapi_extra=takes(ForkBody, required=False),
)
async def fork(
    thread_id: ThreadId, act: Annotated[ActingWith[ForkBody], Depends(acting_with(ForkBody, may_be_empty=True))]
) -> Response:
    """Create a branch; the active one does not change. Pins are copied; with `state`, its pins are restored."""
    threads = act.client.threads
    return answer(await threads.fork(thread_id, at=act.body.at, state=act.body.state, branch_id=act.body.branch_id))


@routes.post(
    "/threads/{thread_id}/rollback", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(RollbackBody)
)
async def roll_back(
    thread_id: ThreadId, act: Annotated[ActingWith[RollbackBody], Depends(acting_with(RollbackBody))]
) -> Response:
    """Go back on a new branch and activate it; the old one is kept. Pins are copied, or those of `state` restored."""
    threads = act.client.threads
    return answer(await threads.rollback(thread_id, to=act.body.to, state=act.body.state, branch_id=act.body.branch_id))


@routes.get("/threads/{thread_id}/pins", responses=gives(Pins, 404))
async def list_pins(act: ActingUser, thread_id: ThreadId, branch_id: BranchWanted = None) -> Response:
    """List the pinned facts, which every prompt contains."""
    return answer(await act.client.pins.list(thread_id, branch_id=branch_id))


@routes.post("/threads/{thread_id}/pins", responses=gives(Pins, *CHANGING), openapi_extra=takes(NewPin))
async def pin(thread_id: ThreadId, act: Annotated[ActingWith[NewPin], Depends(acting_with(NewPin))]) -> Response:
    """Pin a fact; pinning an existing fact again adds nothing."""
    return answer(await act.client.pins.add(thread_id, act.body.fact, branch_id=act.body.branch_id))


@routes.delete("/threads/{thread_id}/pins", responses=gives(Pins, 404, 409))
async def unpin(
    act: ActingUser,
    thread_id: ThreadId,
    n: Annotated[int, Query(ge=1, le=1_000_000, description="The number of the pinned fact, starting at 1.")],
    branch_id: BranchWanted = None,
) -> Response:
    """Remove the pinned fact with that number."""
    return answer(await act.client.pins.remove(thread_id, n, branch_id=branch_id))


@routes.post(
    "/threads/{thread_id}/fold", responses=gives(ShownFold, *CHANGING), openapi_extra=takes(FoldBody, required=False)
)
async def fold(
    thread_id: ThreadId, act: Annotated[ActingWith[FoldBody], Depends(acting_with(FoldBody, may_be_empty=True))]
) -> Response:
    """Fold old turns into the summary, or preview that."""
    folds = act.client.folds
    return answer(await folds.fold(thread_id, preview=act.body.preview, branch_id=act.body.branch_id))


@routes.post(
    "/threads/{thread_id}/unfold",
    responses=gives(ShownFold, *CHANGING),
    openapi_extra=takes(BranchBody, required=False),
)
async def unfold(thread_id: ThreadId, act: Wish) -> Response:
    """Restore the summary from before the last fold."""
    return answer(await act.client.folds.undo(thread_id, branch_id=act.body.branch_id))


@routes.post(
    "/threads/{thread_id}/commit",
    responses=gives(Committed, *CHANGING),
    openapi_extra=takes(BranchBody, required=False),
)
async def commit(thread_id: ThreadId, act: Wish) -> Response:
    """Commit pending answers now."""
    threads = act.client.threads
    committed = await threads.commit(thread_id, branch_id=act.body.branch_id, seconds=COMMIT_SECONDS)
    return answer(committed)
