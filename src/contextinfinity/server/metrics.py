"""Prometheus metrics: of the routes, of the process, and of the ledger.

Several workers keep their metrics in files of one folder, and each of them can add all up (the multiprocess mode of
prometheus-client, whose folder is set in the environment before it is imported). Nothing is sent anywhere; metrics are
only scraped.
"""

from __future__ import annotations

import asyncio
from typing import assert_never, get_args

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

from contextinfinity.client.results import Health
from contextinfinity.telemetry.counters import (
    Counted,
    Noted,
    RetrievalFigures,
    StepFigures,
    TurnFigures,
    counters,
    noted,
    taken,
)

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
