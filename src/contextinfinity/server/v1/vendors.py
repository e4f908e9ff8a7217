"""Detect the vendor of a client, and write errors in its format, also for requests that no route handles."""

from __future__ import annotations

import msgspec
from msgspec import convert
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.contract import Dialect, RequestSize
from contextinfinity.dialects.openai_chat import OpenAIChat
from contextinfinity.dialects.openai_responses import OpenAIResponses
from contextinfinity.dialects.openai_responses.items import ToolNames
from contextinfinity.dialects.openai_responses.writing import ResponseView
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem

PREFIX = "/v1"
OPENAI, ANTHROPIC = OpenAIChat(), AnthropicMessages()
RESPONSES = OpenAIResponses(ResponseView(echo={}, tools=ToolNames()))
"""Writes errors; each request creates its own dialect."""


def dialect_of(scope: Scope) -> Dialect:
    """Return the dialect of the client; Anthropic's clients are recognised by their headers."""
    is_its_own = "/messages" in scope["path"] or "anthropic-version" in Headers(scope=scope)
    if is_its_own:
        return ANTHROPIC
    return RESPONSES if scope["path"].startswith(f"{PREFIX}/responses") else OPENAI


def is_for_vendor(scope: Scope) -> bool:
    """Return whether a path belongs to the compatible routes."""
    path: str = scope["path"]
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def request_id_of(scope: Scope) -> str:
    """Return a request id in Anthropic's format, for the header ``request-id`` and for errors."""
    request_id: str = scope["state"]["request_id"]
    return "req_" + request_id.replace("-", "")


def refusal(
    scope: Scope,
    problem: Problem,
    status: int,
    headers: dict[str, str] | None = None,
    upstream: dict[str, Json] | None = None,
) -> Response:
    """Write what went wrong; where a vendor refused (``upstream``), in its own words and with its own names."""
    dialect = dialect_of(scope)
    said = vendor_error_fields(dialect, problem, upstream or {})
    if dialect is ANTHROPIC:
        body = ANTHROPIC.error(problem, status, said, request_id=request_id_of(scope))
    else:
        body = dialect.error(problem, status, said)
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def vendor_error_fields(dialect: Dialect, problem: Problem, upstream: dict[str, Json]) -> dict[str, Json]:
    """Return the fields of an error as the client's vendor would write them."""
    if problem.code == "size" and upstream.keys() >= {"tokens", "limit"}:
        return dialect.size_error(convert(upstream, RequestSize))
    is_own = (upstream.get("vendor") == "anthropic") is (dialect is ANTHROPIC)
    names = ("type", "code", "param", "message") if is_own else ("message",)
    return {name: upstream[name] for name in names if name in upstream and upstream["message"]}
