"""Route: /mcp, the Model Context Protocol over streamable HTTP. Every request is answered with one JSON message."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from contextinfinity.domain.message import Json
from contextinfinity.mcp_server.protocol import INVALID, VERSIONS, answer
from contextinfinity.server.auth import ActingUser
from contextinfinity.server.bodies import ALWAYS, MEANINGS, WITH_BODY, check_media_type, refusals

routes = APIRouter(tags=["mcp"], default_response_class=Response)

PROTOCOL = "mcp-protocol-version"
MESSAGE: dict[str, Any] = {"application/json": {"schema": {"anyOf": [{"type": "object"}, {"type": "array"}]}}}
GIVES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The response.", "content": MESSAGE},
    202: {"description": "The message needs no response."},
    **refusals(*ALWAYS, *WITH_BODY),
    400: {"description": MEANINGS[400], "content": {**refusals(400)[400]["content"], **MESSAGE}},
}


@routes.post("/mcp", responses=GIVES, openapi_extra={"requestBody": {"required": True, "content": MESSAGE}})
async def answer_message(request: Request, act: ActingUser) -> Response:
    """Answer a JSON-RPC message of an MCP client, or a list of them from a client of an older version."""
    check_media_type(request)
    version = request.headers.get(PROTOCOL, "")
    if version not in ("", *VERSIONS):
        known = ", ".join(VERSIONS)
        wrong = {"code": INVALID, "message": f"This protocol version is not supported; supported are: {known}."}
        return _json({"jsonrpc": "2.0", "id": None, "error": wrong}, 400)
    reply = await answer(act.client, await request.body(), version)
    if reply is None:
        return Response(status_code=202)
    is_message = not isinstance(reply, dict) or "error" not in reply or reply.get("id") is not None
    return _json(reply, 200 if is_message else 400)


def _json(value: Json, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
