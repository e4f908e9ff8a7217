"""What a vendor's wire costs: asking with a hundred messages, hearing a delta, and five hundred rounds of tools.

The vendor is a server on this machine that reads a request and replies as scripted, in the words of the wire-true
fake. CPU is that of the thread that asks; the vendor has a thread of its own there. The bare floor is the least that
Python can do: ``json.dumps``, and a plain stream of bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.content import ANSWER, QUESTION
from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.words import text
from contextinfinity.domain.events import Delta
from contextinfinity.domain.message import Message, TextBlock, ToolResultBlock, ToolUseBlock, say
from contextinfinity.domain.prompt import Prompt, ProviderRequest
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.remote import RemoteProvider, address, overrides, wire
from contextinfinity.providers.transport import VendorConnection
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.vendors.answers import Answer, Call, Tokens
from contextinfinity_testing.vendors.chat import Compatible
from contextinfinity_testing.vendors.messages import Messages
from contextinfinity_testing.vendors.responses import Responses
from contextinfinity_testing.vendors.wire import Asked, Frame, Ids
from contextinfinity_testing.vendors.wire import Wire as Speech

WRITTEN_MS = 5.0
DELTA_MS = 1.0
GROWTH = 1.5
"""How much more a kilobyte may add to a late round than to an early one."""
MESSAGES = 100
ROUNDS = 500
RESULT = 1000
"""Characters that a tool gives back."""
PAUSE_SECONDS = 0.001
"""Between two deltas: each is heard before the next is said."""
SETTLED_SECONDS = 0.005
"""What a round still does once its request is out is done by then."""
STAMP = "0" * 19
"""A placeholder in a delta for the time at which it is sent."""
KEY = "BENCH_KEY"
"""The variable of a key; it opens nothing, and is looked for in everything that comes."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

Says = Callable[[bytes], AsyncIterator[bytes]]
"""What a vendor says to the body of a request, piece by piece."""


@dataclass(frozen=True)
class Vendor:
    """A vendor that is measured: the name of its provider, a model, and its way to speak."""

    provider: str
    model_id: str
    speech: Speech

    def settings(self, port: int) -> ModelSettings:
        """Return what config.toml would say of it."""
        url = f"http://127.0.0.1:{port}" + ("" if self.provider == "anthropic" else "/v1")
        said = {"model_id": self.model_id, "base_url": url, "api_key_env": KEY, "context_limit": 1_000_000}
        return msgspec.convert({"provider": self.provider, **said}, ModelSettings)

    def frames(self, answer: Answer) -> Iterator[Frame]:
        """Put an answer into its words."""
        body = {"model": self.model_id, "messages": [], "stream_options": {"include_usage": True}}
        tokens = Tokens(input=0, output=0, cached=0, written=0, reasoning=0)
        return self.speech.frames(Asked(body=body, tokens=tokens, ids=Ids()), answer)


VENDORS = (
    Vendor("openai", "gpt-5.5", Responses()),
    Vendor("anthropic", "claude-sonnet-4-5", Messages()),
    Vendor("openai_chat", "llama3.1", Compatible()),
)


async def run(bench: Bench) -> list[Row]:
    """Measure the request, the delta and the rounds."""
    os.environ.setdefault(KEY, "sk-bench-0123456789")
    rows = [await _written(bench, vendor) for vendor in VENDORS]
    with bench.scratch() as folder:
        rows += [await _delta(bench, vendor, folder / vendor.provider) for vendor in VENDORS]
        rows.append(await _rounds(bench, folder / "rounds"))
    return rows


