"""Runs the engine in a thread, so that the main thread is free for the terminal.

The main thread reads, prints and gets the signals; it can be interrupted at any point, because no engine code runs
there. Ctrl-C raises ``KeyboardInterrupt``, SIGTERM and SIGHUP raise ``Terminated``. In both cases the engine is closed
properly: answers are finished or marked, and jobs get two seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from contextinfinity.cli.command_options import CommonOptions, Terminated, settings_for
from contextinfinity.cli.output import print_notice
from contextinfinity.errors import LedgerError
from contextinfinity.telemetry.repeat_limit import RepeatLimit
from contextinfinity.wiring import holds_ledger, open_client, open_standby

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client
    from contextinfinity.client.results import ShownThread
    from contextinfinity.settings import Settings

T = TypeVar("T")


class Begin(Protocol):
    """Starts a coroutine in the engine's thread."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> Future[T]:
        """Return the future of its result."""
        ...


TOKEN = "CIX_TOKEN"  # noqa: S105  its name, not itself
"""The environment variable that holds the token for a server that asks for one."""
ENDING = (signal.SIGTERM, signal.SIGHUP)
ANSWER_SECONDS = 5.0
HURRIED_SECONDS = 1.0
"""Seconds for answers to end when the user leaves; enough to store a cancelled one."""
LOOK_SECONDS = 0.2
"""Polling interval of the waiting main thread: a signal just before the wait would not wake it."""


@contextmanager
def working(options: CommonOptions, *, creates: bool = False) -> Iterator[EngineThread]:
    """Run an engine inside a ``with`` block; a ledger is created only with ``creates``."""
    make = _client_factory(options, creates=creates)
    with _warning_in_words(), _ending_raises(), LoopInThread() as loop:
        work = EngineThread(loop, loop.do(_opened(make)))
        patience = ANSWER_SECONDS
        try:
            yield work
        except KeyboardInterrupt:
            patience = HURRIED_SECONDS
            raise
        finally:
            _close(work, patience)


@contextmanager
def opening(options: CommonOptions) -> Iterator[tuple[Callable[[], Future[Client]], Begin]]:
    """Yield a function that starts to open an engine in a thread, and one that runs coroutines there.

    The caller chooses when the engine is opened, for example after it has drawn its screen. Errors of opening are
    raised by the future. Leaving the block closes the engine if it was opened.
    """
    make, opened = _client_factory(options, creates=True), list[Future["Client"]]()

    def start() -> Future[Client]:
        opened.append(loop.begin(_opened(make)))
        return opened[-1]

    with _ending_raises(), LoopInThread() as loop:
        try:
            yield start, loop.begin
        finally:
            for client in opened:
                wait((client,))
                if client.exception() is None:
                    _close(EngineThread(loop, client.result()), ANSWER_SECONDS)


def _client_factory(options: CommonOptions, *, creates: bool) -> Callable[[], Client]:
    """Return a function that creates the client: of a server if one is named, else of an engine in this process.

    If there is no ledger and none may be created, the engine uses an empty one in memory.
    """
    if options.server is not None:
        from contextinfinity.client.remote import RemoteClient

        client = RemoteClient(options.server, token=os.environ.get(TOKEN) or None)
        # Without --user the server takes the token's user.
        return lambda: client if options.named_user is None else client.acting_for(options.owner)
    settings = settings_for(options.config, options.data_dir, creates=creates).settings
    if creates or holds_ledger(settings):
        return partial(open_client, settings, ends_soon=not creates)
    _print_no_ledger(settings)
    return partial(open_client, settings, in_memory=True)


def _print_no_ledger(settings: Settings) -> None:
    print_notice(
        f"There is no ledger in {settings.data_dir} yet. `cix ask` creates one; --data-dir names another folder."
    )


