"""Whose client asks, and how it reads that something went wrong; also what no route of this door ever sees."""

from __future__ import annotations

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.contract import Dialect
from contextinfinity.dialects.openai_chat import OpenAIChat
from contextinfinity.dialects.openai_completions import OpenAICompletions
from contextinfinity.domain.turn import Problem

PREFIX = "/v1"
OPENAI, ANTHROPIC, COMPLETIONS = OpenAIChat(), AnthropicMessages(), OpenAICompletions()


def dialect_of(scope: Scope) -> Dialect:
    """Tell whose client asks: what only Anthropic's say tells it from the others."""
    is_its_own = "/messages" in scope["path"] or "anthropic-version" in Headers(scope=scope)
    return ANTHROPIC if is_its_own else OPENAI


def is_theirs(scope: Scope) -> bool:
    """Tell whether a request is for this door."""
    path: str = scope["path"]
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def request_id_of(scope: Scope) -> str:
    """Name a request as Anthropic does, in the header ``request-id`` and in errors."""
    request_id: str = scope["state"]["request_id"]
    return "req_" + request_id.replace("-", "")


def refusal(scope: Scope, problem: Problem, status: int, headers: dict[str, str] | None = None) -> Response:
    """Write what went wrong."""
    dialect = dialect_of(scope)
    if dialect is ANTHROPIC:
        told = ANTHROPIC.error(problem, status, request_id=request_id_of(scope))
    else:
        told = dialect.error(problem, status)
    return Response(msgspec.json.encode(told), status, headers, media_type="application/json")
