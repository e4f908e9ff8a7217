"""The processes that answer turns and run jobs.

A worker is one process; it owns the turns it answers until it exits or is found dead.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from contextinfinity.domain.ids import TurnId, WorkerId


class Worker(Struct, frozen=True, kw_only=True):
    """A worker process. ``beats`` counts its heartbeats: a count that stops is detected without comparing clocks."""

    id: WorkerId
    host: str
    pid: int
    started_at: datetime
    beats: int = 0


class TakenOver(Struct, frozen=True, kw_only=True):
    """Work taken over from a dead worker: its unfinished turns, and the number of requeued jobs."""

    turns: tuple[TurnId, ...] = ()
    jobs: int = 0
