"""How a process kills itself: thin coats around the verbs of the store and the journals, in that process only.

A coat changes nothing that is asked or answered; it only counts, and at its boundary the process is gone as with
kill -9, without a last word. Statements are counted by SQLite's own trace, torn lines come from a write that stops
half way.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import apsw
from msgspec.structs import replace

from benchmarks.torture.plans import AWAY, BOUNDARIES, IN_RECOVERY, Kill, Side
from contextinfinity.domain.ids import StepId, WorkerId
from contextinfinity.domain.job import Job, JobResult
from contextinfinity.domain.message import Json
from contextinfinity.domain.search import Embedding, NewChunk
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import StoreResource
from contextinfinity.storage.encryption import protection_of
from contextinfinity.storage.journal import Journal, JournalFolder
from contextinfinity.storage.ledger.jobs import Jobs
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.breaker import GuardedDatabase
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore

VERBS = frozenset(BOUNDARIES) | frozenset(IN_RECOVERY) | frozenset(AWAY)
CLAIMING = frozenset({"claim", "complete", "finalise_and_claim"})
_LINE = b'{"ts":'
"""How a line of a journal begins."""
LATE = ("burst", "tools")
"""How the text of a late turn begins: its chunks and memories are written by jobs of their own."""
SPAN = 40
"""Characters of a chunk."""


def die() -> NoReturn:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


class KillPoint:
    """Counts what happens, and springs at its place."""

    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill
        self._left = 0 if kill is None else kill.nth
        self._begun = False

    def begin(self) -> None:
        """Count operations from now on: SQL statements and changes of files."""
        self._begun = True

    @contextmanager
    def around(self, boundary: str) -> Iterator[None]:
        """Pass a boundary; a call that fails has not passed it."""
        self._reach(boundary, "before")
        yield
        self._reach(boundary, "after")

    def count(self) -> None:
        """Come one nearer."""
        self._left -= 1
        if self._left == 0:
            die()

    def arm(self) -> None:
        """Set up what springs without a boundary: at a statement, or in the middle of a write."""
        if self._kill is not None and self._kill.way == "statement":
            apsw.connection_hooks.append(self._trace)
        if self._kill is not None and self._kill.way == "operation":
            apsw.connection_hooks.append(self._trace)
            sys.addaudithook(self._audit)
        if self._kill is not None and self._kill.way == "torn":
            self._tear(os.write)

    def _reach(self, boundary: str, side: Side) -> None:
        if self._kill is not None and (self._kill.boundary, self._kill.side) == (boundary, side):
            self.count()

    def _trace(self, connection: apsw.Connection) -> None:
        def executed(_cursor: object, _sql: str, _values: object) -> bool:
            if self._kill is not None and (self._kill.way == "statement" or self._begun):
                self.count()
            return True

        connection.exec_trace = executed

    def _audit(self, event: str, _values: object) -> None:
        if self._begun and event in ("os.remove", "os.rename", "os.truncate"):
            self.count()

    def _tear(self, write: Callable[[int, Any], int]) -> None:
        def torn(descriptor: int, data: Any, /) -> int:
            if data[: len(_LINE)] == _LINE or _is_sealed_line(descriptor):
                if self._left == 1:
                    write(descriptor, data[: len(data) * 2 // 3])
                self.count()
            return write(descriptor, data)

        os.write = torn


def _is_sealed_line(descriptor: int) -> bool:
    """Return whether a descriptor is that of a journal or spool in an encrypted folder."""
    path = Path(f"/proc/self/fd/{descriptor}").resolve()
    return path.suffix in (".jsonl", ".spool") and protection_of(path).is_on


def with_kill_points(resource: StoreResource, kill_point: KillPoint, types: dict[int, str]) -> None:
    """Put a kill point around the verbs of a resource, and around those of its copies behind a circuit breaker.

    ``types`` notes the types of claimed jobs, by which their ends are named.
    """
    kind = type(resource)
    verbs = {verb: _around(verb, kill_point, types) for verb in VERBS | CLAIMING if hasattr(kind, verb)}
    resource.__class__ = type(kind.__name__, (kind,), verbs)


def _around(verb: str, kill_point: KillPoint, types: dict[int, str]) -> Callable[..., Any]:
    async def guarded(resource: StoreResource, *args: Any, **named: Any) -> Any:
        real = getattr(super(type(resource), resource), verb)
        if isinstance(resource._database, GuardedDatabase) and resource._database.rejects_writes:
            return await real(*args, **named)  # it does not reach the ledger
        boundary = "finalise" if verb == "finalise_and_claim" else verb
        if verb == "complete":
            boundary = f"complete {types.get(args[0])}"
        with kill_point.around(boundary):
            result = await real(*args, **named)
        for job in result if verb == "finalise_and_claim" else (result,):
            if isinstance(job, Job):
                types[job.id] = job.job_type
        return result

    return guarded


class SlicingJobs(Jobs):
    """``Jobs`` that cuts every turn into slices, so that there is something to lose in TX-C.

    Late turns leave their chunks and memories to jobs of their own, as with an embedder that may be away.
    """

    async def complete(self, job_id: int, worker: WorkerId, *, result: JobResult | None = None, **how: Any) -> Any:
        """Write the result of a job with other chunks."""
        if result is not None and result.chunks is not None:
            result = await self._sliced(job_id, result)
        return await super().complete(job_id, worker, result=result, **how)

    async def _sliced(self, job_id: int, result: JobResult) -> JobResult:
        job = next((job for job in await self.list(limit=1000) if job.id == job_id), None)
        turn = None if job is None or job.turn_id is None else await Turns(self._database).get(job.turn_id)
        if turn is None:
            return result
        if result.state is not None and turn.user_message.rendered_text.startswith(LATE):
            return replace(result, chunks=None, memories=None)
        sides = (("user", turn.user_message), ("assistant", turn.answer))
        texts = {side: "" if message is None else message.rendered_text for side, message in sides}
        return replace(result, chunks=tuple(slices(texts)))


def slices(texts: dict[str, str]) -> list[NewChunk]:
    """Cut texts into chunks, each with a vector; the same words are one chunk."""
    first: dict[str, tuple[str, int]] = {}
    for side, text in texts.items():
        for start in range(0, min(len(text), 5 * SPAN), SPAN):
            first.setdefault(text[start : start + SPAN], (side, start))
    return [
        NewChunk(
            side="user" if side == "user" else "assistant",
            start=start,
            end=start + len(words),
            summary=f"from {start}",
            chunk_type="Other",
            token_est=len(words) // 4,
            embedding=Embedding(model="torture", dim=2, values=bytes(6)),
        )
        for words, (side, start) in first.items()
    ]


class GuardedJournals(JournalFolder):
    """``JournalFolder`` with a kill point around its journals."""

    def __init__(self, folder: Path, kill_point: KillPoint) -> None:
        super().__init__(folder)
        self._trap = kill_point

    def open(self, step_id: StepId, provider: str, writer: WorkerId = "") -> Journal:
        """Open a journal whose verbs are guarded."""
        journal = super().open(step_id, provider, writer)
        append, end, finish = journal.append, journal.end, journal.finish

        def guarded_append(event_type: str, payload: Json, shown: int = 0) -> int:
            with self._trap.around(f"append {event_type}"):
                return append(event_type, payload, shown)

        def guarded_end(payload: Json) -> int:
            with self._trap.around("end journal"):
                return end(payload)

        def guarded_finish(payload: Json) -> int:
            with self._trap.around("end journal"):
                return finish(payload)

        vars(journal).update(append=guarded_append, end=guarded_end, finish=guarded_finish)
        return journal


def guarded(folder: Path, kill_point: KillPoint) -> tuple[Store, JournalFolder]:
    """Open a data_dir with a kill point in it."""
    kill_point.arm()
    store, types = SqliteStore(folder / "ledger.db"), dict[int, str]()
    store.jobs = SlicingJobs(store.database)
    resources = [resource for resource in vars(store).values() if isinstance(resource, StoreResource)]
    for verb in AWAY:
        assert any(hasattr(resource, verb) for resource in resources), f"{verb} was renamed"
    for resource in resources:
        with_kill_points(resource, kill_point, types)
    bounds = Bounds(patience=0.02, first_pause=0.005, longest_pause=0.02)
    return StandbyStore(store, folder / "ledger.db-spool", bounds), GuardedJournals(folder / "streams", kill_point)
