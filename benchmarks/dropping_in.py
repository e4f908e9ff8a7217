"""What the door for other vendors' clients adds before a model is asked, and to each word that comes back.

Before: the door and a large ledger in this process, over a socket, and a model that notes when it is asked; beside it
the same engine without the door, which takes what context and commit take. Words: a real server process, and an
endpoint that puts the time into every word; beside it words that come straight from there.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

from benchmarks.harness import Bench, Row, Series, added_row, alternate
from benchmarks.ledgers import ledger
from benchmarks.prefix import ANSWERED, ASKED, DRAIN_SECONDS
from benchmarks.server_process import CixServer, HttpConnection
from benchmarks.words import text
from contextinfinity.client.local import LocalClient
from contextinfinity.domain.prompt import Abilities, ProviderRequest
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.prompt.assemble import shared
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply
from contextinfinity.server.serving import ServerProcess
from contextinfinity.settings import load_settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore

ADDED = "time that /v1 adds before the model is called"
BY_NAME_MS, BY_PREFIX_MS, DELTA_MS, LESS = 10.0, 15.0, 2.0, 0.01
RESENT = 1_000
"""Exchanges that a client sends again with every message."""
WORDS, PACE_SECONDS = 40, 0.005
TURNS = 200
WINDOW = 32_000
CHAT = "/v1/chat/completions"
SETTINGS = """\
[general]
default_model = "up"
[models.up]
provider = "openai_chat"
model_id = "gpt-4o"
base_url = "http://127.0.0.1:{port}/v1"
context_limit = {window}
max_output_tokens = 1024
[server]
requests_per_minute = 0
[retrieval]
top_k = 0
[memory]
enabled = false
"""
TRAILS = (
    "INSERT OR IGNORE INTO trail (turn_id, session_id, asked, answered, alone, body) "
    "SELECT id, session_id, random(), random(), random(), random() FROM turn"
)
NAMED, FLOOR = {"X-Thread-Id": "named"}, {"X-Thread-Id": "floor"}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Upstream:
    """An endpoint that speaks chat completions."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.words: Callable[[], str] = lambda: "Fine."
        self.is_slow = False
        self.writers: list[asyncio.StreamWriter] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other on a connection."""
        self.writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                for _ in range(WORDS if self.is_slow else 1):
                    if self.is_slow:
                        await asyncio.sleep(PACE_SECONDS)
                    _write(writer, {"content": f"{perf_counter():.6f} " if self.is_slow else self.words()})
                _write(writer, {}, "stop")
                writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has disconnected


def _write(writer: asyncio.StreamWriter, delta: dict[str, str], finish: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    told = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]}
    line = b"data: " + json.dumps(told).encode() + b"\n\n"
    writer.write(b"%x\r\n%b\r\n" % (len(line), line))


@asynccontextmanager
async def upstream() -> AsyncGenerator[tuple[Upstream, int]]:
    """Run an endpoint."""
    made = Upstream()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0, limit=2**24)
    try:
        yield made, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in made.writers:
            writer.close()
        await asyncio.sleep(0)


async def run(bench: Bench) -> list[Row]:
    """Measure everything."""
    is_small = bench.scale.blocks <= 2
    async with upstream() as (endpoint, port):
        with bench.scratch() as folder:
            rows = await _before(bench, folder, 20 if is_small else RESENT)
            rows += [await _deltas(bench, endpoint, port, folder / "words")]
            rows += [await _repeated(endpoint, port, folder / "talks", 8 if is_small else TURNS)]
    return rows


def _prepare(folder: Path, port: int) -> str:
    """Make a folder for a server, and return its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    return SETTINGS.format(port=port, window=WINDOW)


def _with_trails(path: Path, kept: Path) -> Path:
    """Copy a ledger, and give every turn of it a trail that leads nowhere."""
    shutil.copyfile(kept, path)
    connection = apsw.Connection(str(path))
    connection.execute(TRAILS)
    connection.close()
    return path


