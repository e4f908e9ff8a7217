"""Everything that parses bytes of strangers in one process, each with valid inputs and the errors it may raise.

A target takes bytes and returns or raises an error of the package; any other exception is a finding, and so is one
that takes longer than the limit.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.fuzz import fuzz_seeds as seeds
from benchmarks.fuzz.fuzz_seeds import as_bytes
from contextinfinity.client.local import LocalClient
from contextinfinity.dialects.anthropic.reading import incoming, incoming_to_count
from contextinfinity.dialects.openai_chat import OpenAIChat, read_embeddings
from contextinfinity.dialects.openai_completions import OpenAICompletions
from contextinfinity.dialects.openai_responses import reading
from contextinfinity.domain.prompt import Abilities
from contextinfinity.domain.session import Owner
from contextinfinity.errors import ContextInfinityError
from contextinfinity.exchange.importer import import_file
from contextinfinity.mcp_server.protocol import answer
from contextinfinity.providers.anthropic import AnthropicWire
from contextinfinity.providers.gemini import GeminiWire
from contextinfinity.providers.local import gguf
from contextinfinity.providers.openai_chat import ChatWire
from contextinfinity.providers.openai_responses import ResponsesWire
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.providers.transport import SseDecoder
from contextinfinity.settings import Settings, load_settings
from contextinfinity.storage.encryption import PLAIN
from contextinfinity.storage.invariants import check_json, check_message
from contextinfinity.storage.journal.journal_reader import from_line
from contextinfinity.text.image_size import media_type_of, size_of
from contextinfinity.wiring import open_client, open_engine, store_in_memory
from contextinfinity.workspace.history_file import HistoryStore
from contextinfinity.workspace.symbols import SymbolIndex
from contextinfinity.workspace.urls import _page

ABILITIES = Abilities(context_limit=8_192, tools=True, images=True)
WIRES = {
    "openai_chat": ChatWire,
    "openai_responses": ResponsesWire,
    "anthropic": AnthropicWire,
    "gemini": GeminiWire,
}


class FuzzTarget(NamedTuple):
    """What reads bytes, and valid bytes for it."""

    name: str
    read: Callable[[bytes], object]
    seeds: list[bytes]


def targets(folder: Path, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> Iterator[FuzzTarget]:
    """Yield every target; what they write goes below the folder."""
    logging.disable(logging.WARNING)
    exports = [path for path in sorted(seeds.EXPORTS.iterdir()) if path.suffix in (".json", ".jsonl")]
    for path in exports:
        lines = path.read_bytes()
        yield FuzzTarget(f"import {path.name}", _importer(folder / path.name, loop), [lines, *lines.splitlines()[:3]])
    archives = [path.read_bytes() for path in sorted(seeds.EXPORTS.glob("*.zip"))]
    yield FuzzTarget("import an archive", _importer(folder / "export.zip", loop), archives)
    yield FuzzTarget(
        "import files of an archive", _repacked(folder / "repacked.zip", loop), [_unpacked(one) for one in archives]
    )
    yield FuzzTarget("import cix", _importer(folder / "export.cix", loop), [loop.run_until_complete(_exported(folder))])
    yield FuzzTarget("/v1/chat/completions", _checked(OpenAIChat().read), [as_bytes(seeds.REQUESTS["chat"])])
    yield FuzzTarget("/v1/completions", _checked(OpenAICompletions().read), [as_bytes(seeds.REQUESTS["completion"])])
    yield FuzzTarget("/v1/messages", _checked(incoming), [as_bytes(seeds.REQUESTS["messages"])])
    yield FuzzTarget("/v1/messages/count_tokens", _checked(incoming_to_count), [as_bytes(seeds.REQUESTS["messages"])])
    yield FuzzTarget(
        "/v1/responses", lambda data: _check(reading.read(data).incoming), [as_bytes(seeds.REQUESTS["responses"])]
    )
    yield FuzzTarget("/v1/embeddings", read_embeddings, [as_bytes(seeds.REQUESTS["embeddings"])])
    for name, stream in seeds.STREAMS.items():
        yield FuzzTarget(f"stream of {name}", _streamed(name), [_sse(stream), as_bytes([data for _, data in stream])])
    client = open_client(Settings(), in_memory=True)
    loop.run_until_complete(client.__aenter__())
    stack.callback(lambda: loop.run_until_complete(client.__aexit__(None, None, None)))
    yield FuzzTarget("MCP", _mcp(client, loop), [as_bytes(one) for one in seeds.SEEDS["mcp"]])
    yield FuzzTarget("settings", _settings(folder / "config.toml"), [seeds.SETTINGS, *seeds.SETTINGS.split(b"\n[")])
    yield FuzzTarget(
        "scripted model", _file(folder / "script.json", ScriptedProvider), [as_bytes(seeds.REQUESTS["script"])]
    )
    yield FuzzTarget("journal", lambda data: [from_line(line, PLAIN) for line in data.split(b"\n")], [seeds.JOURNAL])
    yield FuzzTarget("history file", _history(folder / "history"), [seeds.HISTORY * 3])
    yield FuzzTarget(
        "page of the web", lambda data: _page("http://a/b", "text/html; charset=utf-8", data), [seeds.PAGE]
    )
    yield FuzzTarget("picture", lambda data: (media_type_of(data), size_of(data)), _pictures())
    yield FuzzTarget("weights", _file(folder / "model.gguf", gguf.all_values), [_gguf()])
    yield FuzzTarget("source files", _symbols(folder / "repository"), _sources())


# --- imports ---


def _importer(path: Path, loop: asyncio.AbstractEventLoop) -> Callable[[bytes], object]:
    store = store_in_memory()

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return loop.run_until_complete(import_file(store, path, owner=Owner()))

    return read


def _unpacked(archive: bytes) -> bytes:
    """Return the texts of an archive as JSON."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        names = [name for name in opened.namelist() if name.endswith(".json")]
        return as_bytes({name: json.loads(opened.read(name)) for name in names})


