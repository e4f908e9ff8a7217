"""Routes: creating, listing, changing and deleting conversations, and their branches, pins and folds."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from msgspec import UNSET
from starlette.responses import Response

from contextinfinity.client.cursors import cursor_of, position_of
from contextinfinity.client.results import (
    BranchList,
    Committed,
    MadeThread,
    Pins,
    ShownBranch,
    ShownFold,
    ShownThread,
    ThreadPage,
)
from contextinfinity.domain.session import Deleted, NewSession
from contextinfinity.errors import InvalidInput
from contextinfinity.server.auth import ActingUser, ActingWith, ThreadId, TurnId, acting_with, check_thread_name
from contextinfinity.server.bodies import (
    WITH_BODY,
    ActiveBranch,
    BranchBody,
    FoldBody,
    ForkBody,
    NewPin,
    NewThread,
    RollbackBody,
    ThreadChange,
    answer,
    gives,
    takes,
)

routes = APIRouter(tags=["threads"], default_response_class=Response)

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="An idempotency key: a request that is sent again with the same key is processed once.",
        min_length=1,
        max_length=255,
    ),
]
Scan = Annotated[
    bool, Query(description="Also count the remaining rows of every table and list the files that were searched.")
]
BranchWanted = Annotated[str | None, Query(description="The branch to use instead of the active one.")]
Limit = Annotated[int, Query(ge=1, le=500, description="The maximum number of results.")]


@routes.post("/threads", responses=gives(MadeThread, *WITH_BODY, 409), openapi_extra=takes(NewThread))
async def make_thread(
    act: Annotated[ActingWith[NewThread], Depends(acting_with(NewThread))], key: Key = None
) -> Response:
    """Create an empty conversation."""
    body = act.body
    if body.external_id is not None:
        check_thread_name(body.external_id)
    new = NewSession(
        owner=act.owner, external_id=body.external_id, title=body.title, system=body.system, ttl_hours=body.ttl_hours
    )
    made = await act.client.threads.create(new, key=key)
    return answer(MadeThread(thread_id=made.thread_id, branch_id=made.branch_id))


@routes.get("/threads", responses=gives(ThreadPage))
async def list_threads(
    act: ActingUser,
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The ``next`` value of the previous page.")] = None,
) -> Response:
    """List the acting user's conversations, most recently used first."""
    place = None if after is None else position_of(after)
    listed = await act.client.threads.list(limit=limit + 1, after=place)
    page, more = listed[:limit], len(listed) > limit
    return answer(ThreadPage(threads=page, next=cursor_of(page[-1].position) if more else None))


@routes.get("/threads/{thread_id}", responses=gives(ShownThread, 404))
async def get_thread(act: ActingUser, thread_id: ThreadId) -> Response:
    """Return one conversation."""
    return answer(await act.client.threads.get(thread_id))


@routes.patch("/threads/{thread_id}", responses=gives(ShownThread, *WITH_BODY, 404), openapi_extra=takes(ThreadChange))
async def change_thread(
    thread_id: ThreadId, act: Annotated[ActingWith[ThreadChange], Depends(acting_with(ThreadChange))]
) -> Response:
    """Change the title of a conversation, or how long its turns are kept."""
    title, ttl_hours = act.body.title, act.body.ttl_hours
    shown = await act.client.threads.get(thread_id)
    if ttl_hours is not UNSET:
        shown = await act.client.threads.retain(thread_id, ttl_hours)
    if title is not UNSET:
        shown = await act.client.threads.rename(thread_id, title)
    return answer(shown)


@routes.delete("/threads/{thread_id}", responses=gives(Deleted, 404, 409))
async def delete_thread(act: ActingUser, thread_id: ThreadId, scan: Scan = False) -> Response:
    """Delete a conversation and everything derived from it, permanently."""
    return answer(await act.client.threads.delete(thread_id, scan=scan))


@routes.delete("/threads/{thread_id}/turns/{turn_id}", responses=gives(Deleted, 404, 409))
async def delete_turn(act: ActingUser, thread_id: ThreadId, turn_id: TurnId, scan: Scan = False) -> Response:
    """Delete one finished turn and everything derived from it, permanently; later turns stay."""
    return answer(await act.client.threads.delete_turn(thread_id, turn_id, scan=scan))


