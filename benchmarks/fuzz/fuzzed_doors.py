"""Every route of a real server, with damaged bodies, paths, queries and headers; and its WebSocket.

Requests go to two conversations that are made again from time to time, so that many of them find something. An answer
of 500 or above is a finding (but 503, which a full queue gives), and so are an answer that takes too long, a traceback
in the log, and a server that no longer answers.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.endurance import resident
from benchmarks.fuzz import fuzz_seeds as seeds
from benchmarks.fuzz.fuzz_seeds import as_bytes
from benchmarks.fuzz.mutation import WORDS, mutated
from benchmarks.server_process import CixServer
from contextinfinity.server.app import make_app
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client

DOORS = ("HTTP routes", "/rpc")
SLOW_SECONDS = 60
AT_ONCE = 8
RENEWED = 150
"""Requests after which there are new conversations to ask for."""
GROWTH_MB = 200
SETTINGS = """\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
[server]
requests_per_minute = 0
"""
BODIES: dict[str, Any] = seeds.SEEDS["bodies"] | {
    "POST /v1/chat/completions": {**seeds.REQUESTS["chat"], "user_id": "local"},
    "POST /v1/completions": seeds.REQUESTS["completion"],
    "POST /v1/messages": seeds.REQUESTS["messages"],
    "POST /v1/messages/count_tokens": {**seeds.REQUESTS["messages"], "user_id": "local"},
    "POST /v1/embeddings": seeds.REQUESTS["embeddings"],
    "POST /v1/responses": {**seeds.REQUESTS["responses"], "user_id": "local", "previous_response_id": None},
    "POST /v1/conversations": seeds.REQUESTS["conversation"],
    "POST /v1/conversations/{conversation_id}/items": {"items": seeds.REQUESTS["conversation"]["items"]},
}
QUERIES: dict[str, str] = seeds.SEEDS["queries"]
MEDIA_TYPES = (*("application/json",) * 12, "text/plain", "application/octet-stream", "")
SOUND = 0.4
"""The share of path and query parameters that are left as they should be."""


class DoorResult(NamedTuple):
    """What was seen of one door: requests, the longest time in seconds, megabytes, findings, its name."""

    tried: int
    longest: float
    grown: float
    findings: dict[str, bytes]
    name: str


def fuzz_doors(seconds: float, rng: random.Random, is_named: Callable[[str], bool]) -> Iterator[DoorResult]:
    """Fuzz the routes and the WebSocket of one server."""
    document = make_app(Settings(), open_client).openapi()
    routes = [
        (method.upper(), path, [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if path != "/compactions"  # it has no end
    ]
    with tempfile.TemporaryDirectory() as folder, CixServer(Path(folder), SETTINGS) as server:
        if is_named(DOORS[0]):
            # as many seconds for each route as for a parser
            yield asyncio.run(_FuzzedServer(server, Path(folder), rng).routes(routes, seconds * len(routes) / AT_ONCE))
        if is_named(DOORS[1]):
            yield asyncio.run(_FuzzedServer(server, Path(folder), rng).rpc(seconds * len(seeds.SEEDS["rpc"]) / AT_ONCE))


class _FuzzedServer:
    """A server that is sent damaged requests."""

    def __init__(self, server: CixServer, folder: Path, rng: random.Random) -> None:
        self._server, self._log, self._rng = server, folder / "log", rng
        self._ids: dict[str, str] = {}
        self._tried, self._longest, self._read = 0, 0.0, self._log.stat().st_size
        self._findings: dict[str, bytes] = {}
        self._imports = [path.read_bytes() for path in seeds.EXPORTS.iterdir()]

    async def routes(self, routes: list[tuple[str, str, list[str]]], seconds: float) -> DoorResult:
        """Send requests over a few connections at once."""
        began, memory = time.monotonic(), 0
        await self._renew()

        async def send() -> None:
            nonlocal memory
            while time.monotonic() < began + seconds:
                if self._tried % RENEWED == 0:
                    with suppress(AssertionError):  # they were deleted meanwhile
                        await self._renew()
                if not memory and time.monotonic() > began + seconds / 4:
                    memory = resident(self._server.process.pid)
                await self._one(*self._rng.choice(routes))

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        return self._result(memory, DOORS[0])

    async def rpc(self, seconds: float) -> DoorResult:
        """Send messages over WebSockets."""
        began, known = time.monotonic(), [as_bytes(one) for one in seeds.SEEDS["rpc"]]
        memory = resident(self._server.process.pid)
        while time.monotonic() < began + seconds:
            with suppress(WebSocketException, OSError):
                async with connect(f"ws://127.0.0.1:{self._server.port}/rpc") as socket:
                    for _ in range(20):
                        data = mutated(self._rng, self._rng.choice(known), known)
                        sent = data if self._rng.random() < 0.05 else data.decode("utf-8", "replace")
                        await socket.send(sent)
                        self._tried += 1
                    await socket.send(
                        as_bytes({"jsonrpc": "2.0", "id": "last", "method": "LLMService.get_current_state"}).decode()
                    )
                    await self._until_last(socket)
        return self._result(memory, DOORS[1])

    async def _until_last(self, socket: Any) -> None:
        """Read until the last request is answered."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                while '"id":"last"' not in (text := str(await socket.recv())):
                    if '"code":-32603' in text:
                        self._findings.setdefault("an internal error", text.encode())
        except TimeoutError:
            self._findings.setdefault(f"no answer in {SLOW_SECONDS} s", b"")
        self._longest = max(self._longest, time.monotonic() - began)

    def _result(self, memory: int, name: str) -> DoorResult:
        grown = (resident(self._server.process.pid) - memory) / 1024
        if grown > GROWTH_MB:
            self._findings["memory grew"] = b""
        for line in self._log.read_bytes()[self._read :].splitlines():
            if b"Traceback" in line:
                told = line.rpartition(b"\\n  File ")[2][:200].decode(errors="replace")
                self._findings.setdefault(f"a traceback in the log: {told}", line)
        return DoorResult(self._tried, self._longest, grown, self._findings, name)

    async def _renew(self) -> None:
        """Make conversations with everything that requests can name."""
        lines = self._server.line()
        made = (await lines.post("/threads", {})).value()
        turn = (
            await lines.post(f"/threads/{made['thread_id']}/messages", {"content": "I live in Leuven. Who is Ann?"})
        ).value()
        memory = (await lines.post("/memories", {"content": f"My number is {self._tried}."})).value()
        response = (await lines.post("/v1/responses", {"model": "echo", "input": "Hello."})).value()
        talk = (await lines.post("/v1/conversations", seeds.REQUESTS["conversation"])).value()
        items = (await lines.get(f"/v1/conversations/{talk['id']}/items")).value()["data"]
        chunks = (await lines.get(f"/threads/{made['thread_id']}/turns/{turn['turn_id']}/chunks")).body
        found = json.loads(chunks)
        lines.close()
        self._ids = {
            "thread_id": made["thread_id"],
            "branch_id": made["branch_id"],
            "turn_id": turn["turn_id"],
            "memory_id": str(memory.get("id", "")),
            "response_id": response["id"],
            "conversation_id": talk["id"],
            "item_id": items[0]["id"] if items else "",
            "chunk_id": found[0]["chunk_id"] if isinstance(found, list) and found and "chunk_id" in found[0] else "",
            "compare": turn["turn_id"],
            "number": "0",
            "name": "echo",
            "user_id": "local",
        }

    async def _one(self, method: str, path: str, queries: list[str]) -> None:
        """Send one request and look at the answer."""
        body = self._body(method, path)
        target = self._filled(path) + self._query(queries)
        headers = [f"content-type: {self._rng.choice(MEDIA_TYPES)}"]
        for name, value in (
            ("Idempotency-Key", "k-1"),
            ("Last-Event-ID", "0-1"),
            ("X-Org-Id", "org"),
            ("Accept", "*/*"),
        ):
            if self._rng.random() < 0.1:
                headers.append(f"{name}: {self._word(value)}")
        head = [
            f"{method} {target} HTTP/1.1",
            "host: 127.0.0.1",
            f"content-length: {len(body)}",
            "connection: close",
            *headers,
        ]
        sent = "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + body
        began = time.monotonic()
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                status, answer = await self._exchanged(sent)
        except TimeoutError:
            status, answer = "hung", b""
        except (OSError, IndexError) as error:
            status, answer = f"cut: {type(error).__name__}", b""
        self._tried += 1
        took = time.monotonic() - began
        self._longest = max(self._longest, took)
        if status == "" or (status >= "5" and status != "503"):
            self._findings.setdefault(f"{status} of {method} {path}", sent + b"\n\n----\n" + answer[:3_000])

    async def _exchanged(self, sent: bytes) -> tuple[str, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            writer.write(sent)
            answer = await reader.read()
        finally:
            writer.close()
        return answer.split(b" ", 2)[1].decode(), answer

    def _body(self, method: str, path: str) -> bytes:
        if path == "/import":
            return mutated(self._rng, self._rng.choice(self._imports), self._imports)
        if path == "/mcp":
            return mutated(self._rng, as_bytes(self._rng.choice(seeds.SEEDS["mcp"])), [b"[]"])
        if (seed := BODIES.get(f"{method} {path}")) is None:
            return b"" if self._rng.random() < 0.9 else b'{"a":'
        text = as_bytes(seed)
        for name, value in self._ids.items():
            text = text.replace(b"{%s}" % name.encode(), value.encode())
        return text if self._rng.random() < 0.1 else mutated(self._rng, text, [text])

    def _filled(self, path: str) -> str:
        for part in path.split("/"):
            if part.startswith("{"):
                path = path.replace(part, self._word(self._ids.get(part[1:-1], "x")), 1)
        return path

    def _query(self, names: list[str]) -> str:
        chosen = [name for name in names if self._rng.random() < 0.4]
        pairs = [f"{name}={self._word(QUERIES.get(name) or self._ids.get(name, 'x'))}" for name in chosen]
        return f"?{'&'.join(pairs)}" if pairs else ""

    def _word(self, right: str) -> str:
        """Return a value for a path, a query or a header: the right one or another."""
        if self._rng.random() < SOUND:
            return quote(right, safe="")
        word = self._rng.choice(
            (*WORDS, *self._ids.values(), right[:-1], right + "0", "-1", "99999999999999999999", "%ff", "%00")
        )
        return word[:2_000] if word.startswith("%") else quote(word[:2_000].encode("utf-8", "replace"), safe="")
