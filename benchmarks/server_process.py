"""A real ``cix serve`` process and a minimal HTTP/1.1 connection to it, for load and fault tests.

The connection supports only what our server sends, so that the load generator uses little CPU time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

LONGEST_LINE = 2**24
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class ConnectionCut(Exception):
    """The connection was closed before the end of the response."""


class HttpResponse(NamedTuple):
    """A complete response."""

    status: int
    body: bytes

    def value(self) -> Any:
        """Decode the JSON body; raise AssertionError unless the status is 200."""
        assert self.status == 200, self.body.decode()
        return json.loads(self.body)


class ServerEvent(NamedTuple):
    """A server-sent event."""

    name: str
    data: Any
    id: str | None


class CixServer:
    """A server process on one data folder, which can be killed and started again."""

    def __init__(self, folder: Path, settings: str = "", *, workers: int = 1) -> None:
        self._folder = folder
        self._workers = workers
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(settings, encoding="utf-8")
        self.start()

    def start(self) -> None:
        """Start it on a free port and wait until it accepts connections."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
        command = [sys.executable, "-m", "contextinfinity", "serve", "--port", "0", "--workers", self._workers]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*map(str, command), "--json", "--data-dir", str(self._folder)],
                env=inherited,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self._folder / "log").read_text()[-2000:]
        self.port = int(json.loads(line)["url"].rpartition(":")[2])

    def end(self, how: int = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Kill all of its processes at once."""
        workers = self.workers()
        self.end(signal.SIGKILL)  # first: it would replace a worker that dies
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        if self._workers == 1:
            return [self.process.pid]
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of its workers."""
        return sum(map(_cpu_seconds, self.workers()))

    def line(self) -> HttpConnection:
        """Return a connection, which is opened by its first request."""
        return HttpConnection(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class HttpConnection:
    """One keep-alive connection, reopened after it was cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> HttpResponse:
        """Read something."""
        return await self._request("GET", path, None, {})

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Send JSON."""
        return await self._request("POST", path, body, headers or {})

    async def stream(
        self, path: str, body: object | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[ServerEvent]:
        """Read a stream to its end: a new one (with a body) or a running one."""
        try:
            status, chunks = await self._begin("GET" if body is None else "POST", path, body, headers or {})
            if status == 503:  # for the moment
                raise ConnectionCut("503")
            if status != 200:
                answer = b"".join([chunk async for chunk in chunks])
                raise AssertionError(f"{status} {answer.decode()}")
            rest = b""
            async for chunk in chunks:
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    if (event := _event(block)) is not None:
                        yield event
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionCut(str(error)) from error
        except BaseException:
            self.close()  # a response may be only partly read
            raise

    async def chunks(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """Send JSON and yield the chunks of the response."""
        status, chunks = await self._begin("POST", path, body, headers or {})
        assert status == 200, b"".join([chunk async for chunk in chunks]).decode()
        async for chunk in chunks:
            yield chunk

    def close(self) -> None:
        """Close the connection."""
        if self._ends is not None:
            self._ends[1].close()
            self._ends = None

    async def _request(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> HttpResponse:
        try:
            status, chunks = await self._begin(method, path, body, headers)
            return HttpResponse(status, b"".join([chunk async for chunk in chunks]))
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionCut(str(error)) from error

    async def _begin(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        if self._ends is None:
            self._ends = await asyncio.open_connection("127.0.0.1", self._port, limit=LONGEST_LINE)
        reader, writer = self._ends
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(sent)}"]
        head += ["content-type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*head, "", ""]).encode() + sent)
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        named = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        length = named.get("content-length")
        return int(first.split()[1]), _chunks(reader) if length is None else _measured(reader, int(length))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


async def _measured(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    yield await reader.readexactly(length)


def _event(block: bytes) -> ServerEvent | None:
    """Read an event; None for a comment."""
    pairs = (line.partition(":") for line in block.decode().split("\n"))
    fields = {name: value.removeprefix(" ") for name, _, value in pairs}
    return ServerEvent(fields["event"], json.loads(fields["data"]), fields.get("id")) if "event" in fields else None


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