def _said(exchanges: int) -> list[dict[str, str]]:
    rng = random.Random(13)
    sides = (("user", 200), ("assistant", 800))
    return [{"role": role, "content": text(rng, size)} for _ in range(exchanges) for role, size in sides]


def _exchange(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": "Fine."}]


def _body(messages: list[dict[str, str]], question: str) -> bytes:
    asked = [*messages, {"role": "user", "content": question}]
    return json.dumps({"model": "up", "stream": True, "messages": asked}).encode()


# --- before the model is asked ---


class Stamped:
    """A model that notes when it is asked."""

    def __init__(self) -> None:
        self.asked = 0.0

    def script(self, request: ProviderRequest) -> ScriptedReply:
        """Answer anything."""
        self.asked = perf_counter()
        return ScriptedReply(pieces=("Fine.",))

    def models(self) -> Models:
        """Give it as the one model there is."""
        abilities = Abilities(context_limit=WINDOW, max_output_tokens=1024, encoding="o200k_base", known=True)
        model = Model(name="up", provider=ScriptedProvider(self.script, abilities), model_id="gpt-4o")
        return Models(by_name={"up": model}, default="up")


@asynccontextmanager
async def _serving(client: LocalClient, folder: Path) -> AsyncGenerator[HttpConnection]:
    """Have the door serve from this process: nothing is indexed behind it, and the engine can be asked as well."""
    (folder / "config.toml").write_text("[server]\nrequests_per_minute = 0\n", encoding="utf-8")
    listening = socket.create_server(("127.0.0.1", 0))
    worker = ServerProcess(load_settings(data_dir=folder).settings, lambda _: client)
    serving = asyncio.create_task(worker.serve(sockets=[listening]))
    line = HttpConnection(listening.getsockname()[1])
    for _ in range(1000):
        if worker.started:
            break
        await asyncio.sleep(0.01)
    try:
        yield line
    finally:
        line.close()
        worker.end()
        await serving


async def _before(bench: Bench, folder: Path, resent: int) -> list[Row]:
    """Ask by name, by what was said, and the engine itself, in turn: three conversations of the same length."""
    stored = min(bench.scale.ledgers[-1], 100_000)
    path = _with_trails(folder / "ledger.db", await ledger(bench, stored))
    model, messages = Stamped(), _said(resent)
    engine = Engine(SqliteStore(path), JournalFolder(folder / "streams"), model.models())
    client = LocalClient(engine)
    by_name, by_prefix, floor = Series(), Series(), Series()
    async with _serving(client, folder) as line:
        for headers in ({}, NAMED, FLOOR):
            await _hear(line, _body(messages, "Begin."), headers)
        await engine.job_runner.drain(DRAIN_SECONDS, folds=True)
        messages += _exchange("Begin.")

        async def named() -> None:
            line.close()  # it may have been idle for longer than the server keeps it
            for number in range(bench.scale.reads):
                await _timed(model, by_name, _hear(line, _body([], f"{number}?"), NAMED))

        async def resending() -> None:
            line.close()
            for number in range(bench.scale.reads):
                body = _body(messages, f"{number}?")
                messages.extend(_exchange(f"{number}?"))
                await _timed(model, by_prefix, _hear(line, body, {}))

        async def alone() -> None:
            for number in range(bench.scale.reads):
                await _timed(model, floor, _ask(client, f"{number}?"))

        sides = (named, resending, alone)
        await alternate(1, sides)
        for series in (by_name, by_prefix, floor):
            series.seconds.clear()  # the first block loaded what loads late
        await alternate(max(2, bench.scale.blocks // 2), sides)
    kept = f"{stored:,} turns stored"
    return [
        added_row(f"{ADDED}, thread named by header, {kept}", by_name, floor, BY_NAME_MS),
        added_row(f"{ADDED}, thread found by {2 * resent:,} resent messages, {kept}", by_prefix, floor, BY_PREFIX_MS),
    ]


async def _timed(model: Stamped, series: Series, asking: Awaitable[None]) -> None:
    began = perf_counter()
    await asking
    series.seconds.append(model.asked - began)


async def _hear(line: HttpConnection, body: bytes, headers: dict[str, str]) -> None:
    async with aclosing(line.chunks(CHAT, body, headers)) as chunks:
        async for _ in chunks:
            pass


async def _ask(client: LocalClient, question: str) -> None:
    await client.conversations.ask(FLOOR["X-Thread-Id"], question, use_memory=False, may_ask_back=False)


# --- words on their way back ---


async def _deltas(bench: Bench, endpoint: Upstream, port: int, folder: Path) -> Row:
    """Time words from the endpoint to a client, through the server and straight."""
    passed, straight = Series(), Series()
    endpoint.is_slow = True
    with CixServer(folder, _prepare(folder, port)) as server:
        lines = ((server.line(), passed), (HttpConnection(port), straight))
        for number in range(max(2, bench.scale.blocks // 2)):
            for line, series in lines:
                async with aclosing(line.chunks(CHAT, _body([], f"How long {number}?"))) as chunks:
                    async for chunk in chunks:
                        series.seconds += [perf_counter() - sent for sent in _times(chunk)]
        for line, _ in lines:
            line.close()
    endpoint.is_slow = False
    added = max(0.0, passed.p95 - straight.p95)
    return Row(
        what="delta from the model's endpoint through /v1 to the client",
        target=f"p95 ≤ {DELTA_MS:g} ms",
        result=str(passed),
        baseline=f"without /v1: {straight}",
        met=passed.p95 <= DELTA_MS,
        values={"p50_ms": passed.p50, "p95_ms": passed.p95, "added_p95_ms": added, "straight_p95_ms": straight.p95},
    )


def _times(chunk: bytes) -> list[float]:
    """Read when the words of a chunk were sent."""
    told = [json.loads(line[6:]) for line in chunk.split(b"\n") if line.startswith(b"data: {")]
    words = [choice["delta"].get("content") for each in told for choice in each["choices"]]
    return [float(word) for each in words if each for word in each.split()]


# --- what repeats ---


async def _repeated(endpoint: Upstream, port: int, folder: Path, turns: int) -> Row:
    """Hold the same conversation through both doors, and see how much of each request repeats the one before."""
    with CixServer(folder, _prepare(folder, port)) as server:
        line = server.line()
        theirs = await _talk(endpoint, turns, lambda said: _resend(line, said))
        native = await _talk(endpoint, turns, lambda said: _say(line, said[-1]["content"]))
        line.close()
    return Row(
        what=f"share of a request that repeats the one before, {turns} turns through /v1, all resent",
        target="as over the native API",
        result=f"{theirs:.1%}",
        baseline=f"native API: {native:.1%}",
        met=theirs >= native - LESS,
        values={"share": theirs, "native_share": native},
    )


async def _talk(endpoint: Upstream, turns: int, send: Callable[[list[dict[str, str]]], Awaitable[None]]) -> float:
    """Return the share of all bytes that repeat."""
    rng, said = random.Random(17), list[dict[str, str]]()
    endpoint.bodies.clear()
    for _ in range(turns):
        answer = text(rng, ANSWERED * 4)
        endpoint.words = lambda answer=answer: answer  # type: ignore[misc]
        said.append({"role": "user", "content": text(rng, ASKED * 4)})
        await send(said)
        said.append({"role": "assistant", "content": answer})
    endpoint.words = lambda: "Fine."
    common = total = 0
    before: Any = None
    for body in map(json.loads, endpoint.bodies):
        repeated, size = shared(before, body)
        common, total, before = common + repeated, total + size, body
    return common / total


async def _resend(line: HttpConnection, said: list[dict[str, str]]) -> None:
    await _hear(line, _body(said[:-1], said[-1]["content"]), {})


async def _say(line: HttpConnection, question: str) -> None:
    body = {"content": question, "use_memory": False, "may_ask_back": False}
    assert (await line.post("/threads/native/messages", body)).status == 200
