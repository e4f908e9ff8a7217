"""Many streams at a real server whose lines are cut and which is killed: what was acknowledged has to be there, once.

``python -m benchmarks.storm [--streams N] [--messages N] [--kills N] [--workers N]``. Talkers say one message after the
other, half of them in rooms that they share. They leave streams in the middle and come back with the id of the last
event, say a message again under its key, and now and then read their words back over another connection, from whichever
worker that reaches. In between the server is killed with SIGKILL, whole or one worker of it. Afterwards it is told to
end, started once more, and everything is looked over.
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
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.served import Cut, Line, Served, Told

T = TypeVar("T")

SLOWLY = tuple(f" word{number}" for number in range(25))
QUICKLY = "A short answer."
CUT_SHORT = ("So far",)
REPLIES: list[dict[str, Any]] = [
    {"when": "slowly", "pieces": SLOWLY, "delay": 0.01},
    {"when": "badly", "pieces": CUT_SHORT, "error": {"code": "quota", "message": "Out of credit."}},
    {"text": QUICKLY},
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
MANNERS = ("slowly", "slowly", "quickly", "quickly", "badly")
PATIENCE = (0, 1, 2, 4, 8, 16, 1000, 1000)
"""Events after which a talker leaves a stream."""
WHOLE = {"slowly": "".join(SLOWLY), "quickly": QUICKLY, "badly": "".join(CUT_SHORT)}
TALKERS_A_ROOM = 4


MOST_CUTS = 2_000
"""Cuts of one message after which the server is taken for unreachable."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How hard it blows."""

    streams: int = 200
    messages: int = 10
    kills: int = 8
    workers: int = 1
    seed: int = 1


@dataclass(kw_only=True)
class Said:
    """One message, and what its talker knows of it."""

    text: str
    thread: str
    key: str | None
    turn: dict[str, Any] | None = None
    """The first event: it was acknowledged."""
    heard: str = ""
    last: str = ""
    end: dict[str, Any] | None = None
    given_up: bool = False
    """It had no key, and the line was cut before it was acknowledged: it is there once or not at all."""

    @property
    def manner(self) -> str:
        """How it is answered."""
        return self.text.split()[1]


@dataclass(kw_only=True)
class Outcome:
    """What a storm did, and what was wrong afterwards."""

    did: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = ", ".join(f"{times:,} {what}" for what, times in sorted(self.did.items()))
        ended = ", ".join(f"{times:,} {how}" for how, times in sorted(self.ends.items()))
        return f"{said}; turns: {ended}; {len(self.faults)} faults"


