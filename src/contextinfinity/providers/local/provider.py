"""The provider of models that run in this process.

Requests use the chat completions format; llama.cpp applies the model's own chat template. Nothing leaves the process. A
prompt that is too long is rejected before it is processed, so that it can be shortened.

Loaded models are shared in this process, one per file and configuration. A model is loaded on first use by its own
thread, which processes requests one at a time. It is unloaded after an idle time, or when its last user releases it. It
writes nothing to disk.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, ProviderEvent, ProviderRequest, RequestOptions
from contextinfinity.errors import ProviderError, SettingsError
from contextinfinity.providers.catalogue import overridden
from contextinfinity.providers.contract import EncodedRequest, Provider, write
from contextinfinity.providers.local.gguf import ModelFile, plain
from contextinfinity.providers.local.weights_file import SMOLLM2, megabytes
from contextinfinity.providers.openai_chat import ChatWire
from contextinfinity.providers.remote import overrides
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.text.tokens import Counter, counter_of

BATCH = 64
"""Prompt tokens per batch; a request can be cancelled between batches. Larger batches are hardly faster."""
READING = "prompt_progress"
SILENT = -1
"""The log level of llama.cpp."""

Told = Callable[[Json], bool]
"""Receives the pieces of an answer, in the model's thread; returning True stops the answer."""


class Load(Struct, frozen=True, kw_only=True):
    """A model file to load, and its options."""

    path: Path
    model_id: str
    window: int
    threads: int
    idle_seconds: float


class Llama:
    """One model, which may or may not be loaded."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.users = 0
        self._server: Any = None
        self._timer: threading.Timer | None = None
        self._asked = 0.0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="llama")

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return self._server is not None

    def begin(self) -> Future[None]:
        """Load it if necessary, in its own thread."""
        return self._worker.submit(self._begin)

    def answer(self, body: Json, put_piece: Told) -> Future[None]:
        """Queue a request; the future raises ``ProviderError`` if it fails."""
        return self._worker.submit(self._answer, body, put_piece)

    def close(self) -> Future[None]:
        """Unload it after its last answer."""
        closing = self._worker.submit(self.unload)
        self._worker.shutdown(wait=False)
        return closing

    def unload(self) -> None:
        """Free its memory."""
        self._stop_timer()
        self._server = None

    def _begin(self) -> None:
        self._stop_timer()
        self._server = self._server or start(self.load)
        self._start_timer()

    def _answer(self, body: Json, put_piece: Told) -> None:
        self._begin()
        try:
            self._server.handle_chat_completions(body, put_piece)
        except (ValueError, RuntimeError) as error:
            raise ProviderError(
                f"{self.load.model_id}: llama.cpp rejected the request: {error}.",
                kind="bad_request",
                hint="Check the model's options in config.toml.",
            ) from error
        finally:
            self._start_timer()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._asked = time.monotonic()
        self._timer = threading.Timer(self.load.idle_seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        with suppress(RuntimeError):  # it was closed in the meantime
            self._worker.submit(self._unload_if_idle)

    def _unload_if_idle(self) -> None:
        if time.monotonic() - self._asked >= self.load.idle_seconds:
            self.unload()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def check_runtime() -> None:
    """Raise ``ProviderError`` if llama.cpp is not installed; do not load it yet."""
    if find_spec("xllamacpp") is None:
        raise ProviderError(
            "Models on this machine run on llama.cpp, and the package xllamacpp is not installed.",
            kind="not_found",
            hint='Install it with pip install "contextinfinity[local]".',
        )


def start(load: Load) -> Any:
    """Load a model; raise ``ProviderError`` if that fails."""
    check_runtime()
    import xllamacpp  # type: ignore[import-untyped]

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(load.path)
    wanted.model_alias = {load.model_id}
    wanted.n_ctx, wanted.n_parallel = load.window, 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = load.threads
    wanted.n_batch = wanted.n_ubatch = BATCH
    wanted.cache_ram_mib = 0  # prompts of other sessions are not cached
    wanted.verbosity, wanted.warmup, wanted.fit_params = SILENT, False, False
    wanted.ui, wanted.n_threads_http, wanted.endpoint_metrics = False, 1, True
    # It insists on a socket: use one in a private folder, which is removed once it listens.
    with tempfile.TemporaryDirectory(prefix="cix-") as private:
        wanted.hostnames = [f"{private}/llama.sock"]
        try:
            server = xllamacpp.Server(wanted)
        except RuntimeError as error:
            raise ProviderError(
                f"llama.cpp cannot load {load.path}.",
                kind="provider",
                hint="Check that it is a complete gguf file of a chat model and that there is enough memory.",
            ) from error
    server.handle_metrics()  # answered by its main loop: a server freed before its loop runs waits for it for ever
    return server


_shared: dict[Load, Llama] = {}
_sharing = threading.Lock()


def take(load: Load) -> Llama:
    """Return the shared model for a configuration; release it with ``give_back``."""
    with _sharing:
        llama = _shared.setdefault(load, Llama(load))
        llama.users += 1
        return llama


async def give_back(llama: Llama) -> None:
    """Release a model; the last release waits until its memory is free."""
    with _sharing:
        llama.users -= 1
        if llama.users:
            return
        del _shared[llama.load]
    await asyncio.wrap_future(llama.close())


@atexit.register
def _unload_all() -> None:
    """End the threads of llama.cpp before the interpreter exits."""
    for llama in _shared.values():
        llama.unload()


_END = object()


async def stream_reply(llama: Llama, body: Json) -> AsyncIterator[Json]:
    """Send a request and yield the pieces of the answer as they arrive; closing the iterator stops the model.

    Progress pieces under ``READING`` come before the answer, so that prompt processing can be stopped, too.
    """
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Json] = asyncio.Queue()
    stopped = threading.Event()

    def put_piece(piece: Json) -> bool:
        try:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)
        except RuntimeError:  # the loop is closed, so there is no reader
            return True
        return stopped.is_set()

    answering = llama.answer({**body, "return_progress": True}, put_piece)
    answering.add_done_callback(lambda _: put_piece(_END))
    try:
        while (piece := await pieces.get()) is not _END:
            yield piece
        answering.result()
    finally:
        stopped.set()
        answering.cancel()


WINDOW = 8192
"""The default limit of a model's window, which costs memory and processing time."""


