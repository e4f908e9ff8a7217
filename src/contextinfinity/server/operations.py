"""Routes for those who run the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.metadata import version

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from contextinfinity.domain.events import CompactionEvent
from contextinfinity.errors import LedgerError, NotFound
from contextinfinity.server import metrics
from contextinfinity.server.answers import ModelNames, State, answer, gives, gives_events, refusals
from contextinfinity.server.callers import Asking, Caller, caller_of
from contextinfinity.server.door import Door, door_of
from contextinfinity.server.streams import EventStream, told_frames

routes = APIRouter(tags=["operations"], default_response_class=Response)


@routes.head("/healthz", include_in_schema=False)
@routes.get("/healthz", responses=refusals(400, 422, 431) | {status: gives(State)[200] for status in (200, 503)})
async def healthz(request: Request) -> Response:
    """Tell whether the server is ready, and what is wrong where it is degraded; open to everybody."""
    health = await door_of(request).client.health()
    state = State(status=health.status, reasons=health.reasons, version=version("contextinfinity"))
    return answer(state, 503 if health.status == "unready" else 200)


@routes.get("/models", dependencies=[Depends(caller_of)], responses=gives(ModelNames))
async def models(request: Request) -> Response:
    """Name the models."""
    return answer(ModelNames(models=await door_of(request).client.conversations.models()))


@routes.get("/compactions", responses=gives_events())
async def compactions(request: Request, caller: Asking) -> Response:
    """Hear of folds as they go on, in the threads that are the caller's; those of the worker that answers."""
    door = door_of(request)
    close = door.streams.take(caller.owner())
    content = told_frames(door, _folds_of(door, caller))
    return EventStream(content, close=close, stall_seconds=door.server.stall_seconds)


async def _folds_of(door: Door, caller: Caller) -> AsyncIterator[CompactionEvent]:
    async for event in door.client.folds.follow():
        with suppress(NotFound, LedgerError):  # a thread that went meanwhile, or a ledger: the next fold is told again
            if caller.may_open(await door.client.threads.get(event.thread_id)):
                yield event


@routes.get(
    "/metrics",
    dependencies=[Depends(caller_of)],
    responses=gives(State) | {200: {"description": "Figures for Prometheus.", "content": {"text/plain": {}}}},
)
async def figures(request: Request) -> Response:
    """Give the figures of all workers."""
    door = door_of(request)
    return Response(door.figures.text(await door.client.health()), headers={"content-type": metrics.MEDIA_TYPE})
