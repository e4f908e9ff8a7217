"""Errors as the client that asked can read them: in its vendor's shape, on every route of this door."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import Response

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.contract import Dialect
from contextinfinity.dialects.openai_chat import OpenAIChat
from contextinfinity.domain.turn import Problem
from contextinfinity.errors import ContextInfinityError, InvalidInput
from contextinfinity.server.problems import headers_of, problem_of
from contextinfinity.server.v1.telling import Unanswered

log = logging.getLogger(__name__)

OPENAI, ANTHROPIC = OpenAIChat(), AnthropicMessages()
UNFORESEEN = Problem(code="error", message="Something went wrong that nobody foresaw.", hint="The server's log has it.")


def dialect_of(request: Request) -> Dialect:
    """Tell whose client asks: what only Anthropic's say tells it from the others."""
    is_its_own = "/messages" in request.url.path or "anthropic-version" in request.headers
    return ANTHROPIC if is_its_own else OPENAI


class Shaped(APIRoute):
    """A route whose errors read as the vendor's do."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route, and whatever it depends on."""
        handle = super().get_route_handler()

        async def shaped(request: Request) -> Response:
            try:
                return await handle(request)
            except Unanswered as error:
                return refusal(request, error.problem, error.status)
            except RequestValidationError:
                return refusal(request, Problem(code="invalid_input", message="A parameter breaks a rule."), 400)
            except ContextInfinityError as error:
                told = problem_of(error)
                status = 400 if isinstance(error, InvalidInput) else told.status
                problem = Problem(code=told.code, message=told.detail, hint=told.hint)
                return refusal(request, problem, status, headers_of(error))
            except Exception:
                log.exception("a request for %s broke", request.url.path)
                return refusal(request, UNFORESEEN, 500)

        return shaped


def refusal(request: Request, problem: Problem, status: int, headers: dict[str, str] | None = None) -> Response:
    """Write what went wrong."""
    body = msgspec.json.encode(dialect_of(request).error(problem, status))
    return Response(body, status, headers, media_type="application/json")
