"""A loopback HTTP server that speaks the vendors' protocols.

It runs in the caller's event loop, on a free port, and ends with the ``async with`` block: connections that are still
open are closed then, so nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Delivery, Scripted, Trouble, before, within
from contextinfinity_testing.vendors.chat import Chat, Compatible, Perplexity
from contextinfinity_testing.vendors.code_words import from_prompt
from contextinfinity_testing.vendors.connection import Connection
from contextinfinity_testing.vendors.counting import Cache, prompt_tokens
from contextinfinity_testing.vendors.embeddings import Embeddings, OllamaEmbeddings
from contextinfinity_testing.vendors.gemini import Gemini, with_path
from contextinfinity_testing.vendors.gemini_checks import gemini_error
from contextinfinity_testing.vendors.messages import Messages
from contextinfinity_testing.vendors.models import models
from contextinfinity_testing.vendors.responses import Responses
from contextinfinity_testing.vendors.troubles import Words, anthropic_error, openai_error, refusal, words
from contextinfinity_testing.vendors.wire import Asked, Ids, Part, Refused, Request, Vendor, Wire, encode

JSON = (("content-type", "application/json"),)
UNSAMPLED = "2026-10-21"
"""The version of Anthropic's API from which on no model takes a temperature and the like."""
BETA_PARAMETERS = {"context_management": "context-management-", "mcp_servers": "mcp-client-"}
"""Parameters that Anthropic takes only with a beta header."""
EVENTS = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


