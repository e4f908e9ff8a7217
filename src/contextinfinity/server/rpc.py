"""JSON-RPC 2.0 on the WebSocket ``/rpc``: conversations for editors and pages that keep one connection open.

A connection acts for one owner, like any request (``auth``); a browser, which cannot set headers, passes its token as
``?token=``. The state of an owner (the current session, running answers, open files) belongs to the process, not to the
connection: a client that reconnects receives the notifications of an answer that is still running. Notifications are
``streamChunk``, ``streamComplete``, ``compactionEvent`` and ``filesChanged``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast, get_type_hints

import msgspec
from fastapi import APIRouter, Request, WebSocket
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from contextinfinity.errors import AccessDenied, ContextInfinityError
from contextinfinity.server.app_state import name_of
from contextinfinity.server.auth import Acting, acting, caller_of
from contextinfinity.server.rpc_methods import METHODS, LLMService, UserState

log = logging.getLogger(__name__)
routes = APIRouter()

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
OUR_ERROR = -32000
POLICY_VIOLATION = 1008
PREFIX = "LLMService."
MOST_WAITING = 1000
MOST_AT_ONCE = 32
CHECK_SECONDS = 30.0
"""How often a connection's token is checked again."""


class RpcError(Exception):
    """An error that is sent as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


@routes.websocket("/rpc")
async def rpc(websocket: WebSocket, user_id: str | None = None, token: str | None = None) -> None:
    """Serve one connection."""
    if token:
        websocket.scope["headers"] = [*websocket.scope["headers"], (b"authorization", f"Bearer {token}".encode())]
    request = cast(Request, HTTPConnection(websocket.scope))  # what is read of it is the same for both
    try:
        act = acting(request, await caller_of(request), user_id)
    except ContextInfinityError as error:
        await websocket.close(POLICY_VIOLATION, str(error)[:120])
        return
    await websocket.accept()
    app_state = websocket.app.state.app_state
    users: dict[Any, UserState] = app_state.rpc_users
    state = users.setdefault(act.owner, UserState())
    connection = RpcConnection(websocket, act, LLMService(act.client, state, app_state.server))
    connection.admit = partial(app_state.rates.take, name_of(act.owner) if act.check is not None else "")
    try:
        await connection.serve(app_state.closing)
    finally:
        if not (state.listeners or state.streams or state.conversations):
            users.pop(act.owner, None)


class RpcConnection:
    """One WebSocket: reads requests, answers each when it is done, and forwards notifications."""

    def __init__(self, websocket: WebSocket, act: Acting, service: LLMService) -> None:
        self._websocket, self._act, self._service = websocket, act, service
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self._running: set[asyncio.Task[None]] = set()
        self.admit: Callable[[], object] = lambda: None
        """Raises ``TooMany`` when the owner sends too many requests."""

    async def serve(self, closing: asyncio.Event) -> None:
        """Serve until one side closes the connection, or the token is revoked."""
        listen = self._service.state.listen(self._notify)
        works = (self._read(), self._write(), self._check(), closing.wait(), self._service.follow_folds(self._notify))
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(work) for work in works]
        if (watching := self._service.watch_files(self._notify)) is not None:
            tasks.append(asyncio.ensure_future(watching))
        try:
            await asyncio.wait(tasks[:4], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listen()
            for task in (*tasks, *self._running):
                task.cancel()
            await asyncio.gather(*tasks, *self._running, return_exceptions=True)
            if self._websocket.application_state.name == "CONNECTED":
                with suppress(WebSocketDisconnect):  # the other side is gone already
                    await self._websocket.close()

    async def _read(self) -> None:
        while True:
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):  # gone, or it sent bytes
                return
            while len(self._running) >= MOST_AT_ONCE:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.ensure_future(self._answer(text))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _write(self) -> None:
        while (message := await self._outgoing.get()) is not None:
            await self._websocket.send_text(message.decode())

    async def _check(self) -> None:
        """End the connection once its token is revoked or expired."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._act.check is not None:
                try:
                    await self._act.check()
                except AccessDenied:
                    return

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._put({"jsonrpc": "2.0", "method": method, "params": params})

    def _put(self, message: Any) -> None:
        if self._outgoing.full():  # the reader does not read
            while not self._outgoing.empty():
                self._outgoing.get_nowait()
            self._outgoing.put_nowait(None)
            return
        self._outgoing.put_nowait(msgspec.json.encode(message))

    async def _answer(self, text: str) -> None:
        try:
            request = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self._put(_failed(None, RpcError(PARSE_ERROR, "The message is not JSON.")))
        if isinstance(request, list) and request:
            answers = [answer for one in request if (answer := await self._answered(one)) is not None]
            return self._put(answers) if answers else None
        answer = await self._answered(request)
        return None if answer is None else self._put(answer)

    async def _answered(self, asked: Any) -> dict[str, Any] | None:
        """Carry out one request; None for a notification, which is not answered."""
        name = asked.get("id") if isinstance(asked, dict) else None
        try:
            self.admit()
            result = await _called(self._service, asked)
        except RpcError as error:
            is_valid = isinstance(asked, dict) and isinstance(asked.get("method"), str)
            return None if is_valid and "id" not in asked else _failed(name, error)
        except ContextInfinityError as error:
            failed = RpcError(OUR_ERROR, error.message, {"code": error.code, "hint": error.hint})
            return _failed(name, failed) if isinstance(asked, dict) and "id" in asked else None
        except Exception:
            log.exception("an RPC method failed")
            return _failed(name, RpcError(INTERNAL, "Internal error.")) if "id" in asked else None
        return {"jsonrpc": "2.0", "id": name, "result": msgspec.to_builtins(result)} if "id" in asked else None


def _called(service: LLMService, asked: Any) -> Any:
    """Find the method of a request and bind its parameters; returns the coroutine."""
    if not isinstance(asked, dict) or asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("method"), str):
        raise RpcError(INVALID_REQUEST, "This is not a JSON-RPC 2.0 request.")
    if not isinstance(asked.get("id"), str | int | float | None):
        raise RpcError(INVALID_REQUEST, "The id is neither a string nor a number.")
    params = asked.get("params", [])
    if not isinstance(params, list | dict):
        raise RpcError(INVALID_REQUEST, "The params are neither a list nor an object.")
    name = asked["method"].removeprefix(PREFIX)
    if name not in METHODS or not asked["method"].startswith(PREFIX):
        raise RpcError(METHOD_NOT_FOUND, f"There is no method {asked['method'][:100]}.", sorted(METHODS))
    method: Callable[..., Any] = getattr(service, name)
    try:
        signature = inspect.signature(method)
        bound = signature.bind(*params) if isinstance(params, list) else signature.bind(**params)
        hints = get_type_hints(method)
        given = {key: msgspec.convert(value, hints[key]) for key, value in bound.arguments.items()}
    except (TypeError, msgspec.ValidationError) as error:
        raise RpcError(INVALID_PARAMS, f"{asked['method']}: {error}.") from error
    return method(**given)


def _failed(name: Any, error: RpcError) -> dict[str, Any]:
    usable = name if isinstance(name, str | int | float) else None
    return {"jsonrpc": "2.0", "id": usable, "error": error.error}