def _repacked(path: Path, loop: asyncio.AbstractEventLoop) -> Callable[[bytes], object]:
    """Put damaged files into a sound archive."""
    read = _importer(path, loop)

    def repack(data: bytes) -> object:
        try:
            files = json.loads(data)
        except (ValueError, RecursionError):
            files = data.decode(errors="replace")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as opened:
            for name, value in files.items() if isinstance(files, dict) else [("conversations.json", files)]:
                opened.writestr(str(name).encode(errors="replace").decode()[:100] or "x", _text(value))
        return read(packed.getvalue())

    return repack


def _text(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


async def _exported(folder: Path) -> bytes:
    """Make a conversation with a branch, a pin and a memory, and export it."""
    (folder / "made").mkdir()
    (folder / "made" / "config.toml").write_text('[general]\ndefault_model = "e"\n[models.e]\nprovider = "scripted"\n')
    async with open_engine(load_settings(data_dir=folder / "made").settings) as engine:
        thread = (await engine.ask("new", "I live in Leuven. We decided to use SQLite.")).thread_id
        await engine.ask(thread, "And what about `parse_line` in a.py?")
        await engine.pin(thread, "It is blue.")
        await engine.rollback(thread, to=1)
        await engine.job_runner.drain(10)
        return b"".join([part async for part in await LocalClient(engine).exports.open("cix", thread_id=thread)])


# --- wires ---


def _checked(read: Callable[[bytes], Any]) -> Callable[[bytes], object]:
    return lambda data: _check(read(data))


def _check(request: Any) -> None:
    """Check that what was accepted can be stored."""
    for message in request.messages:
        check_message(message)
    check_json("params", request.params)
    check_json("sent", request.sent)


def _sse(stream: list[tuple[str, Any]]) -> bytes:
    lines = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in stream]
    return "".join(lines).encode()


def _streamed(name: str) -> Callable[[bytes], object]:
    wire = WIRES[name]()
    order = [event for event, _ in seeds.STREAMS[name]]

    def read(data: bytes) -> object:
        events = _events(data, order)
        reply = wire.accumulate()
        for event, text in events:
            if text == "[DONE]":
                break
            try:
                value = msgspec.json.decode(text)
            except (ValueError, RecursionError):  # ``RemoteProvider`` reports those before
                return None
            list(reply.feed(event, value))
        whole = reply.assembled()
        return msgspec.json.encode(wire.read(whole, ABILITIES))

    return read


def _events(data: bytes, order: list[str]) -> list[tuple[str, str]]:
    """Read events of a stream, or of a list of JSON values, which can be damaged in their structure."""
    if data[:1] == b"[":
        try:
            values = msgspec.json.decode(data, type=list[Any])
        except (ValueError, RecursionError):
            return []
        named = [order[min(number, len(order) - 1)] for number in range(len(values))]
        return [(name, msgspec.json.encode(value).decode()) for name, value in zip(named, values, strict=True)]
    decoder = SseDecoder()
    half = len(data) // 2
    return [*decoder.feed(data[:half]), *decoder.feed(data[half:]), *decoder.close()]


def _mcp(client: LocalClient, loop: asyncio.AbstractEventLoop) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        reply = loop.run_until_complete(answer(client, data))
        text = msgspec.json.encode(reply)
        if b'"code":-32603' in text:
            raise AssertionError(f"an internal error: {text[:200]!r}")
        return reply

    return read


# --- files ---


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def write_and_read(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return write_and_read


def _settings(path: Path) -> Callable[[bytes], object]:
    return _file(path, lambda file: load_settings(file, environ={"HOME": str(path.parent)}))


def _history(folder: Path) -> Callable[[bytes], object]:
    store = HistoryStore(folder)
    store.append_message(store.new_session(), "user", "Hello.")
    (file,) = folder.rglob("*.jsonl")

    def read(data: bytes) -> object:
        file.unlink()
        file.write_bytes(data)
        fresh = HistoryStore(folder)
        listed = fresh.list_sessions()
        fresh.search("hello")
        return [fresh.get_session_messages_for_context(one["session_id"]) for one in listed[:3]]

    return read


def _pictures() -> list[bytes]:
    png = base64.b64decode(seeds.PIXEL)
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc00011080010002003012200")
    gif = b"GIF89a\x10\x00\x20\x00\x80\x00\x00"
    webp = b"RIFF\x24\x00\x00\x00WEBPVP8 \x18\x00\x00\x000\x01\x00\x9d\x01\x2a\x10\x00\x20\x00"
    return [png, jpeg, gif, webp, webp.replace(b"VP8 ", b"VP8X"), webp.replace(b"VP8 ", b"VP8L")]


def _gguf() -> bytes:
    """Return the beginning of a file of weights with a few values."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.context_length") + struct.pack("<II", 4, 2048),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values)


def _sources() -> list[bytes]:
    root = Path(__file__).parents[2]
    return [(root / path).read_bytes()[:6_000] for path in ("benchmarks/harness.py", "src/contextinfinity/errors.py")]


def _symbols(root: Path) -> Callable[[bytes], object]:
    root.mkdir()
    names = ("a.py", "a.js", "a.ts", "a.c", "a.cpp", "a.go", "a.rs", "a.java", "a.rb", "a.php", "a.cs")

    def read(data: bytes) -> object:
        name = names[len(data) % len(names)]
        (root / name).write_bytes(data)
        index = SymbolIndex(root)
        index.refresh()
        return index.render(name), index.importance(), index.clusters()

    return read


EXPECTED = (ContextInfinityError,)
