"""State that all requests of one process share: client, limits, metrics, and whether it is shutting down.

Limits per user are counted by all workers together. The counters are in a memory-mapped file that the workers share:
one region for request rates and one per worker for open streams. They are changed under the file's lock, which the
operating system releases when its holder dies; a worker that replaces a dead one clears its region. A single worker
keeps the counters in its own memory.

The Prometheus metrics are of the routes, of the process, and of the ledger. Several workers keep their metrics in files
of one folder, and each of them can add all up (the multiprocess mode of prometheus-client, whose folder is set in the
environment before it is imported). Nothing is sent anywhere; metrics are only scraped.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import InitVar, dataclass, field
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, assert_never, get_args

from fastapi import Request
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from contextinfinity.client.contract import TokenClient
from contextinfinity.client.local import LocalClient
from contextinfinity.client.results import Health
from contextinfinity.domain.session import Owner
from contextinfinity.errors import TooMany
from contextinfinity.settings import Retention, Server, Settings
from contextinfinity.telemetry.counters import Counted, counters
from contextinfinity.telemetry.figures import Noted, RetrievalFigures, StepFigures, TurnFigures, noted
from contextinfinity.telemetry.stage_times import taken

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
NAME = "contextinfinity"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIMILARITIES = tuple(tenth / 10 for tenth in range(1, 11))
IN_STEP_SECONDS = 1.0

COUNTED = frozenset(get_args(Counted))


def forget_worker(folder: str, pid: int) -> None:
    """Remove the gauges of a worker that is gone; its counters are kept."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one process."""

    def __init__(self, *, shared: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second line for each, which is not needed
        self._registry = CollectorRegistry()
        self._shared = shared
        self._mirrored: dict[str, int] = {}
        self.described: list[tuple[str, tuple[str, ...], str]] = []
        """The name, labels and description of each metric."""
        self.requests = self._counter("requests", "Requests answered.", "route", "method", "status")
        self.seconds = self._histogram("request_seconds", "Time to the last byte of an answer.", "route")
        self.first_event = self._histogram("first_event_seconds", "Time to the first event of a stream.")
        self.stages = self._histogram("stage_seconds", "Time that a stage of a turn took.", "stage")
        self.streams = self._gauge("streams", "Streams that are open.", "livesum")
        self.turns = self._counter("turns", "Turns that ended.", "outcome", "model")
        self.tokens = self._counter(
            "tokens", "Tokens as reported by providers; estimated: our own count of the input.", "kind", "model"
        )
        self.cost = self._counter("cost_dollars", "What providers charged, where prices are known.", "model")
        self.steps = self._counter("steps", "Requests to models that ended.", "provider", "outcome", "error")
        self.bytes = self._counter(
            "step_bytes", "Bytes of answers that were displayed, and that were durable at the end.", "kind"
        )
        self.retrieval = self._summary(
            "retrieval", "Retrieval results: candidates, selected chunks, their packed_tokens.", "what"
        )
        self.similarity = self._histogram(
            "retrieval_similarity", "Similarity of the selected chunks.", "which", buckets=SIMILARITIES
        )
        self.happened = self._counter("happened", "Background events.", "what")
        for what in COUNTED:
            self.happened.labels(what)  # from the start: a counter that first appears as 1 shows no increase
        self.jobs = self._gauge("jobs", "Jobs in the ledger.", "livemostrecent", "state")
        self.spool = self._gauge(
            "spool_depth", "Turns and sessions spooled while the ledger is unavailable.", "livesum"
        )
        # The worker that answers reports its current values; those of another worker may be outdated.
        self.ready = self._gauge("ready", "1: ready, 0.5: degraded, 0: the ledger does not answer.", "livemostrecent")

    def mirror(self) -> None:
        """Copy the process's counters and gauges into the metrics.

        Runs after every request and periodically, because other workers report only what was copied.
        """
        now = counters()
        for figures in noted():
            self._count(figures)
        for stage, seconds in taken():
            self.stages.labels(stage).observe(seconds)
        self.spool.set(now.get("spool_depth", 0))
        for what in now.keys() & COUNTED:
            if more := now[what] - self._mirrored.get(what, 0):
                self.happened.labels(what).inc(more)
                self._mirrored[what] = now[what]

    async def refresh_counters(self) -> None:
        """Copy the counters periodically while no request arrives."""
        while True:
            await asyncio.sleep(IN_STEP_SECONDS)
            self.mirror()

    def _count(self, figures: Noted) -> None:
        match figures:
            case TurnFigures(model, outcome, usage):
                self.turns.labels(outcome, model).inc()
                for kind in ("input", "output", "cached"):
                    self.tokens.labels(kind, model).inc(getattr(usage, f"{kind}_tokens"))
                if usage.cost is not None:
                    self.cost.labels(model).inc(usage.cost)
            case StepFigures():
                self.steps.labels(figures.provider, figures.outcome, figures.error).inc()
                self.tokens.labels("estimated", figures.model).inc(figures.estimated)
                self.bytes.labels("displayed").inc(figures.displayed_bytes)
                self.bytes.labels("durable").inc(figures.durable_bytes)
            case RetrievalFigures(candidates, packed_tokens, similarities):
                self.retrieval.labels("candidates").observe(candidates)
                self.retrieval.labels("selected").observe(len(similarities))
                self.retrieval.labels("packed_tokens").observe(packed_tokens)
                if similarities:
                    self.similarity.labels("lowest").observe(min(similarities))
                    self.similarity.labels("highest").observe(max(similarities))
            case _:
                assert_never(figures)

    def text(self, health: Health) -> bytes:
        """Return the metrics in the text format, including those of the ledger."""
        self.mirror()
        backlog = health.backlog
        for state, many in (("queued", backlog.queued), ("running", backlog.running), ("failed", backlog.failed)):
            self.jobs.labels(state).set(many)
        self.ready.set({"ready": 1.0, "degraded": 0.5, "unready": 0.0}[health.status])
        if not self._shared:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(self._named(f"{name}_total", meaning, labels), meaning, labels, registry=self._registry)

    def _histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        full = self._named(name, meaning, labels)
        return Histogram(full, meaning, labels, registry=self._registry, buckets=buckets)

    def _summary(self, name: str, meaning: str, *labels: str) -> Summary:
        return Summary(self._named(name, meaning, labels), meaning, labels, registry=self._registry)

    def _gauge(self, name: str, meaning: str, mode: str, *labels: str) -> Gauge:
        full = self._named(name, meaning, labels)
        return Gauge(full, meaning, labels, registry=self._registry, multiprocess_mode=mode)  # type: ignore[arg-type]

    def _named(self, name: str, meaning: str, labels: tuple[str, ...]) -> str:
        self.described.append((f"{NAME}_{name}", labels, meaning))
        return f"{NAME}_{name}"


BURST_SECONDS = 10.0
"""Of the requests a minute, those of so many seconds may come at once."""
GRAIN = 1e-6
"""Seconds by which a clock may be wrong."""
ENTRY = struct.Struct("<Qd")
SLOTS, WINDOW = 8192, 16
REGION = SLOTS * ENTRY.size


class Share(NamedTuple):
    """The folder that workers share, and the number of this worker."""

    folder: str
    workers: int
    number: int


class CounterTable:
    """A fixed-size hash table of counters, 0 by default. When a bucket is full, its smallest counter is evicted."""

    def __init__(self, memory: bytearray | mmap.mmap, region: int) -> None:
        self._memory = memory
        self._first = region * REGION

    def get(self, name: str) -> float:
        """Return a counter."""
        key = _key(name)
        held, number = ENTRY.unpack_from(self._memory, self._place(key))
        return number if held == key else 0.0

    def put(self, name: str, number: float) -> None:
        """Set a counter."""
        key = _key(name)
        ENTRY.pack_into(self._memory, self._place(key), key, number)

    def clear(self) -> None:
        """Reset all counters."""
        self._memory[self._first : self._first + REGION] = bytes(REGION)

    def _place(self, key: int) -> int:
        """Return the slot of a name, or the slot it would take."""
        place, least = 0, float("inf")
        for step in range(WINDOW):
            offset = self._first + (key + step) % SLOTS * ENTRY.size
            held, number = ENTRY.unpack_from(self._memory, offset)
            if held == key:
                return offset
            if number < least:
                place, least = offset, number
        return place


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1


class _Lock:
    """A lock on the shared file, held for one change."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class Counts:
    """The counters of all limits."""

    def __init__(self, share: Share | None = None) -> None:
        workers, number = (1, 0) if share is None else (share.workers, share.number)
        self.alone: AbstractContextManager[None] = nullcontext()
        memory: bytearray | mmap.mmap = bytearray(2 * REGION)
        if share is not None:
            descriptor = os.open(Path(share.folder) / "limits", os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(descriptor, (1 + workers) * REGION)  # what is there already stays
            memory = mmap.mmap(descriptor, (1 + workers) * REGION)
            self.alone = _Lock(descriptor)
        self.requests = CounterTable(memory, 0)
        self.streams = tuple(CounterTable(memory, 1 + each) for each in range(workers))
        self.own_streams = self.streams[number]
        with self.alone:
            self.own_streams.clear()


class RateLimits:
    """A token bucket per user: so many requests a minute, with a small burst."""

    def __init__(self, per_minute: int, counts: Counts) -> None:
        self._per_minute = per_minute
        self._pause = 60 / per_minute if per_minute else 0.0
        self._ahead = max(BURST_SECONDS - self._pause, 0.0)
        self._counts = counts

    def take(self, user: str) -> None:
        """Count a request; raises ``TooMany`` if the bucket is empty."""
        if not self._per_minute:
            return
        moment, times = monotonic(), self._counts.requests  # the same clock in all processes of a machine
        with self._counts.alone:
            its_time = max(times.get(user), moment)
            if (wait := its_time - self._ahead - moment) <= GRAIN:
                times.put(user, its_time + self._pause)
                return
        raise TooMany(f"More than {self._per_minute} requests a minute.", retry_after=wait)


class Streams:
    """Open streams per user."""

    def __init__(self, most: int, counts: Counts, figures: Metrics) -> None:
        self._most = most
        self._counts = counts
        self._figures = figures

    def take(self, owner: Owner) -> Callable[[], None]:
        """Count one more open stream; returns the function that releases it."""
        user, counts = name_of(owner), self._counts
        with counts.alone:
            if sum(each.get(user) for each in counts.streams) >= self._most:
                raise TooMany(f"{owner.user_id} has {self._most} streams open, the maximum.")
            counts.own_streams.put(user, counts.own_streams.get(user) + 1)
        self._figures.streams.inc()

        def close() -> None:
            with counts.alone:
                counts.own_streams.put(user, max(counts.own_streams.get(user) - 1, 0))
            self._figures.streams.dec()

        return close


def name_of(owner: Owner) -> str:
    """Return the key under which a user is counted."""
    return f"{owner.org_id}\n{owner.user_id}"


OpenClient: TypeAlias = Callable[[Settings], AbstractAsyncContextManager[LocalClient]]


@dataclass(kw_only=True)
class AppState:
    """The state of one server process. Routes reach the engine only through ``acting_for``."""

    client: InitVar[LocalClient]
    server: Server
    figures: Metrics
    retention: Retention
    data_dir: Path
    counts: Counts = field(default_factory=Counts)
    rates: RateLimits = field(init=False)
    streams: Streams = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server shuts down: streams without an end stop now."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when everything that still runs must be cancelled."""

    rpc_users: dict[Owner, Any] = field(default_factory=dict)
    """State that the ``/rpc`` connections of an owner share, by owner."""

    def __post_init__(self, client: LocalClient) -> None:
        self._client = client
        self.rates = RateLimits(self.server.requests_per_minute, self.counts)
        self.streams = Streams(self.server.streams_per_user, self.counts, self.figures)
        self._loop = asyncio.get_running_loop()
        self._ends_at: float | None = None

    def acting_for(self, owner: Owner) -> LocalClient:
        """Return the client of one owner."""
        return self._client.acting_for(owner)

    @property
    def tokens(self) -> TokenClient:
        """The tokens of all users."""
        return self._client.tokens

    async def health(self) -> Health:
        """Return the state of the engine."""
        return await self._client.health()

    def end_soon(self) -> None:
        """Return running requests their shutdown time, then cancel them. May be called from any thread."""
        self._ends_at = self._loop.time() + self.server.shutdown_seconds
        self._loop.call_soon_threadsafe(self.closing.set)
        self._loop.call_soon_threadsafe(self._loop.call_later, self.server.shutdown_seconds, self.ending.set)

    def seconds_left(self) -> float:
        """Return how long unread answers may still run: they share ``shutdown_seconds`` with streams."""
        if self._ends_at is None:
            return self.server.shutdown_seconds
        return max(0.0, self._ends_at - self._loop.time())


def app_state_of(request: Request) -> AppState:
    """Return the interface a request came through."""
    app_state: AppState = request.app.state.app_state
    return app_state