@dataclass(frozen=True, kw_only=True)
class LocalRunSettings:
    """Options for running a model. ``missing`` is the hint if its file does not exist."""

    threads: int = 1
    idle_seconds: float = 900.0
    window: int = WINDOW
    overrides: Mapping[str, Json] = field(default_factory=dict)
    missing: str = "Check path under [models] in config.toml."


class LocalProvider:
    """``Provider`` of one gguf file."""

    name = "local"

    def __init__(self, file: ModelFile, running: LocalRunSettings | None = None) -> None:
        self._file = file
        self._running = running or LocalRunSettings()
        self._wire = ChatWire(vendor=self.name)
        self._llama: Llama | None = None

    @property
    def missing(self) -> str:
        """Always empty: a missing file is reported when it is used."""
        return ""

    def abilities(self, model_id: str) -> Abilities:
        """Return the capabilities from the file and the settings; the window is at most the model's own."""
        made_for, said = self._file.window, self._running.overrides
        limit = min(made_for or WINDOW, self._running.window)
        usual = Abilities(context_limit=limit, max_output_tokens=limit, tools=False, one_system=True, known=True)
        able = overridden(usual, model_id, said)
        if made_for is not None and able.context_limit > made_for:
            return msgspec.structs.replace(able, context_limit=made_for)
        return able

    def context_limit(self, model_id: str) -> int:
        """Return the context window: the tokens of a request and its answer together."""
        return self.abilities(model_id).context_limit

    def counter(self, model_id: str) -> Counter:
        """Return a counter with the model's own tokenizer, or an estimate if that is unknown."""
        return self._file.counter or counter_of(self.name, model_id)

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Estimate the number of tokens of a request."""
        return self.counter(request.model_id).prompt(request.prompt)

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Encode a request as chat completions."""
        return write(self.name, self._wire, self.abilities(request.model_id), request)

    def options_for(self, request_options: RequestOptions, model_id: str) -> AppliedOptions:
        """Convert request options to those of llama.cpp."""
        return self._wire.convert_options(request_options, self.abilities(model_id))

    def begin(self, model_id: str) -> None:
        """Start to load the model in its own thread, because a request will follow."""
        self._at_work(model_id).begin()

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Send a request and yield the answer token by token; raise ``ProviderError`` if it fails."""
        model_id = written.request.model_id
        llama, reply = self._at_work(model_id), self._wire.accumulate()
        steering = await asyncio.to_thread(self._file.steering)
        body = msgspec.json.decode(written.body)
        body["messages"] = [_plain(message, steering) for message in body["messages"]]
        async with aclosing(stream_reply(llama, body)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if READING not in piece:
                    for delta in reply.feed("", piece):
                        yield delta
        if reply.ended:
            yield self._wire.read(reply.assembled(), self.abilities(model_id))

    async def close(self) -> None:
        """Release the model; it is unloaded when no other provider uses it."""
        llama, self._llama = self._llama, None
        if llama is not None:
            await give_back(llama)

    def _at_work(self, model_id: str) -> Llama:
        if not self._file.path.is_file():
            raise ProviderError(
                f"The weights of {model_id} are missing: {self._file.path} is missing.",
                kind="not_found",
                hint=self._running.missing,
            )
        if self._llama is None:
            self._llama = take(
                Load(
                    path=self._file.path,
                    model_id=model_id,
                    window=self.context_limit(model_id),
                    threads=self._running.threads,
                    idle_seconds=self._running.idle_seconds,
                )
            )
        return self._llama


def _plain(message: dict[str, Any], steering: re.Pattern[str] | None) -> dict[str, Any]:
    """Return a message without control tokens in its text."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": plain(content, steering)}
    if isinstance(content, list):
        return {**message, "content": [_plain_part(part, steering) for part in content]}
    return message