def listed_threads(options: CommonOptions, limit: int) -> tuple[ShownThread, ...]:
    """List conversations, most recently used first; for a local ledger without starting an engine.

    Without ``--user`` a local ledger lists those of all users: the end users of a server without tokens.
    """
    if options.server is not None:
        with working(options) as work:
            return work.do(work.client.threads.list(options.owner, limit=limit))
    settings = settings_for(options.config, options.data_dir, creates=False).settings
    if not holds_ledger(settings):
        _print_no_ledger(settings)
        return ()
    with _warning_in_words(), _ending_raises():
        return asyncio.run(_list_threads(settings, options, limit))


async def _list_threads(settings: Settings, options: CommonOptions, limit: int) -> tuple[ShownThread, ...]:
    from contextinfinity.client.thread_listing import list_threads

    store = open_standby(settings, ends_soon=True)
    try:
        with suppress(LedgerError):
            await store.replay_left_spools()  # what was said while the ledger was away is listed too
        return await list_threads(store, None if options.named_user is None else options.owner, limit)
    finally:
        await store.close()


class LoopInThread:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def __enter__(self) -> LoopInThread:
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the engine's thread and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the engine's thread and return its result."""
        return _result(self.begin(coroutine))

    def _run(self) -> None:
        # A signal must reach the main thread: only there does it break off what waits. Threads begun here inherit this.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *ENDING))
        try:
            with asyncio.Runner() as runner:
                runner.run(self._keep_loop_running())
        except OSError as error:  # no file descriptors are left for the loop
            self._ready.set_exception(error)

    async def _keep_loop_running(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._ready.set_result(None)
        await self._over.wait()


class EngineThread:
    """A client and its event loop."""

    def __init__(self, loop: LoopInThread, client: Client) -> None:
        self._loop = loop
        self.client = client
        self.do = loop.do
        self.begin = loop.begin

    def each(self, events: AsyncIterator[T]) -> Events[T]:
        """Iterate over events as they arrive."""
        return Events(self._loop, events)


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Events(Generic[T]):
    """An iterator over events of the engine's thread; it can be continued after an interrupt."""

    def __init__(self, loop: LoopInThread, events: AsyncIterator[T]) -> None:
        self._events: SimpleQueue[T | _End] = SimpleQueue()
        self._listening = loop.begin(self._listen(events))

    def __iter__(self) -> Events[T]:
        return self

    def __next__(self) -> T:
        item = self._next()
        if not isinstance(item, _End):
            return item
        self._events.put(item)  # over is over, however often one asks
        if item.error is not None:
            raise item.error
        raise StopIteration

    def _next(self) -> T | _End:
        while True:
            with suppress(Empty):
                return self._events.get(timeout=LOOK_SECONDS)

    @property
    def more(self) -> bool:
        """Whether events are pending."""
        return not self._events.empty()

    async def _listen(self, events: AsyncIterator[T]) -> None:
        try:
            async for event in events:
                self._events.put(event)
        except BaseException as error:
            self._events.put(_End(error))
        else:
            self._events.put(_End())


async def _opened(make: Callable[[], Client]) -> Client:
    """Create the client in the engine's thread, so that its threads inherit the signal mask."""
    return await make().__aenter__()


def _result(doing: Future[T]) -> T:
    """Wait for a future of the engine's thread."""
    while wait((doing,), LOOK_SECONDS).not_done:
        pass
    return doing.result()


def _close(work: EngineThread, patience: float) -> None:
    """Close the engine; a second interrupt exits at once, and the next start recovers."""
    closing = work.begin(work.client.close(answer_seconds=patience))
    try:
        _result(closing)
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(1)


@contextmanager
def _ending_raises() -> Iterator[None]:
    """Make terminating signals raise ``Terminated``, once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated

    with ending_calls(end):
        yield


@contextmanager
def ending_calls(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let terminating signals call a function inside the block."""
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class _InWords(logging.Handler):
    """Prints a log record as one line on stderr, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        print_notice(f"cix: {record.getMessage()}")


@contextmanager
def _warning_in_words() -> Iterator[None]:
    logger, handler = logging.getLogger("contextinfinity"), _InWords()
    handler.addFilter(RepeatLimit())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