class FakeVendors:
    """OpenAI, Anthropic, Gemini, Perplexity and a server for open models, on this machine.

    ``key`` is the only one that is accepted (default: any). ``limit`` refuses every prompt of more tokens, counted at
    four characters each; it may be changed at any time. Answers come from ``script``, one each; when it is empty, from
    ``answering``, which is given the body of the request; else from the prompt: "the code word for X is Y" … "What is
    the code word for X?", "X's children are Y" … "Who are X's children?". Vectors are made of the texts' words;
    ``embedding_troubles`` come first, one each.
    """

    def __init__(
        self, *, key: str | None = None, limit: int | None = None, answering: Callable[[Json], Scripted] | None = None
    ) -> None:
        self.key = key
        self.limit = limit
        self.answering = answering
        self.script: deque[Scripted] = deque()
        self.embedding_troubles: deque[Trouble] = deque()
        self.requests: list[Request] = []
        self._ids = Ids()
        self._caches: defaultdict[Vendor, Cache] = defaultdict(Cache)
        self._wires: dict[str, Wire] = {
            "/v1/responses": Responses(),
            "/v1/chat/completions": Chat(),
            "/v1/messages": Messages(),
            "/perplexity/chat/completions": Perplexity(),
            "/compatible/v1/chat/completions": Compatible(),
            "/v1/embeddings": Embeddings(),
            "/compatible/v1/embeddings": OllamaEmbeddings(),
        }
        self._gemini = Gemini()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, *answers: Scripted) -> None:
        """Append answers or errors to the script. A text is short for an ``Answer``."""
        self.script.extend(answers)

    @property
    def openai_url(self) -> str:
        """The base address for OpenAI's SDK."""
        return f"{self._address}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base address for Anthropic's SDK."""
        return self._address

    @property
    def gemini_url(self) -> str:
        """The base address of the Gemini API; Google's SDK adds ``/v1beta`` itself."""
        return f"{self._address}/gemini/v1beta"

    @property
    def perplexity_url(self) -> str:
        """The base address of Perplexity, for OpenAI's SDK."""
        return f"{self._address}/perplexity"

    @property
    def compatible_url(self) -> str:
        """The base address of a server for open models (as vLLM, Ollama, llama.cpp), for OpenAI's SDK."""
        return f"{self._address}/compatible/v1"

    @property
    def _address(self) -> str:
        assert self._server is not None, "The fake is not running: use it in `async with FakeVendors() as vendors:`."
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> FakeVendors:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(Connection(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection) -> None:
        """Answer one request after the other, until the client disconnects or an answer ends the connection."""
        try:
            while (request := await connection.read()) is not None:
                self.requests.append(request)
                await self._answer(request, connection)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has disconnected.
        finally:
            with suppress(ConnectionError):
                await connection.close()

    async def _answer(self, request: Request, connection: Connection) -> None:
        body = with_path(request) if request.path.startswith("/gemini/") else None
        wire = self._gemini if body is not None else self._wires.get(request.path.partition("?")[0])
        if wire is None or request.method != "POST":
            await self._write(connection, self._elsewhere(request), _vendor(request))
            return
        try:
            await self._respond(wire, request, connection, body or request.body)
        except Refused as refused:
            await self._write(connection, Words(status=refused.status, body=refused.body), wire.vendor)

    async def _respond(self, wire: Wire, request: Request, connection: Connection, body: Json) -> None:
        denied = self._denied(wire.vendor, request)
        if denied is not None:
            await self._write(connection, denied, wire.vendor)
            return
        if not isinstance(request.body, dict):
            raise _not_json(wire.vendor)
        _checked(wire, _released(wire.vendor, request, body))
        parts = wire.parts(body)
        told = _timely(wire, self._next(wire, parts), streams=bool(body.get("stream")))
        if isinstance(told, Trouble):
            await self._trouble(wire, told, request, connection)
            return
        await self._deliver(wire, self._asked(wire, body, parts), told, connection)

    def _next(self, wire: Wire, parts: list[Part]) -> Answer | Trouble:
        size = prompt_tokens(parts)
        if self.limit is not None and size > self.limit:
            return Trouble.size(tokens=size, limit=self.limit)
        if isinstance(wire, Embeddings):
            return self.embedding_troubles.popleft() if self.embedding_troubles else Answer()
        if not self.script and self.answering is not None:
            self.script.append(self.answering(self.requests[-1].body))
        told = self.script.popleft() if self.script else from_prompt(parts)
        return Answer(text=told) if isinstance(told, str) else told

    def _asked(self, wire: Wire, body: Json, parts: list[Part]) -> Asked:
        cache = self._caches[wire.vendor]
        count = cache.marked if wire.vendor == "anthropic" else cache.automatic
        return Asked(body=body, tokens=count(body["model"], parts), ids=self._ids)

    async def _deliver(self, wire: Wire, asked: Asked, answer: Answer, connection: Connection) -> None:
        fitting = within(before(answer, _stops(asked.body)), wire.room(asked.body))
        headers = self._headers(wire.vendor)
        if asked.body.get("stream"):
            await connection.stream(EVENTS + headers, wire.frames(asked, fitting), fitting.delivery)
        else:
            await connection.whole(200, JSON + headers, encode(wire.whole(asked, fitting)), fitting.delivery)

    async def _trouble(self, wire: Wire, trouble: Trouble, request: Request, connection: Connection) -> None:
        if trouble.kind == "drop":
            connection.cut()
        else:
            await self._write(connection, words(wire, trouble, _key(request)), wire.vendor)

    def _denied(self, vendor: Vendor, request: Request) -> Words | None:
        key = _key(request)
        if vendor == "compatible":
            return None
        if not key or (self.key is not None and key != self.key):
            return refusal(vendor, key)
        if vendor == "anthropic" and "anthropic-version" not in request.headers:
            said = "anthropic-version: header is required"
            return Words(status=400, body=anthropic_error("invalid_request_error", said))
        gone = _gone(request) if vendor == "anthropic" else None
        return None if gone is None else Words(status=400, body=anthropic_error("invalid_request_error", gone))

    def _elsewhere(self, request: Request) -> Words:
        vendor = _vendor(request)
        path = request.path.partition("?")[0]
        denied = self._denied(vendor, request)
        if denied is not None:
            return denied
        listed = models(vendor, path) if request.method == "GET" else None
        if listed is not None:
            return Words(status=200, body=listed)
        if vendor == "gemini":
            return Words(status=404, body=gemini_error(404, "NOT_FOUND", "Requested entity was not found."))
        if vendor == "anthropic":
            return Words(status=404, body=anthropic_error("not_found_error", "Not found"))
        return Words(status=404, body=openai_error(f"Invalid URL ({request.method} {path})"))

    async def _write(self, connection: Connection, told: Words, vendor: Vendor) -> None:
        body = told.body
        if vendor == "anthropic" and isinstance(body, dict) and "request_id" in body:
            body = {**body, "request_id": self._ids.new("req_")}
        data = encode(body) if told.text is None else told.text.encode()
        kinds = () if any(name == "content-type" for name, _ in told.headers) else JSON
        await connection.whole(told.status, (*kinds, *told.headers, *self._headers(vendor)), data)

    def _headers(self, vendor: Vendor) -> tuple[tuple[str, str], ...]:
        name = "request-id" if vendor == "anthropic" else "x-request-id"
        return ((name, self._ids.new("req_")),)


def _key(request: Request) -> str:
    named = request.headers.get("x-api-key") or request.headers.get("x-goog-api-key")
    return named or request.headers.get("authorization", "").removeprefix("Bearer ").strip()


def _gone(request: Request) -> str | None:
    """Return a parameter that Anthropic no longer accepts in the requested version of its API."""
    if request.headers["anthropic-version"] < UNSAMPLED or not isinstance(request.body, dict):
        return None
    found = next((key for key in ("temperature", "top_p", "top_k") if key in request.body), None)
    return None if found is None else f"{found}: Extra inputs are not permitted"


def _stops(body: Json) -> list[str]:
    stops = body.get("stop_sequences") or body.get("stop") or []
    return [stops] if isinstance(stops, str) else stops


def _vendor(request: Request) -> Vendor:
    if request.path.startswith("/gemini"):
        return "gemini"
    if request.path.startswith("/perplexity"):
        return "perplexity"
    if request.path.startswith("/compatible"):
        return "compatible"
    return "anthropic" if "anthropic-version" in request.headers or "x-api-key" in request.headers else "openai"


def _released(vendor: Vendor, request: Request, body: Json) -> Json:
    """Leave out the parameters that Anthropic takes only from clients that ask for them by a beta header."""
    asked = request.headers.get("anthropic-beta", "") if vendor == "anthropic" else ""
    allowed = {name for name, beta in BETA_PARAMETERS.items() if beta in asked}
    return {key: value for key, value in body.items() if key not in allowed} if allowed else body


def _checked(wire: Wire, body: Json) -> None:
    """Check a request by the vendor's rules; one that cannot be parsed is invalid too."""
    try:
        wire.check(body)
    except (AttributeError, KeyError, TypeError) as error:
        raise _not_json(wire.vendor) from error


def _timely(wire: Wire, told: Answer | Trouble, *, streams: bool) -> Answer | Trouble:
    """Move an error into the stream if the request streams, and out of it if it does not."""
    if isinstance(told, Trouble):
        late = streams and wire.late and told.kind == "size"
        return Answer(delivery=Delivery(error=told)) if late else told
    return told if streams or told.delivery.error is None else told.delivery.error


def _not_json(vendor: Vendor) -> Refused:
    if vendor == "anthropic":
        said = "The request body is not valid JSON"
        return Refused(400, anthropic_error("invalid_request_error", said))
    if vendor == "gemini":
        return Refused(400, gemini_error(400, "INVALID_ARGUMENT", "Invalid JSON payload received."))
    return Refused(400, openai_error("We could not parse the JSON body of your request."))
