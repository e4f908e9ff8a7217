"""What was acknowledged to a life, as it reports it: one JSON line per fact, through a pipe.

A fact is written in the moment it is learned, so whatever arrives was learned before the process died. A line that
was cut off was not acknowledged. ``Account`` gathers the facts of all lives of a data_dir.

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


class Offence(Struct, frozen=True, tag=True):
    """The check found something that must not be."""

    fault: Fault
    what: str


class Recovered(Struct, frozen=True, tag=True):
    """The check opened the engine after the crash, and that took so long."""

    seconds: float


Fact: TypeAlias = (
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
    | Offence
    | Recovered
)

_FACT = b'{"'
"""How the line of a fact begins."""
_decoder: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)


class Teller:
    """The end of the pipe where facts go in."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._write = os.write  # a life may bend the one of the module

    def __call__(self, fact: Fact) -> None:
        line = msgspec.json.encode(fact) + b"\n"
        while line:
            line = line[self._write(self._descriptor, line) :]


def facts_in(data: bytes) -> list[Fact]:
    """Read the whole lines."""
    return [_decoder.decode(line) for line in data.split(b"\n")[:-1] if line.startswith(_FACT)]


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
    return b"\n".join(line for line in data.split(b"\n") if not line.startswith(_FACT)).decode(errors="replace")


@dataclass
class Account:
    """Everything that is known about a data_dir from outside."""

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
    told_by: dict[str, str] = field(default_factory=dict)
    """The process to which each accepted turn was acknowledged."""
    violations: list[Offence] = field(default_factory=list)
    recovered: list[Recovered] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Turns that were looked over closely once; they are still looked for."""

    def see(self) -> None:
        """Note that everything acknowledged so far has been checked."""
        self.seen.update(self.accepted, self.deleting)

    def add(self, fact: Fact, who: str = "") -> None:
        """Note a fact, and which process told it."""
        match fact:
            case Sending():
                self.sent.add(fact.text)
            case Accepted():
                self.accepted[fact.turn_id] = fact
                self.told_by[fact.turn_id] = who
            case Shown():
                self.shown[fact.turn_id] = self.shown.get(fact.turn_id, "") + fact.text
            case Ended():
                self.ended[fact.turn_id] = fact
            case Stopping():
                self.stopping.add(fact.turn_id)
            case Pinned():
                self.pins.append(fact)
            case Forked():
                self.forks.append(fact)
            case Deleting():
                self.deleting[fact.thread_id] = fact.marker
            case Deleted():
                self.deleted.add(fact.thread_id)
            case Importing():
                self.imports[fact.path] = fact.texts
            case Offence():
                self.violations.append(fact)
            case Recovered():
                self.recovered.append(fact)
