"""JSON-RPC 2.0 as the Model Context Protocol uses it: one message in, at most one message out.

Clients of the versions before ``2025-06-18`` may also send a list of messages (a batch).

No state is kept between messages, so any number of processes can answer the requests of one client. Protocol
revisions with ``initialize`` are supported; newer clients fall back to them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import TypeAlias

import msgspec

from contextinfinity.client.contract import Client
from contextinfinity.domain.message import Json
from contextinfinity.domain.wire import has_nul
from contextinfinity.errors import ContextInfinityError, NotFound
from contextinfinity.mcp_server import mcp_tools
from contextinfinity.mcp_server.mcp_tools import TOOLS, Arguments, bounded

log = logging.getLogger(__name__)

BATCHING = ("2025-03-26", "2024-11-05")
"""The versions with lists of messages."""
VERSIONS = ("2025-11-25", "2025-06-18", *BATCHING)
MOST_MESSAGES = 100
PARSE, INVALID, NO_METHOD, WRONG_PARAMS, INTERNAL, NO_RESOURCE = -32700, -32600, -32601, -32602, -32603, -32002
INSTRUCTIONS = (
    "Conversations that the user had with any assistant connected here. Search them before you ask the user for"
    " something that was said before; remember lasting facts about the user; pin what must not be forgotten in one"
    " conversation."
)

Handler: TypeAlias = Callable[[Client, dict[str, Json]], Awaitable[Json]]


class InvalidMessage(Exception):
    """A message that cannot be answered with a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def answer(client: Client, written: bytes, version: str = "") -> Json:
    """Answer a message, or a list of messages if the protocol version (if known) has them.

    Return None for a notification or a response, which gets no answer.
    """
    try:
        message = msgspec.json.decode(written)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _error(None, PARSE, "The message is not JSON.")
    if isinstance(message, list) and version in ("", *BATCHING) and 0 < len(message) <= MOST_MESSAGES:
        replies = [await _answer(client, one) for one in message]
        return [reply for reply in replies if reply is not None] or None
    return await _answer(client, message)


async def _answer(client: Client, message: Json) -> Json:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return _error(None, INVALID, "Send one JSON-RPC 2.0 message at a time.")
    request_id, method = message.get("id"), message.get("method")
    if "id" not in message or method is None:
        return None
    if type(request_id) not in (str, int) or not isinstance(method, str):
        return _error(None, INVALID, "id must be a string or an integer, method a string.")
    try:
        params = message.get("params") or {}
        if not isinstance(params, dict) or has_nul(params):
            raise InvalidMessage(WRONG_PARAMS, "params must be an object without NUL characters.")
        if method not in _METHODS:
            raise InvalidMessage(NO_METHOD, f"There is no method {method[:80]!r}.")
        return {"jsonrpc": "2.0", "id": request_id, "result": await _METHODS[method](client, params)}
    except InvalidMessage as wrong:
        return _error(request_id, wrong.code, str(wrong))
    except NotFound as error:
        return _error(request_id, NO_RESOURCE, str(error))
    except ContextInfinityError as error:
        return _error(request_id, WRONG_PARAMS, str(error))
    except Exception:
        log.exception("an MCP request for %s failed", method)
        return _error(request_id, INTERNAL, "The request failed; the log says why.")


def _error(request_id: Json, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


async def _initialize(client: Client, params: dict[str, Json]) -> Json:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}, "resources": {"subscribe": False, "listChanged": False}},
        "serverInfo": {"name": "contextinfinity", "title": "ContextInfinity", "version": version("contextinfinity")},
        "instructions": INSTRUCTIONS,
    }


async def _ping(client: Client, params: dict[str, Json]) -> Json:
    return {}


async def _list_tools(client: Client, params: dict[str, Json]) -> Json:
    return {"tools": [tool.listed() for tool in TOOLS.values()]}


async def _call_tool(client: Client, params: dict[str, Json]) -> Json:
    """Run a tool. An error becomes its result, so that the assistant can read it and try something else."""
    name, given = params.get("name"), params.get("arguments") or {}
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None or not isinstance(given, dict):
        raise InvalidMessage(WRONG_PARAMS, f"There is no tool {str(name)[:80]!r}, or its arguments are not an object.")
    if unknown := given.keys() - tool.properties.keys():
        return _tool_result({"error": f"{tool.name} has no argument {min(unknown)[:80]!r}."}, is_error=True)
    try:
        return _tool_result(await tool.run(client, Arguments(given)))
    except ContextInfinityError as error:
        return _tool_result({"error": error.message, "hint": error.hint, "code": error.code}, is_error=True)


def _tool_result(result: Json, *, is_error: bool = False) -> Json:
    result = bounded(result)
    text = msgspec.json.encode(result).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": result, "isError": is_error}


async def _list_resources(client: Client, params: dict[str, Json]) -> Json:
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise InvalidMessage(WRONG_PARAMS, "cursor must be a string.")
    return await mcp_tools.listed(client, cursor)


async def _list_templates(client: Client, params: dict[str, Json]) -> Json:
    return {"resourceTemplates": mcp_tools.TEMPLATES}


async def _read_resource(client: Client, params: dict[str, Json]) -> Json:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise InvalidMessage(WRONG_PARAMS, "uri must be a string.")
    return await mcp_tools.read(client, uri)


_METHODS: Mapping[str, Handler] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
}
