"""Send many streams to a real server whose connections are cut and which is killed; verify every acknowledged message.

``python -m benchmarks.storm [--streams N] [--messages N] [--kills N] [--locks N] [--workers N] [--hosts N] [--save]``.
With ``--locks`` another process holds the ledger that often in a minute, for up to a second, so that messages are kept
in spools. With several hosts, servers with folders of their own share a PostgreSQL, one of them is killed at a time,
and clients go on at the others. Every other one of them is lost with its folder, and replaced by a new one.

Clients send messages
in turn, half of them to shared threads. They disconnect in the middle of streams, resume with the id of the last event,
repeat messages with their idempotency key, and sometimes read their messages back over another connection, from any
worker. Meanwhile the server, or one of its workers, is killed with SIGKILL. At the end the server is restarted,
and every message must be stored exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from apsw import BusyError

from benchmarks import report
from benchmarks.harness import Row
from benchmarks.server_process import CixServer, ConnectionCut, HttpConnection, ServerEvent
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.text.plurals import counted

T = TypeVar("T")

SLOW_REPLY = tuple(f" word{number}" for number in range(25))
SHORT_REPLY = "A short answer."
FAILED_REPLY = ("So far",)
REPLIES: list[dict[str, Any]] = [
    {"when": "slowly", "pieces": SLOW_REPLY, "delay": 0.01},
    {"when": "badly", "pieces": FAILED_REPLY, "error": {"code": "quota", "message": "Out of credit."}},
    {"text": SHORT_REPLY},
]
SETTINGS = """\
[general]
default_model = "script"
[models.script]
provider = "scripted"
path = "script.json"
[server]
requests_per_minute = 0
streams_per_user = 10000
shutdown_seconds = 5.0
"""
REPLY_KINDS = ("slowly", "slowly", "quickly", "quickly", "badly")
EVENTS_READ = (0, 1, 2, 4, 8, 16, 1000, 1000)
"""Events after which a client disconnects."""
COMPLETE_TEXT = {"slowly": "".join(SLOW_REPLY), "quickly": SHORT_REPLY, "badly": "".join(FAILED_REPLY)}
CLIENTS_PER_THREAD = 4


MAX_READS, READ_SECONDS = 300, 0.1
"""How often a message that is in a spool is read until it must be there, and the pause between two reads."""
MAX_CUTS = 2_000
"""Cuts of one message after which the server is considered unreachable."""


@dataclass(frozen=True, kw_only=True)
class StormOptions:
    """The load of a run."""

    streams: int = 200
    messages: int = 10
    kills: int = 8
    locks: int = 0
    workers: int = 1
    hosts: int = 1
    seed: int = 1


@dataclass(kw_only=True)
class SentMessage:
    """One message, and what its client received."""

    text: str
    thread: str
    key: str | None
    turn: dict[str, Any] | None = None
    """The first event, which acknowledges the message."""
    received: str = ""
    last: str = ""
    end: dict[str, Any] | None = None
    given_up: bool = False
    """It had no key and was cut before the acknowledgement: it may be stored once or not at all."""

    @property
    def reply_kind(self) -> str:
        """The kind of its scripted reply."""
        return self.text.split()[1]


@dataclass(kw_only=True)
class Outcome:
    """Counts of a run, and its faults."""

    counts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def row(self, options: StormOptions) -> Row:
        """Return the row of docs/proof.md."""
        hosts = f", {options.hosts} hosts on PostgreSQL" if options.hosts > 1 else ""
        return Row(
            what=f"{options.streams} streams, {counted(options.workers, 'worker')}{hosts}, seed {options.seed}",
            target="0 faults",
            result=str(self),
            values=dict(self.counts),
        )

    def __str__(self) -> str:
        sent = ", ".join(f"{times:,} {what}" for what, times in sorted(self.counts.items()))
        ended = ", ".join(f"{times:,} {how}" for how, times in sorted(self.ends.items()))
        return f"{sent}; turns: {ended}; {len(self.faults)} faults"


class Hosts:
    """Servers on one database: clients use any that runs, and a kill hits one, which may be lost with its folder."""

    def __init__(self, make: Callable[[int], CixServer], count: int, rng: random.Random) -> None:
        self._make = make
        self._rng = rng
        self._running = [make(number) for number in range(count)]
        self._made = count
        self._down: list[CixServer] = []
        self._lost = False

    def line(self) -> HttpConnection:
        """Return a connection to a server that runs."""
        return self._rng.choice(self._running).line()

    def workers(self) -> list[int]:
        """Return the worker processes of all that run."""
        return [worker for server in self._running for worker in server.workers()]

    def kill(self) -> None:
        """Kill one of the servers."""
        self._running.remove(victim := self._rng.choice(self._running))
        victim.kill()
        self._lost = not self._lost
        if not self._lost:
            self._down.append(victim)

    def start(self) -> None:
        """Start those that do not run, and a new one for one that is lost."""
        if self._lost:
            self._running.append(self._make(self._made))
            self._made += 1
        while self._down:
            (server := self._down.pop()).start()
            self._running.append(server)

    def end(self) -> int:
        """End all, and return the highest exit code."""
        self._down, self._running, self._lost = self._running, [], False
        return max((server.end() for server in self._down), default=0)


class Storm:
    """Clients, and a task that kills their server."""

    def __init__(self, server: CixServer | Hosts, options: StormOptions, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._options = options
        self._rng = random.Random(options.seed)
        self._reply_kinds = self._shuffled(REPLY_KINDS)
        self._events_read = self._shuffled(EVENTS_READ)
        self._repeats = self._shuffled((True, False, False))
        self._verify_reads = self._shuffled((True, False, False))
        self._up = asyncio.Event()
        self._up.set()
        self._completed = asyncio.Semaphore(0)
        self.sent: list[SentMessage] = []
        self.outcome = Outcome()

    def _shuffled(self, choices: Sequence[T]) -> Iterator[T]:
        """Yield the choices for ever in random order, each once a round, so that a small run has all of them too."""
        while True:
            yield from self._rng.sample(choices, len(choices))

    async def run(self) -> None:
        """Run all clients while the server is killed."""
        trouble = [asyncio.create_task(self._kill()), asyncio.create_task(self._lock())]
        try:
            await asyncio.gather(*(self._run_client(number) for number in range(self._options.streams)))
        finally:
            for task in trouble:
                task.cancel()
            await asyncio.gather(*trouble, return_exceptions=True)

    async def _run_client(self, number: int) -> None:
        thread = "new" if number % 2 else f"shared-{number // (2 * CLIENTS_PER_THREAD)}"
        for index in range(self._options.messages):
            reply_kind = next(self._reply_kinds)
            key = None if self._rng.random() < 0.1 else f"{number}-{index}"
            sent = SentMessage(
                text=f"Answer {reply_kind} please, client {number}, message {index}.", thread=thread, key=key
            )
            self.sent.append(sent)
            await self._deliver(sent)
            if sent.turn is not None:
                thread = thread if thread.startswith("shared") else sent.turn["thread_id"]

    async def _deliver(self, sent: SentMessage) -> None:
        """Send a message and read its answer to the end, however often the connection is cut."""
        cuts = 0
        while sent.end is None and not sent.given_up:
            await self._up.wait()
            try:
                if sent.turn is None or (sent.key is not None and next(self._repeats)):
                    await self._send(sent)
                else:
                    await self._resume(sent)
            except ConnectionCut as cut:
                self.outcome.counts["cuts by a kill"] += 1
                sent.given_up = sent.turn is None and sent.key is None
                if (cuts := cuts + 1) == MAX_CUTS:
                    raise AssertionError(f"{sent.text!r} was cut {cuts:,} times, last by: {cut}") from cut

    async def _send(self, sent: SentMessage) -> None:
        self.outcome.counts["messages" if sent.turn is None else "repeats under a key"] += 1
        headers = {} if sent.key is None else {"Idempotency-Key": sent.key}
        body = {"content": sent.text, "use_query_rewriter": False, "may_ask_back": False}
        await self._listen(sent, f"/threads/{sent.thread}/messages/stream", body, headers)

    async def _resume(self, sent: SentMessage) -> None:
        assert sent.turn is not None
        self.outcome.counts["resumes"] += 1
        headers = {"Last-Event-ID": sent.last} if sent.last else {}
        if not sent.last:
            sent.received = ""
        await self._listen(
            sent, f"/threads/{sent.turn['thread_id']}/turns/{sent.turn['turn_id']}/stream", None, headers
        )

    async def _listen(self, sent: SentMessage, path: str, body: object, headers: dict[str, str]) -> None:
        """Read a stream to its end, or until the client disconnects."""
        events_left = next(self._events_read)
        line = self._server.line()
        async with aclosing(line.stream(path, body, headers)) as events:
            async for event in events:
                await self._receive(sent, event)
                if (events_left := events_left - 1) < 0 and sent.turn is not None and sent.end is None:
                    self.outcome.counts["streams left"] += 1
                    break
        line.close()

    async def _receive(self, sent: SentMessage, event: ServerEvent) -> None:
        match event.name:
            case "turn" if sent.turn is None:
                sent.turn = event.data
                self.outcome.counts["kept in a spool"] += event.data.get("durability") == "local"
                if next(self._verify_reads):
                    await self._verify_read(sent)
            case "turn":
                if event.data["turn_id"] != (sent.turn or {})["turn_id"]:
                    self._fault(sent, "made a second turn under its key")
                sent.received, sent.last = "", ""
            case "delta":
                sent.received += event.data["text"]
            case "done":
                sent.end = event.data
                if sent.end["outcome"] == "completed":
                    self._completed.release()
        sent.last = event.id or sent.last

    async def _verify_read(self, sent: SentMessage) -> None:
        """Read the message over a new connection, which any worker may accept; what is spooled is there soon."""
        assert sent.turn is not None
        for _ in range(MAX_READS if sent.turn.get("durability") == "local" else 1):
            line = self._server.line()
            try:
                page = await line.get(f"/threads/{sent.turn['thread_id']}/messages?limit=500")
            except ConnectionCut:
                return
            finally:
                line.close()
            if page.status != 503 and sent.text in [message["content"] for message in page.value()["messages"]]:
                self.outcome.counts["read back"] += 1
                return
            await asyncio.sleep(READ_SECONDS)
        self._fault(sent, "was acknowledged and could not be read back")

    async def _kill(self) -> None:
        """Kill the server after random numbers of completed answers."""
        some = max(1, self._options.streams // 8)
        for _ in range(self._options.kills):
            for _ in range(self._rng.randint(some, 3 * some)):
                await self._completed.acquire()
            workers = self._server.workers()
            if self._options.workers > 1 and len(workers) > 1 and self._rng.random() < 0.5:
                os.kill(self._rng.choice(workers), signal.SIGKILL)
                self.outcome.counts["kills of a worker"] += 1
                continue
            if self._options.hosts == 1:
                self._up.clear()
            self._server.kill()
            self.outcome.counts["kills of the server"] += 1
            await asyncio.to_thread(self._server.start)
            self._up.set()

    async def _lock(self) -> None:
        """Hold the ledger from time to time, longer than a worker waits for it."""
        while self._options.locks:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * 60 / self._options.locks)
            with closing(connect(str(self._folder / "ledger.db"))) as ledger, suppress(BusyError):
                await asyncio.to_thread(ledger.execute, "BEGIN IMMEDIATE")
                await asyncio.sleep(self._rng.uniform(0.3, 1.0))
                ledger.execute("ROLLBACK")
                self.outcome.counts["locks of the ledger"] += 1

    def _fault(self, sent: SentMessage, what: str) -> None:
        self.outcome.faults.append(f"{sent.text!r} {what}")

    async def verify(self) -> None:
        """Compare all stored turns with what was sent and received."""
        stored: dict[str, list[dict[str, Any]]] = {}
        for question, answer in await self._settled():
            stored.setdefault(question["content"], []).append(answer)
            self.outcome.ends[str(answer["outcome"])] += 1
        for sent in self.sent:
            turns = stored.pop(sent.text, [])
            if len(turns) != 1 and not (sent.given_up and not turns):
                self._fault(sent, f"is stored {len(turns)} times")
            for turn in turns[:1]:
                self._compare(sent, turn)
        self.outcome.faults += [f"{text!r} was not sent" for text in stored]

    async def _settled(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Read all turns when they have ended: those of a host that is lost end after its lease."""
        while True:
            pairs = await _pairs(self._server.line())
            if all(answer["outcome"] for _, answer in pairs):
                return pairs
            await asyncio.sleep(0.5)

    def _compare(self, sent: SentMessage, turn: dict[str, Any]) -> None:
        complete, outcome, text = COMPLETE_TEXT[sent.reply_kind], turn["outcome"], turn["content"]
        if sent.turn is not None and turn["turn_id"] != sent.turn["turn_id"]:
            self._fault(sent, "was acknowledged as another turn")
        if sent.end is not None and (sent.end["outcome"], sent.end["text"]) != (outcome, text):
            self._fault(sent, f"ended as {sent.end['outcome']}, and is stored as {outcome}")
        # A reader of another host gets what is missing in the journal of a killed one with the last event.
        is_enough = text.startswith(sent.received) if self._options.hosts > 1 else text == sent.received
        if sent.end is not None and not is_enough:
            self._fault(sent, f"was answered with {sent.received!r}, and {text!r} is stored")
        is_valid = text == complete if outcome == "completed" else outcome in ("incomplete", "failed")
        if not is_valid or not complete.startswith(text) or (outcome == "completed") > (sent.reply_kind != "badly"):
            self._fault(sent, f"is {outcome} with {text!r}")


