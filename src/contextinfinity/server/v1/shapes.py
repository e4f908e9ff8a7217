"""Write errors of all /v1 routes in the format of the client's vendor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from contextinfinity.domain.turn import Problem
from contextinfinity.errors import ContextInfinityError
from contextinfinity.server.problems import headers_of, problem_of
from contextinfinity.server.v1.response_mapping import UnansweredRequest
from contextinfinity.server.v1.vendors import refusal

log = logging.getLogger(__name__)

UNFORESEEN = Problem(code="error", message="An unexpected error occurred.", hint="See the server's log.")


class RequestShape(APIRoute):
    """A route whose errors have the vendor's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route and its dependencies."""
        handle = super().get_route_handler()

        async def shaped(request: Request) -> Response:
            try:
                return await handle(request)
            except UnansweredRequest as error:
                return refusal(request.scope, error.problem, error.status, error.headers, error.upstream)
            except RequestValidationError:
                return refusal(request.scope, Problem(code="invalid_input", message="A parameter is not valid."), 400)
            except ContextInfinityError as error:
                known_problem = problem_of(error)
                status = 400 if known_problem.status == 422 else known_problem.status  # no vendor has such a status
                problem = Problem(code=known_problem.code, message=known_problem.detail, hint=known_problem.hint)
                return refusal(request.scope, problem, status, headers_of(error))
            except ClientDisconnect:  # the client is gone, which is not a server error
                raise
            except Exception:
                log.exception("a request for %s failed", request.url.path)
                return refusal(request.scope, UNFORESEEN, 500)

        return shaped
