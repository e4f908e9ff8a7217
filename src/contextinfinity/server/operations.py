"""Routes for operators: health, models, spending, compaction events and metrics."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import Response

from contextinfinity.client.results import ModelNames
from contextinfinity.domain.turn import UserSpending
from contextinfinity.errors import NotYours
from contextinfinity.server.app_state import MEDIA_TYPE, app_state_of
from contextinfinity.server.auth import ActingUser, Asking
from contextinfinity.server.bodies import HealthReport, answer, gives, gives_events, refusals
from contextinfinity.server.streams import EventStream, event_frames

routes = APIRouter(tags=["operations"], default_response_class=Response)


@routes.head("/healthz", include_in_schema=False)
@routes.get("/healthz", responses=refusals(400, 422, 431) | {status: gives(HealthReport)[200] for status in (200, 503)})
async def healthz(request: Request) -> Response:
    """Return whether the server is ready, and why it is degraded; needs no token."""
    health = await app_state_of(request).health()
    state = HealthReport(status=health.status, reasons=health.reasons, version=version("contextinfinity"))
    return answer(state, 503 if health.status == "unready" else 200)


@routes.get("/models", responses=gives(ModelNames))
async def models(act: ActingUser) -> Response:
    """List the models."""
    return answer(ModelNames(models=await act.client.conversations.models()))


@routes.get("/spending", responses=gives(UserSpending))
async def spending(act: ActingUser) -> Response:
    """Return what models cost the user today and this month, and the limits."""
    return answer(await act.client.conversations.spending())


@routes.get("/compactions", responses=gives_events())
async def compactions(request: Request, act: ActingUser) -> Response:
    """Stream compaction events of the acting user's conversations, from the worker that serves the request."""
    app_state = app_state_of(request)
    close = app_state.streams.take(act.owner)
    content = event_frames(app_state, act.client.folds.follow(), act.check)
    return EventStream(content, close=close, stall_seconds=app_state.server.stall_seconds)


@routes.get(
    "/metrics",
    responses=gives(HealthReport) | {200: {"description": "Figures for Prometheus.", "content": {"text/plain": {}}}},
)
async def figures(request: Request, caller: Asking) -> Response:
    """Return the Prometheus metrics of all workers; if tokens exist, only to tokens of scope app."""
    if caller.token is not None and caller.token.scope != "app":
        raise NotYours("The metrics cover all users.", hint="Use a token of scope app.")
    app_state = app_state_of(request)
    return Response(app_state.figures.text(await app_state.health()), headers={"content-type": MEDIA_TYPE})
