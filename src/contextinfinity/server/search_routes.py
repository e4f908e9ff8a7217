"""Routes: search."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from contextinfinity.client.contract import TurnTarget
from contextinfinity.domain.search import ChunkSide, ChunkType, Hits
from contextinfinity.server.auth import ActingUser
from contextinfinity.server.response_bodies import answer, gives

routes = APIRouter(tags=["search"], default_response_class=Response)


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


@routes.get("/search", responses=gives(Hits, 404))
async def search(
    act: ActingUser,
    q: Annotated[str, Query(min_length=1, max_length=10_000, description="The search query.")],
    limits: Annotated[TurnTarget, Depends(limits_of)],
    thread_id: Annotated[str | None, Query(description="Only in this thread.")] = None,
) -> Response:
    """Search messages, best matches first."""
    where: TurnTarget = {**limits, "thread_id": thread_id}
    return answer(await act.client.past.search(q, **where))