@asynccontextmanager
async def listening(says: Says) -> AsyncGenerator[int, None]:
    """Answer requests on a port of this machine, in this event loop."""
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_serve(says, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@contextmanager
def listening_elsewhere(says: Says) -> Iterator[int]:
    """Do the same in a thread of its own, whose CPU is not ours."""
    opened: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        async with listening(says) as port:
            opened.set_result((port, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="vendor")
    thread.start()
    port, loop, over = opened.result()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _serve(says: Says, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(size)
            writer.write(HEAD)
            async for piece in says(body):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client has gone
    finally:
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def conversation(messages: int) -> Prompt:
    """Make a prompt of that many messages: questions, calls, results and answers, and three tools."""
    rng, said = random.Random(7), list[Message]()
    for number in range(messages // 4 + 1):
        call = ToolUseBlock(tool_use_id=f"call_{number}", name="look", input={"at": text(rng, 30), "times": number})
        found = ToolResultBlock(tool_use_id=call.tool_use_id, content=(TextBlock(text=text(rng, RESULT)),))
        asks = Message(role="assistant", blocks=(TextBlock(text=text(rng, 80)), call))
        is_told = Message(role="tool", blocks=(found,))
        said += [say("user", text(rng, QUESTION)), asks, is_told, say("assistant", text(rng, ANSWER))]
    shown = (*said[: messages - 1], say("user", text(rng, QUESTION)))
    system = (text(rng, 2000), text(rng, 4000))
    return Prompt(system=system, messages=shown, tools=_toolbox().specs, markers=(1, messages // 2, messages + 1))


def _toolbox() -> Toolbox:
    tools, answer = Toolbox(mode="enabled", max_rounds=ROUNDS + 100), text(random.Random(3), RESULT)

    async def look(at: str, times: int = 1) -> str:
        """Look at something.

        Args:
            at: What to look at.
            times: How often.
        """
        return f"{times} {answer}"

    for name in ("look", "look_closer", "look_away"):
        tools.add(look, name=name)
    return tools


async def _written(bench: Bench, vendor: Vendor) -> Row:
    """From a prompt to bytes that a vendor has: written, hashed, sent, and the head of the reply read."""
    request = ProviderRequest(model_id=vendor.model_id, prompt=conversation(MESSAGES), cache_key="bench")
    writing, ours, bare = Series(), Series(), Series()
    with listening_elsewhere(_silence) as port:
        said = vendor.settings(port)
        form, line = wire(said, Settings()), VendorConnection(address(said))
        provider = RemoteProvider(form, line, overrides=overrides(said))
        body = form.write(request, provider.abilities(vendor.model_id))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def through_the_sdk() -> None:
            began = time.thread_time()
            written = provider.write(request)
            wrote = time.thread_time()
            async with line.post(form.path(vendor.model_id), written.body, vendor.model_id) as arrived:
                ours.seconds.append(time.thread_time() - began)
                writing.seconds.append(wrote - began)
                assert [chunk async for chunk in arrived.chunks]

        async def through_a_stream() -> None:
            began = time.thread_time()
            data = json.dumps(body).encode()
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data))
            await reader.readuntil(b"\r\n\r\n")
            bare.seconds.append(time.thread_time() - began)
            await reader.readuntil(b"0\r\n\r\n")

        await alternate(3, [through_the_sdk, through_a_stream])
        for series in (writing, ours, bare):
            series.seconds.clear()  # imports and connections were in there
        await alternate(4 * bench.scale.blocks, [through_the_sdk, through_a_stream])
        await _close(writer)
        await provider.close()
    kilobytes = len(provider.write(request).body) / 1000
    return Row(
        what=f"CPU until {MESSAGES} messages have reached the vendor: {vendor.provider}",
        target=f"p50 ≤ {WRITTEN_MS:g} ms",
        result=f"{ours}, of which encoding {writing.p50:.2g} ({kilobytes:.0f} KB)",
        baseline=str(bare),
        ratio=ours.p50 / bare.p50,
        met=ours.p50 <= WRITTEN_MS,
        values={"p50_ms": ours.p50, "p95_ms": ours.p95, "writing_ms": writing.p50, "floor_ms": bare.p50},
    )


async def _silence(body: bytes) -> AsyncIterator[bytes]:
    yield b": nothing to say\n\n"


@dataclass
class Echo:
    """Deltas that say when they were sent, each after the one before it was heard."""

    pieces: int
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def stamped(self, data: bytes) -> bytes:
        """Wait until nothing is under way, then put the moment in."""
        await self.heard.wait()
        self.heard.clear()
        await asyncio.sleep(PAUSE_SECONDS)
        return data.replace(STAMP.encode(), b"%019d" % time.perf_counter_ns())

    def hear(self, said: str, series: Series) -> None:
        """Note how long it took to get here."""
        series.seconds.append((time.perf_counter_ns() - int(said)) / 1e9)
        self.heard.set()


async def _delta(bench: Bench, vendor: Vendor, folder: Path) -> Row:
    """The time from a vendor's write of a delta to the caller's event, beside a line on a bare stream."""
    ours, bare, echo = Series(), Series(), Echo(pieces=3 * bench.scale.blocks)

    async def says(body: bytes) -> AsyncIterator[bytes]:
        for frame in vendor.frames(Answer(pieces=(STAMP,) * echo.pieces)):
            yield await echo.stamped(frame.data) if frame.piece else frame.data

    async def lines(body: bytes) -> AsyncIterator[bytes]:
        for _ in range(echo.pieces):
            yield await echo.stamped(STAMP.encode())

    async with listening(says) as port, listening(lines) as plain, engine_at(vendor, port, folder) as engine:

        async def through_the_engine() -> None:
            echo.heard.set()
            heard = Series()
            async for event in engine.send("new", "go"):
                if isinstance(event, Delta):
                    echo.hear(event.text, heard)
            assert len(heard.seconds) == echo.pieces
            ours.seconds.extend(heard.seconds[1:])  # the first waits until its step is durable

        async def through_a_stream() -> None:
            echo.heard.set()
            reader, writer = await asyncio.open_connection("127.0.0.1", plain)
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(echo.pieces):
                await reader.readline()
                echo.hear((await reader.readline()).decode(), bare)
            await _close(writer)

        await alternate(max(1, bench.scale.blocks // 4), [through_the_engine, through_a_stream])
    return Row(
        what=f"delta from the vendor's socket to our event: {vendor.provider}",
        target=f"p95 ≤ {DELTA_MS:g} ms",
        result=str(ours),
        baseline=str(bare),
        ratio=ours.p50 / bare.p50,
        met=ours.p95 <= DELTA_MS,
        values={"p50_ms": ours.p50, "p95_ms": ours.p95, "floor_p50_ms": bare.p50, "floor_p95_ms": bare.p95},
    )


def engine_at(vendor: Vendor, port: int, folder: Path) -> Engine:
    """Put an engine together whose only model is at a vendor."""
    said = vendor.settings(port)
    provider = RemoteProvider(wire(said, Settings()), VendorConnection(address(said)), overrides=overrides(said))
    model = Model(name="it", provider=provider, model_id=vendor.model_id)
    models = Models(by_name={"it": model}, default="it")
    return Engine(SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams"), models, Setup(tools=_toolbox()))


class Looking:
    """A turn whose model asks for a tool again and again: at once so many times, then whenever it is triggered.

    ``came`` is set when a request waits for ``go``.
    """

    def __init__(self, vendor: Vendor, free: int, told: int) -> None:
        self.kilobytes: list[float] = []
        self.cost, self.floor = Series(), Series()
        self._vendor, self._free, self._last = vendor, free, free + told
        self.came, self.go = asyncio.Event(), asyncio.Event()
        self._asked, self._body = 0, b""

    async def says(self, body: bytes) -> AsyncIterator[bytes]:
        """Ask for the tool, or say the last word."""
        number, self._asked, self._body = self._asked, self._asked + 1, body
        if number >= self._free:
            self.came.set()
            await self.go.wait()
            self.go.clear()
        call = Call(name="look", arguments={"at": "the sky", "times": number}, id=f"call_{number}")
        answer = Answer(tool_calls=(call,)) if number < self._last else Answer(text="done")
        for frame in self._vendor.frames(answer):
            yield frame.data

    async def play(self, folder: Path) -> None:
        """Read the turn's events to the end."""
        async with listening(self.says) as port, engine_at(self._vendor, port, folder) as engine:
            turn = await engine.ask("new", "Look!")
        assert (turn.text, self._asked) == ("done", self._last + 1), turn.error

    async def round(self) -> None:
        """From an answer that asks for a tool to the next request, and what ``json.dumps`` costs of that."""
        began = time.process_time()
        self.came.clear()
        self.go.set()
        await self.came.wait()
        await asyncio.sleep(SETTLED_SECONDS)
        self.cost.seconds.append(time.process_time() - began)
        value = msgspec.json.decode(self._body)
        began = time.process_time()
        json.dumps(value)
        self.floor.seconds.append(time.process_time() - began)
        self.kilobytes.append(len(self._body) / 1000)


async def _rounds(bench: Bench, folder: Path) -> Row:
    """Three turns, at their beginning, further on and near the last round, take rounds by turns: moods hit all alike.

    What a kilobyte adds from the first to the second is what it may add from there to the third.
    """
    told, count = (30, ROUNDS) if bench.scale.blocks > 2 else (4, 20)
    turns = [Looking(VENDORS[-1], free, told) for free in (0, count // 5, count - told)]
    async with asyncio.TaskGroup() as playing:
        for place, turn in enumerate(turns):
            playing.create_task(turn.play(folder / str(place)))
            await turn.came.wait()
        await alternate(told, [turn.round for turn in turns])
        for turn in turns:
            turn.go.set()
    size = [statistics.median(turn.kilobytes) for turn in turns]
    cost, bare = [turn.cost.p50 for turn in turns], [turn.floor.p50 for turn in turns]
    added = [(cost[at + 1] - cost[at]) / (size[at + 1] - size[at]) for at in (0, 1)]
    shown = [f"{ms:.3g} ms at {kb:.0f} KB" for ms, kb in zip(cost, size, strict=True)]
    growth = max(added[1], 0.0) / max(added[0], 1e-6)
    return Row(
        what=f"turn with {count} tool rounds: CPU per added KB, late rounds relative to early ones",
        target=f"≤ {GROWTH:g}",
        result=f"{growth:.2f}: {', '.join(shown)}",
        baseline=", ".join(f"{ms:.2g}" for ms in bare) + " ms",
        ratio=cost[-1] / bare[-1],
        met=growth <= GROWTH,
        values={"growth": growth, "first_ms": cost[0], "early_ms": cost[1], "late_ms": cost[2], "late_kb": size[2]},
    )