async def _pairs(line: HttpConnection) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Read all turns of all threads as (question, answer)."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    after: str | None = ""
    while after is not None:
        page = (await line.get(f"/threads?limit=500{after and f'&after={after}'}")).value()
        for thread in page["threads"]:
            found += await _turns(line, thread["thread_id"])
        after = page["next"]
    line.close()
    return found


async def _turns(line: HttpConnection, thread: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    before: str | None = ""
    while before is not None:
        page = (await line.get(f"/threads/{thread}/messages?limit=500{before and f'&before={before}'}")).value()
        messages, before = page["messages"] + messages, page["before"]
    return list(zip(messages[::2], messages[1::2], strict=True))


def _server(folder: Path, storage: str, options: StormOptions) -> CixServer:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(REPLIES), encoding="utf-8")
    return CixServer(folder, SETTINGS + storage, workers=options.workers)


def storm(folder: Path, options: StormOptions) -> Outcome:
    """Run a storm on a data folder and return its outcome."""
    server: CixServer | Hosts
    if options.hosts == 1:
        server = _server(folder, "", options)
    else:
        from tests.postgres import empty_database

        storage = f'[storage]\nurl = "{empty_database()}"\n'

        def make(number: int) -> CixServer:
            return _server(folder / str(number), storage, options)

        server = Hosts(make, options.hosts, random.Random(options.seed))
    run = Storm(server, options, folder)
    try:
        asyncio.run(run.run())
        if (code := server.end()) != 0:
            run.outcome.faults.append(f"the server ended with {code}")
        server.start()
        asyncio.run(run.verify())
    finally:
        server.end()
    if options.hosts > 1:
        return run.outcome
    command = [sys.executable, "-m", "contextinfinity", "doctor", "--data-dir", str(folder)]
    examined = subprocess.run(command, capture_output=True, text=True)
    if examined.returncode != 0:
        run.outcome.faults.append(examined.stdout + examined.stderr)
    return run.outcome


def main() -> None:
    """Parse the arguments, run a storm and print its outcome."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description="Streams, cuts and kills.")
    for name, most in (("streams", 200), ("messages", 10), ("kills", 8), ("locks", 0), ("workers", 1), ("hosts", 1)):
        parser.add_argument(f"--{name}", type=int, default=most)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results, for docs/proof.md")
    arguments = vars(parser.parse_args())
    is_kept, options = arguments.pop("save"), StormOptions(**arguments)
    with tempfile.TemporaryDirectory() as folder:
        outcome = storm(Path(folder), options)
    print(*outcome.faults[:20], f"{options}: {outcome}", sep="\n")
    if is_kept:
        report.save_proof(f"storm-{options.workers}-{options.hosts}", [outcome.row(options)])
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