class Storm:
    """Talkers, and somebody who kills their server."""

    def __init__(self, server: Served, weather: Weather) -> None:
        self._server = server
        self._weather = weather
        self._rng = random.Random(weather.seed)
        self._manners = self._deal(MANNERS)
        self._patience = self._deal(PATIENCE)
        self._repeats = self._deal((True, False, False))
        self._reads_back = self._deal((True, False, False))
        self._up = asyncio.Event()
        self._up.set()
        self._completed = asyncio.Semaphore(0)
        self.said: list[Said] = []
        self.outcome = Outcome()

    def _deal(self, choices: Sequence[T]) -> Iterator[T]:
        """Yield the choices for ever in random order, each once a round, so that a small storm has all of them too."""
        while True:
            yield from self._rng.sample(choices, len(choices))

    async def blow(self) -> None:
        """Have everybody talk, and the server die in between."""
        killer = asyncio.create_task(self._kill())
        try:
            await asyncio.gather(*(self._talk(number) for number in range(self._weather.streams)))
        finally:
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)

    async def _talk(self, number: int) -> None:
        thread = "new" if number % 2 else f"room-{number // (2 * TALKERS_A_ROOM)}"
        for index in range(self._weather.messages):
            manner = next(self._manners)
            key = None if self._rng.random() < 0.1 else f"{number}-{index}"
            said = Said(text=f"Answer {manner} please, says {number} for time {index}.", thread=thread, key=key)
            self.said.append(said)
            await self._carry(said)
            if said.turn is not None:
                thread = thread if thread.startswith("room") else said.turn["thread_id"]

    async def _carry(self, said: Said) -> None:
        """Say it and hear its end, however often the line is cut; a line that stays cut is a fault."""
        cuts = 0
        while said.end is None and not said.given_up:
            await self._up.wait()
            try:
                if said.turn is None or (said.key is not None and next(self._repeats)):
                    await self._say(said)
                else:
                    await self._resume(said)
            except Cut as cut:
                self.outcome.did["cuts by a kill"] += 1
                said.given_up = said.turn is None and said.key is None
                if (cuts := cuts + 1) == MOST_CUTS:
                    raise AssertionError(f"{said.text!r} was cut {cuts:,} times, last by: {cut}") from cut

    async def _say(self, said: Said) -> None:
        self.outcome.did["messages" if said.turn is None else "repeats under a key"] += 1
        headers = {} if said.key is None else {"Idempotency-Key": said.key}
        body = {"content": said.text, "use_query_rewriter": False, "may_ask_back": False}
        await self._listen(said, f"/threads/{said.thread}/messages/stream", body, headers)

    async def _resume(self, said: Said) -> None:
        assert said.turn is not None
        self.outcome.did["resumes"] += 1
        headers = {"Last-Event-ID": said.last} if said.last else {}
        if not said.last:
            said.heard = ""
        await self._listen(
            said, f"/threads/{said.turn['thread_id']}/turns/{said.turn['turn_id']}/stream", None, headers
        )

    async def _listen(self, said: Said, path: str, body: object, headers: dict[str, str]) -> None:
        """Hear a stream to its end, or to where the talker leaves."""
        patience = next(self._patience)
        line = self._server.line()
        async with aclosing(line.stream(path, body, headers)) as events:
            async for event in events:
                await self._hear(said, event)
                if (patience := patience - 1) < 0 and said.turn is not None and said.end is None:
                    self.outcome.did["streams left"] += 1
                    break
        line.close()

    async def _hear(self, said: Said, event: Told) -> None:
        match event.name:
            case "turn" if said.turn is None:
                said.turn = event.data
                if next(self._reads_back):
                    await self._read_back(said)
            case "turn":
                if event.data["turn_id"] != (said.turn or {})["turn_id"]:
                    self._fault(said, "made a second turn under its key")
                said.heard, said.last = "", ""
            case "delta":
                said.heard += event.data["text"]
            case "done":
                said.end = event.data
                if said.end["outcome"] == "completed":
                    self._completed.release()
        said.last = event.id or said.last

    async def _read_back(self, said: Said) -> None:
        """Look for it over a connection of its own, which any worker may take."""
        assert said.turn is not None
        line = self._server.line()
        try:
            page = (await line.get(f"/threads/{said.turn['thread_id']}/messages?limit=500")).value()
        except Cut:
            return
        finally:
            line.close()
        self.outcome.did["read back"] += 1
        if said.text not in [message["content"] for message in page["messages"]]:
            self._fault(said, "was acknowledged and could not be read back")

    async def _kill(self) -> None:
        """Kill the server from time to time: time is counted in answers that were heard to their end."""
        some = max(1, self._weather.streams // 8)
        for _ in range(self._weather.kills):
            for _ in range(self._rng.randint(some, 3 * some)):
                await self._completed.acquire()
            workers = self._server.workers()
            if len(workers) > 1 and self._rng.random() < 0.5:
                os.kill(self._rng.choice(workers), signal.SIGKILL)
                self.outcome.did["kills of a worker"] += 1
                continue
            self._up.clear()
            self._server.kill()
            self.outcome.did["kills of the server"] += 1
            await asyncio.to_thread(self._server.start)
            self._up.set()

    def _fault(self, said: Said, what: str) -> None:
        self.outcome.faults.append(f"{said.text!r} {what}")

    async def look_over(self) -> None:
        """Read everything that is there, and hold it against what was said and told."""
        kept: dict[str, list[dict[str, Any]]] = {}
        for asked, told in await _pairs(self._server.line()):
            kept.setdefault(asked["content"], []).append(told)
            self.outcome.ends[str(told["outcome"])] += 1
        for said in self.said:
            turns = kept.pop(said.text, [])
            if len(turns) != 1 and not (said.given_up and not turns):
                self._fault(said, f"is there {len(turns)} times")
            for turn in turns[:1]:
                self._compare(said, turn)
        self.outcome.faults += [f"{text!r} was said by nobody" for text in kept]

    def _compare(self, said: Said, turn: dict[str, Any]) -> None:
        whole, outcome, text = WHOLE[said.manner], turn["outcome"], turn["content"]
        if said.turn is not None and turn["turn_id"] != said.turn["turn_id"]:
            self._fault(said, "was acknowledged as another turn")
        if said.end is not None and (said.end["outcome"], said.end["text"]) != (outcome, text):
            self._fault(said, f"ended as {said.end['outcome']}, and is kept as {outcome}")
        if said.end is not None and said.heard != text:
            self._fault(said, f"was answered with {said.heard!r}, and {text!r} is kept")
        honest = text == whole if outcome == "completed" else outcome in ("incomplete", "failed")
        if not honest or not whole.startswith(text) or (outcome == "completed") > (said.manner != "badly"):
            self._fault(said, f"is {outcome} with {text!r}")


async def _pairs(line: Line) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Read all turns of all threads: what was asked, and what was answered."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    after: str | None = ""
    while after is not None:
        page = (await line.get(f"/threads?limit=500{after and f'&after={after}'}")).value()
        for thread in page["threads"]:
            found += await _turns(line, thread["thread_id"])
        after = page["next"]
    line.close()
    return found


async def _turns(line: Line, thread: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    before: str | None = ""
    while before is not None:
        page = (await line.get(f"/threads/{thread}/messages?limit=500{before and f'&before={before}'}")).value()
        messages, before = page["messages"] + messages, page["before"]
    return list(zip(messages[::2], messages[1::2], strict=True))


def storm(folder: Path, weather: Weather) -> Outcome:
    """Let it blow over a data folder, and say what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(REPLIES), encoding="utf-8")
    server = Served(folder, SETTINGS, workers=weather.workers)
    blowing = Storm(server, weather)
    try:
        asyncio.run(blowing.blow())
        if (code := server.end()) != 0:
            blowing.outcome.faults.append(f"the server ended with {code}")
        server.start()
        asyncio.run(blowing.look_over())
    finally:
        server.end()
    command = [sys.executable, "-m", "contextinfinity", "doctor", "--data-dir", str(folder)]
    examined = subprocess.run(command, capture_output=True, text=True)
    if examined.returncode != 0:
        blowing.outcome.faults.append(examined.stdout + examined.stderr)
    return blowing.outcome


def main() -> None:
    """Read the arguments, let it blow, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description="Streams, cuts and kills.")
    for name, most in (("streams", 200), ("messages", 10), ("kills", 8), ("workers", 1)):
        parser.add_argument(f"--{name}", type=int, default=most)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    weather = Weather(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        outcome = storm(Path(folder), weather)
    print(*outcome.faults[:20], f"{weather}: {outcome}", sep="\n")
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
