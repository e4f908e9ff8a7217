"""Build the ASGI application: routes, middleware and the lifetime of the client behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from contextinfinity.errors import ContextInfinityError
from contextinfinity.server import (
    bodies,
    chat_routes,
    exchange_routes,
    mcp_routes,
    memory_routes,
    message_routes,
    operations,
    problems,
    rpc,
    thread_routes,
)
from contextinfinity.server.app_state import AppState, Counts, Metrics, OpenClient, Share
from contextinfinity.server.guard import Guard
from contextinfinity.server.v1 import responses as v1_responses
from contextinfinity.server.v1 import routes as v1
from contextinfinity.server.web import page_routes
from contextinfinity.settings import Settings

log = logging.getLogger(__name__)

TITLE = "ContextInfinity"
DESCRIPTION = """Endless, durable conversations over HTTP. Errors are problem documents (RFC 9457) with a hint."""


EXPOSED_HEADERS = ("X-Request-Id", "X-Thread-Id", "X-Turn-Id", "Retry-After")
"""The response headers that a page of an allowed origin may read."""

# Regardless of the environment: metrics leave the process only through /metrics and the log.
NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}

ROUTERS = [
    thread_routes.routes,
    message_routes.routes,
    thread_routes.branch_router,
    memory_routes.search_router,
    memory_routes.routes,
    chat_routes.routes,
    exchange_routes.routes,
    v1.routes,
    v1_responses.routes,
    v1_responses.conversation_router,
    mcp_routes.routes,
    operations.routes,
    page_routes.routes,
    rpc.routes,
]


def make_app(
    settings: Settings, open_client: OpenClient, *, shared_figures: bool = False, share: Share | None = None
) -> FastAPI:
    """Build the application; its client is opened when it starts. ``share``: the state shared with other workers."""
    figures = Metrics(shared=shared_figures)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_client(settings) as client:
            app.state.app_state = app_state = AppState(
                client=client,
                server=settings.server,
                retention=settings.retention,
                data_dir=settings.data_dir,
                figures=figures,
                counts=Counts(share),
            )
            if await client.tokens.closed():
                log.warning("all tokens are revoked or expired: every request is rejected until a new one is created")
            keeping = asyncio.ensure_future(figures.refresh_counters())
            yield
            keeping.cancel()
            await client.close(answer_seconds=app_state.seconds_left())

    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version=version("contextinfinity"),
        lifespan=lifespan,
        telemetry=NO_TELEMETRY,
        redirect_slashes=False,
        docs_url=None,  # those pages load scripts from other sites
        redoc_url=None,
    )
    # Not ``include_router``: it builds every route once more, on the first request.
    app.router.routes += [route for router in ROUTERS for route in router.routes]
    app.add_exception_handler(ContextInfinityError, problems.error_response)
    app.add_exception_handler(RequestValidationError, problems.parameters_response)
    app.add_exception_handler(HTTPException, problems.routing_response)
    app.add_exception_handler(ClientDisconnect, problems.disconnected_response)
    app.add_exception_handler(Exception, problems.unexpected_response)
    if settings.server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.server.cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=list(EXPOSED_HEADERS),
        )
    app.add_middleware(Guard, server=settings.server, figures=figures)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with the schemas of our own types."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        components = document.setdefault("components", {})
        components["schemas"] = bodies.schemas()
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"token": []}]  # needed from the first token on
        app.openapi_schema = document
    return app.openapi_schema