@routes.delete("/threads", responses=gives(Deleted, 400))
async def delete_all_threads(
    act: ActingUser,
    confirm: Annotated[str, Query(description="The acting user's id, as a confirmation.")],
    scan: Scan = False,
) -> Response:
    """Delete all conversations and memories of the acting user, permanently."""
    if confirm != act.owner.user_id:
        raise InvalidInput(
            f"Nothing was deleted: confirm is {confirm!r}.", hint=f"Send confirm={act.owner.user_id} to delete all."
        )
    return answer(await act.client.threads.delete_all(act.owner, scan=scan))


branch_router = APIRouter(tags=["branches, pins and folds"], default_response_class=Response)

CHANGING = (*WITH_BODY, 404, 409)
COMMIT_SECONDS = 10.0
Wish = Annotated[ActingWith[BranchBody], Depends(acting_with(BranchBody, may_be_empty=True))]


@branch_router.get("/threads/{thread_id}/branches", responses=gives(BranchList, 404))
async def list_branches(act: ActingUser, thread_id: ThreadId) -> Response:
    """List the branches, oldest first."""
    branches = await act.client.threads.branches(thread_id)
    return answer(BranchList(thread_id=thread_id, branches=branches))


@branch_router.post(
    "/threads/{thread_id}/branches", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(ActiveBranch)
)
async def switch(
    thread_id: ThreadId, act: Annotated[ActingWith[ActiveBranch], Depends(acting_with(ActiveBranch))]
) -> Response:
    """Make a branch the active one."""
    return answer(await act.client.threads.switch(thread_id, act.body.active))


@branch_router.post(
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


@branch_router.post(
    "/threads/{thread_id}/rollback", responses=gives(ShownBranch, *CHANGING), openapi_extra=takes(RollbackBody)
)
async def roll_back(
    thread_id: ThreadId, act: Annotated[ActingWith[RollbackBody], Depends(acting_with(RollbackBody))]
) -> Response:
    """Go back on a new branch and activate it; the old one is kept. Pins are copied, or those of `state` restored."""
    threads = act.client.threads
    return answer(await threads.rollback(thread_id, to=act.body.to, state=act.body.state, branch_id=act.body.branch_id))


@branch_router.get("/threads/{thread_id}/pins", responses=gives(Pins, 404))
async def list_pins(act: ActingUser, thread_id: ThreadId, branch_id: BranchWanted = None) -> Response:
    """List the pinned facts, which every prompt contains."""
    return answer(await act.client.pins.list(thread_id, branch_id=branch_id))


@branch_router.post("/threads/{thread_id}/pins", responses=gives(Pins, *CHANGING), openapi_extra=takes(NewPin))
async def pin(thread_id: ThreadId, act: Annotated[ActingWith[NewPin], Depends(acting_with(NewPin))]) -> Response:
    """Pin a fact; pinning an existing fact again adds nothing."""
    return answer(await act.client.pins.add(thread_id, act.body.fact, branch_id=act.body.branch_id))


@branch_router.delete("/threads/{thread_id}/pins", responses=gives(Pins, 404, 409))
async def unpin(
    act: ActingUser,
    thread_id: ThreadId,
    n: Annotated[int, Query(ge=1, le=1_000_000, description="The number of the pinned fact, starting at 1.")],
    branch_id: BranchWanted = None,
) -> Response:
    """Remove the pinned fact with that number."""
    return answer(await act.client.pins.remove(thread_id, n, branch_id=branch_id))


@branch_router.post(
    "/threads/{thread_id}/fold", responses=gives(ShownFold, *CHANGING), openapi_extra=takes(FoldBody, required=False)
)
async def fold(
    thread_id: ThreadId, act: Annotated[ActingWith[FoldBody], Depends(acting_with(FoldBody, may_be_empty=True))]
) -> Response:
    """Fold old turns into the summary, or preview that."""
    folds = act.client.folds
    return answer(await folds.fold(thread_id, preview=act.body.preview, branch_id=act.body.branch_id))


@branch_router.post(
    "/threads/{thread_id}/unfold",
    responses=gives(ShownFold, *CHANGING),
    openapi_extra=takes(BranchBody, required=False),
)
async def unfold(thread_id: ThreadId, act: Wish) -> Response:
    """Restore the summary from before the last fold."""
    return answer(await act.client.folds.undo(thread_id, branch_id=act.body.branch_id))


@branch_router.post(
    "/threads/{thread_id}/commit",
    responses=gives(Committed, *CHANGING),
    openapi_extra=takes(BranchBody, required=False),
)
async def commit(thread_id: ThreadId, act: Wish) -> Response:
    """Commit pending answers now."""
    threads = act.client.threads
    committed = await threads.commit(thread_id, branch_id=act.body.branch_id, seconds=COMMIT_SECONDS)
    return answer(committed)
