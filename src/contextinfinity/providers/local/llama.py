"""Loaded llama.cpp models: one per file and configuration, shared in this process.

A model is loaded on first use by its own thread, which processes requests one at a time. It is unloaded after an idle
time, or when its last user releases it. It writes nothing to disk.
"""

from __future__ import annotations

import asyncio
import atexit
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.errors import ProviderError

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
