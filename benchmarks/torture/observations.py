"""The events that a workload process reports: one JSON line each, through a pipe.

An event is written as soon as it happens, so what arrives happened before the process died. A line that
was cut off was not acknowledged. ``Observations`` collects the events of all processes on a data_dir.

A process that gets SIGUSR1 writes its stacks into the pipe as well, in lines that are not JSON.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import os
import signal
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

Fault: TypeAlias = Literal["lost", "doubled", "broken"]


class Sending(Struct, frozen=True, tag=True):
    """A message is about to be sent: it may be there from now on."""

    text: str


class Accepted(Struct, frozen=True, tag=True):
    """A message was acknowledged: it has to be there from now on."""

    turn_id: str
    thread_id: str
    branch_id: str
    turn_seq: int | None
    """None: the ledger was away, and it has no place yet."""
    text: str


class Shown(Struct, frozen=True, tag=True):
    """A piece of an answer was shown."""

    turn_id: str
    text: str


class Ended(Struct, frozen=True, tag=True):
    """A turn was reported as finished."""

    turn_id: str
    outcome: str
    text: str


class Stopping(Struct, frozen=True, tag=True):
    """A turn is about to be cancelled."""

    turn_id: str


class Pinned(Struct, frozen=True, tag=True):
    """A fact was pinned."""

    branch_id: str
    state_id: str
    state_seq: int
    fact: str


class Forked(Struct, frozen=True, tag=True):
    """A branch was made."""

    branch_id: str
    fork_seq: int


class Deleting(Struct, frozen=True, tag=True):
    """A conversation is about to be deleted: from now on it is whole, or nothing of it is left."""

    thread_id: str
    marker: str
    """A text that occurs in each of its messages and nowhere else."""


class Deleted(Struct, frozen=True, tag=True):
    """The deletion of a conversation was acknowledged."""

    thread_id: str


class Importing(Struct, frozen=True, tag=True):
    """A file is about to be imported; its messages may be there from now on."""

    path: str
    texts: tuple[str, ...]


class Violation(Struct, frozen=True, tag=True):
    """The check found something that must not be."""

    fault: Fault
    what: str


class Recovered(Struct, frozen=True, tag=True):
    """The check opened the engine after the crash, and that took so long."""

    seconds: float


Event: TypeAlias = (
    Sending
    | Accepted
    | Shown
    | Ended
    | Stopping
    | Pinned
    | Forked
    | Deleting
    | Deleted
    | Importing
    | Violation
    | Recovered
)

_EVENT = b'{"'
"""How the line of an event begins."""
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Reporter:
    """The writing end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._write = os.write  # a kill point may replace that of the module

    def __call__(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        while line:
            line = line[self._write(self._descriptor, line) :]


def events_in(data: bytes) -> list[Event]:
    """Read the whole lines."""
    return [_decoder.decode(line) for line in data.split(b"\n")[:-1] if line.startswith(_EVENT)]


def write_stacks_on_signal(descriptor: int) -> None:
    """On SIGUSR1, write the stacks of this process's threads and tasks into the pipe.

    The handler in C works whatever the interpreter does; then Python's own writes the tasks, if the main thread can.
    """

    def write_tasks(*_: object) -> None:
        page = io.StringIO()
        for task in asyncio.all_tasks():  # of the loop that runs in the main thread
            task.print_stack(file=page)
        os.write(descriptor, page.getvalue().encode())

    signal.signal(signal.SIGUSR1, write_tasks)
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True, chain=True)


def stacks_in(data: bytes) -> str:
    """Return what a process wrote of its stacks."""
    return b"\n".join(line for line in data.split(b"\n") if not line.startswith(_EVENT)).decode(errors="replace")


@dataclass
class Observations:
    """Everything that was reported about a data_dir."""

    sent: set[str] = field(default_factory=set)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    pins: list[Pinned] = field(default_factory=list)
    forks: list[Forked] = field(default_factory=list)
    deleting: dict[str, str] = field(default_factory=dict)
    """Threads whose deletion was begun, and their markers."""
    deleted: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Files that were imported, and the messages in each."""
    acknowledged_by: dict[str, str] = field(default_factory=dict)
    """The process to which each accepted turn was acknowledged."""
    violations: list[Violation] = field(default_factory=list)
    recovered: list[Recovered] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    """Turns that were looked over closely once; they are still looked for."""

    def mark_checked(self) -> None:
        """Note that everything acknowledged so far has been checked."""
        self.checked.update(self.accepted, self.deleting)

    def add(self, event: Event, who: str = "") -> None:
        """Record an event, and the process that reported it."""
        match event:
            case Sending():
                self.sent.add(event.text)
            case Accepted():
                self.accepted[event.turn_id] = event
                self.acknowledged_by[event.turn_id] = who
            case Shown():
                self.shown[event.turn_id] = self.shown.get(event.turn_id, "") + event.text
            case Ended():
                self.ended[event.turn_id] = event
            case Stopping():
                self.stopping.add(event.turn_id)
            case Pinned():
                self.pins.append(event)
            case Forked():
                self.forks.append(event)
            case Deleting():
                self.deleting[event.thread_id] = event.marker
            case Deleted():
                self.deleted.add(event.thread_id)
            case Importing():
                self.imports[event.path] = event.texts
            case Violation():
                self.violations.append(event)
            case Recovered():
                self.recovered.append(event)