def _plain_part(part: dict[str, Any], steering: re.Pattern[str] | None) -> dict[str, Any]:
    return {**part, "text": plain(part["text"], steering)} if part.get("type") == "text" else part


BUILT_IN_NOTE = (
    f"The built-in model, {SMOLLM2.model_id}, is a small one for demonstration: it shows how this works and knows "
    "little. Name a better one under [models] in config.toml."
)
BUILT_IN_OPTIONS: Json = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}
"""The authors' recommendation, with a small repetition penalty."""
BUILT_IN_WINDOW = 4096
"""Half of its window: a longer prompt takes too long on a small machine."""
BUILT_IN_ANSWER = 512
"""The maximum number of answer tokens: longer answers are rarely useful."""


def local_provider(name: str, model: ModelSettings, settings: Settings) -> Provider:
    """Return the provider of a gguf file; nothing is loaded yet. Raises ``SettingsError`` if it has no path."""
    if model.path is None:
        raise SettingsError(f"models.{name} is a local model without a path.", hint="Name its gguf file with path.")
    return LocalProvider(ModelFile(Path(model.path)), _running(settings, overrides=overrides(model)))


def built_in_provider(settings: Settings) -> LocalProvider:
    """Return the provider of the built-in model; its weights may be missing."""
    running = _running(
        settings,
        window=BUILT_IN_WINDOW,
        overrides={"max_output_tokens": BUILT_IN_ANSWER},
        missing=f"`cix model get` fetches them ({megabytes(SMOLLM2.download)}); or name another model under [models].",
    )
    return LocalProvider(ModelFile(settings.models_dir / SMOLLM2.file), running)


def _running(settings: Settings, **more: object) -> LocalRunSettings:
    local = settings.local
    return LocalRunSettings(threads=local.threads, idle_seconds=local.unload_minutes * 60, **more)  # type: ignore[arg-type]
