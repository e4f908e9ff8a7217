"""A model at work in this process: one for each file and way to load it, whoever asks.

It is loaded when it is first asked, by a thread of its own that takes one request after the other, and let go of when
nobody has asked for a while, or when its last user leaves. Nothing of it is kept on the disk.
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
"""Tokens of a prompt that are read at a time; between two batches it can be stopped. More is hardly faster."""
READING = "prompt_progress"
SILENT = -1
"""How much llama.cpp writes to the terminal."""

Told = Callable[[Json], bool]
"""Is given the pieces of an answer, in the model's thread; true stops the answer."""


class Load(Struct, frozen=True, kw_only=True):
    """What is loaded, and how."""

    path: Path
    model_id: str
    window: int
    threads: int
    idle_seconds: float


class Llama:
    """One loaded model, or one that will be."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.users = 0
        self._server: Any = None
        self._timer: threading.Timer | None = None
        self._asked = 0.0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="llama")

    @property
    def is_loaded(self) -> bool:
        """Whether it takes memory at present."""
        return self._server is not None

    def begin(self) -> Future[None]:
        """Load it, if it is not: somebody is going to ask."""
        return self._worker.submit(self._begin)

    def answer(self, body: Json, tell: Told) -> Future[None]:
        """Have a request answered as soon as those before it are; ``ProviderError`` when that is not possible."""
        return self._worker.submit(self._answer, body, tell)

    def close(self) -> Future[None]:
        """Let go of it once its last answer is given."""
        closing = self._worker.submit(self.unload)
        self._worker.shutdown(wait=False)
        return closing

    def unload(self) -> None:
        """Give its memory back."""
        self._stop_timer()
        self._server = None

    def _begin(self) -> None:
        self._stop_timer()
        self._server = self._server or start(self.load)
        self._start_timer()

    def _answer(self, body: Json, tell: Told) -> None:
        self._begin()
        try:
            self._server.handle_chat_completions(body, tell)
        except (ValueError, RuntimeError) as error:
            raise ProviderError(
                f"{self.load.model_id}: llama.cpp refused the request: {error}.",
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
    """Refuse to go on where llama.cpp is not installed; it is not loaded yet."""
    if find_spec("xllamacpp") is None:
        raise ProviderError(
            "Models on this machine run on llama.cpp, and the package xllamacpp is not installed.",
            kind="not_found",
            hint='Install it with pip install "contextinfinity[local]".',
        )


def start(load: Load) -> Any:
    """Load a model."""
    check_runtime()
    import xllamacpp  # type: ignore[import-untyped]

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(load.path)
    wanted.model_alias = {load.model_id}
    wanted.n_ctx, wanted.n_parallel = load.window, 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = load.threads
    wanted.n_batch = wanted.n_ubatch = BATCH
    wanted.cache_ram_mib = 0  # prompts of other sessions are not kept beside the present one
    wanted.verbosity, wanted.warmup, wanted.fit_params = SILENT, False, False
    wanted.ui, wanted.n_threads_http = False, 1
    # It insists on listening somewhere: on a socket in a private folder, whose name is gone once it listens.
    with tempfile.TemporaryDirectory(prefix="cix-") as private:
        wanted.hostnames = [f"{private}/llama.sock"]
        try:
            return xllamacpp.Server(wanted)
        except RuntimeError as error:
            raise ProviderError(
                f"llama.cpp cannot load {load.path}.",
                kind="provider",
                hint="Is it a whole gguf file of a chat model, and is there memory for it?",
            ) from error


_shared: dict[Load, Llama] = {}
_sharing = threading.Lock()


def take(load: Load) -> Llama:
    """Give the one model of that kind in this process; ``give_back`` it."""
    with _sharing:
        llama = _shared.setdefault(load, Llama(load))
        llama.users += 1
        return llama


async def give_back(llama: Llama) -> None:
    """Have no more use for a model; the last one to say so waits until its memory is free."""
    with _sharing:
        llama.users -= 1
        if llama.users:
            return
        del _shared[llama.load]
    await asyncio.wrap_future(llama.close())


@atexit.register
def _unload_all() -> None:
    """End the threads of llama.cpp before the process ends around them."""
    for llama in _shared.values():
        llama.unload()


_END = object()


async def hear(llama: Llama, body: Json) -> AsyncIterator[Json]:
    """Ask a model, and give the pieces of its answer as they come. Whoever stops listening stops it.

    Before the answer come pieces that say how far it has read, under ``READING``: so that reading can be stopped, too.
    """
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Json] = asyncio.Queue()
    stopped = threading.Event()

    def tell(piece: Json) -> bool:
        try:
            loop.call_soon_threadsafe(heard.put_nowait, piece)
        except RuntimeError:  # the loop is closed, so nobody listens
            return True
        return stopped.is_set()

    answering = llama.answer({**body, "return_progress": True}, tell)
    answering.add_done_callback(lambda _: tell(_END))
    try:
        while (piece := await heard.get()) is not _END:
            yield piece
        answering.result()
    finally:
        stopped.set()
        answering.cancel()
