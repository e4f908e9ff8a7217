"""RFC 9457 problem documents, made from one table of our errors.

``type`` identifies the error for programs, ``title`` names its kind, ``detail`` says what happened and ``hint`` what to
do. Internals are not shown: an unexpected error is a 500 that says so, and the log has the traceback.
"""

from __future__ import annotations

import math

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from contextinfinity.domain.turn import Problem
from contextinfinity.errors import (
    AccessDenied,
    ContextInfinityError,
    Ending,
    InvalidInput,
    KeyReused,
    LedgerError,
    NotFound,
    NotYours,
    ProviderError,
    QueueFull,
    Refused,
    ServerAway,
    SettingsError,
    TokenNeeded,
    TooLarge,
    TooMany,
    TooSlow,
    WrongForm,
)
from contextinfinity.server.v1.vendors import is_for_vendor, refusal

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:contextinfinity:error:"

TABLE: dict[type[ContextInfinityError], tuple[int, str]] = {
    InvalidInput: (422, "A value is not valid"),
    TooLarge: (413, "Too large"),
    TooSlow: (408, "Too slow"),
    WrongForm: (415, "Unsupported media type"),
    TokenNeeded: (401, "A token is needed"),
    NotYours: (403, "Not yours"),
    AccessDenied: (403, "Not allowed"),
    NotFound: (404, "Not found"),
    KeyReused: (422, "Idempotency key reused"),
    TooMany: (429, "Too many at once"),
    Ending: (503, "The server is shutting down"),
    Refused: (409, "Conflict with the current state"),
    ServerAway: (503, "A server cannot be reached"),
    ProviderError: (503, "A model could not answer"),
    SettingsError: (503, "The settings are not valid"),
    LedgerError: (503, "The ledger is not available"),
    ContextInfinityError: (500, "Something went wrong"),
}
"""By error; a class that is not listed uses its parent's entry."""

TITLES = {
    400: "Malformed request",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    431: "Too large",
}


class ProblemDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    running: str | None = None
    """The turn that others wait for, where a queue is full."""


def problem_of(error: ContextInfinityError) -> ProblemDocument:
    """Return the problem document of one of our errors."""
    status, title = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    running = error.running if isinstance(error, QueueFull) else None
    return ProblemDocument(
        type=TYPE + error.code,
        title=title,
        status=status,
        detail=error.message,
        code=error.code,
        hint=error.hint,
        running=running,
    )


def plain_problem(status: int, code: str, detail: str, hint: str = "") -> ProblemDocument:
    """Return a problem document that no error of ours describes: an unknown path, a wrong host."""
    title = TITLES.get(status, "Refused")
    return ProblemDocument(type=TYPE + code, title=title, status=status, detail=detail, code=code, hint=hint)


def response(problem: ProblemDocument, headers: dict[str, str] | None = None) -> Response:
    """Return the response with a problem document."""
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)


def answer(scope: Scope, problem: ProblemDocument, headers: dict[str, str] | None = None) -> Response:
    """Return a problem in the form the client can read: clients of another vendor get that vendor's error format."""
    if not is_for_vendor(scope):
        return response(problem, headers)
    problem_details = Problem(code=problem.code, message=problem.detail, hint=problem.hint)
    return refusal(scope, problem_details, problem.status, headers)


async def error_response(request: Request, error: Exception) -> Response:
    """Handle one of our errors."""
    assert isinstance(error, ContextInfinityError)  # noqa: S101  registered for these only
    return answer(request.scope, problem_of(error), headers_of(error))


def headers_of(error: ContextInfinityError) -> dict[str, str]:
    """Return the headers that go with an error."""
    headers = {}
    if isinstance(error, TokenNeeded):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, TooLarge | TooSlow):
        headers["connection"] = "close"  # the rest of the request is not read
    if isinstance(error, TooMany | QueueFull):
        headers["retry-after"] = str(math.ceil(error.retry_after))
    return headers


async def parameters_response(request: Request, error: Exception) -> Response:
    """Handle an invalid path or query; the response does not repeat what was sent."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  registered for these only
    problems = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
    problem_details = InvalidInput(f"{'; '.join(problems)}.", hint="The parameters are in /openapi.json.")
    return answer(request.scope, problem_of(problem_details))


async def routing_response(request: Request, error: Exception) -> Response:
    """Handle an unknown path or method."""
    assert isinstance(error, HTTPException)  # noqa: S101  registered for these only
    messages = {404: "There is no such path.", 405: f"This path does not allow {request.method}."}
    detail = messages.get(error.status_code, str(error.detail))
    code = {404: "no_such_path", 405: "no_such_method"}.get(error.status_code, "bad_request")
    headers = {"allow": ", ".join(_methods(request))} if error.status_code == 405 else {}
    problem = plain_problem(error.status_code, code, detail, "The routes are in /openapi.json.")
    return answer(request.scope, problem, headers)


def _methods(request: Request) -> list[str]:
    """Return the methods that a path accepts, on any route."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in fitting for method in route.methods or ()})


async def disconnected_response(request: Request, error: Exception) -> Response:
    """Handle a request whose client disconnected: no one reads the response, and it is not logged as an error."""
    return answer(request.scope, plain_problem(400, "broken_off", "The request was cut off."))


async def unexpected_response(request: Request, error: Exception) -> Response:
    """Handle an unexpected error without showing internals."""
    unforeseen = ContextInfinityError("An unexpected error occurred.", hint="See the server's log at this time.")
    return answer(request.scope, problem_of(unforeseen))
