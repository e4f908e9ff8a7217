"""Plays the example conversations of ``conversation.toml`` into a data_dir, through the engine like any conversation.

A scripted model answers. What it makes: a long conversation with tables, code, a tool call, decisions, pins, memories,
two side branches and a fold; a logbook of many turns, imported; short conversations, one of which waits for its commit
and one of which was cut off.

A conversation gets its title when it is complete. One without a title was interrupted: it is deleted and played again.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.events import Delta
from contextinfinity.domain.session import NewSession
from contextinfinity.errors import NotFound, Refused
from contextinfinity.settings import ModelSettings
from contextinfinity.text.plurals import counted
from contextinfinity.wiring import open_engine

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client
    from contextinfinity.engine.engine import Engine
    from contextinfinity.settings import Settings

MODEL = "demo"
WINDOW = 8192
"""The window of the demo's model: small, so that the conversation has to be folded."""
PRICE_INPUT, PRICE_CACHED, PRICE_OUTPUT = 0.4, 0.1, 1.6
"""What a million tokens of the demo's model would cost, in dollars."""
MAIN, LOGBOOK = "demo-weather-buoy", "demo-harbour-log"
NAMES = (MAIN, LOGBOOK, "demo-other-1", "demo-other-2", "demo-other-3")
"""The ids of the example conversations, in the order in which they are played."""
FOLDED_AFTER = 11
"""The turn, counted from 0, after which the example is folded: later turns are left for a preview."""
LAST_DAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
"""When the last entry of the logbook was written."""
HOURS_BETWEEN, MOST_YEARS = 6, 20
DRAIN_SECONDS = 60.0
"""How long to wait for the jobs of the turns played so far."""
PINS = ("The whole buoy costs at most 450 EUR.", "Answers for the class use metric units.")
MEMORIES = ("Ingrid teaches physics at the school in Tornby.", "Ingrid prefers short answers with a table.")
LEFT_PENDING = "cix demo leaves this turn pending, to be committed by hand."

Progress = Callable[[str], None]


class Survey(NamedTuple):
    """Which example conversations a data_dir lacks, and whether it holds nothing else."""

    missing: tuple[str, ...]
    is_own: bool


async def survey(settings: Settings, *, add: bool = False) -> Survey:
    """Return what is to be played, and delete what was interrupted.

    Raises ``Refused`` if the data_dir has other conversations and none of the example, unless ``add``.
    """
    async with LocalClient(open_engine(settings)) as client:
        others = [
            thread
            for owner in await client.exports.owners()
            for thread in await client.threads.list(owner, limit=len(NAMES) + 1)
            if thread.external_id not in NAMES
        ]
        found = set[str]()
        there = False
        for name in NAMES:
            with suppress(NotFound):
                thread = await client.threads.get(name)
                there = True
                if thread.title is None:
                    await client.threads.delete(thread.thread_id)
                else:
                    found.add(name)
        if others and not there and not add:
            raise Refused(
                f"{settings.data_dir} has conversations already, and the example would be mixed with them.",
                hint="Name another --data-dir, or add the example with --add.",
            )
    return Survey(tuple(name for name in NAMES if name not in found), not others)


async def play(settings: Settings, turns: int, progress: Progress, names: tuple[str, ...] = NAMES) -> None:
    """Play example conversations into the data_dir of the settings, each with an engine of its own."""
    script = tomllib.loads((Path(__file__).parent / "conversation.toml").read_text(encoding="utf-8"))
    others = dict(zip(NAMES[2:], script["other"], strict=True))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in names:
            told = script["logbook"] if name == LOGBOOK else others.get(name, script)
            many = turns if name == LOGBOOK else len(told["turn"])
            progress(f"{told['title']}: {counted(many, 'turn')}")
            replies = folder / f"{name}.json"
            replies.write_text(json.dumps({"replies": list(_replies(told.get("turn", [])))}), encoding="utf-8")
            engine = open_engine(_playing(settings, replies))
            engine.tools.add(tide_table)
            client = LocalClient(engine)
            await client.__aenter__()
            try:
                if name == LOGBOOK:
                    await _import_logbook(client, told, turns, folder)
                elif name == MAIN:
                    await _play_main(client, engine, told)
                else:
                    await _play_other(client, engine, told, name)
                await client.threads.rename((await client.threads.get(name)).thread_id, told["title"])
            finally:
                await client.close(answer_seconds=0.0)


def tide_table(harbour: str, day: str) -> str:
    """Return the times of low water at a harbour."""
    return f"{harbour}, {day}: low water 06:42 (0.3 m) and 19:05 (0.4 m)"


def _playing(settings: Settings, replies: Path) -> Settings:
    """Return the settings the example is played with: its own model, and summaries by rule."""
    model = ModelSettings(
        provider="scripted",
        path=str(replies),
        context_limit=WINDOW,
        tools=True,
        price_input=PRICE_INPUT,
        price_cached=PRICE_CACHED,
        price_output=PRICE_OUTPUT,
    )
    return replace(
        settings,
        general=replace(settings.general, default_model=MODEL),
        tools=replace(settings.tools, mode="enabled"),
        librarian=replace(settings.librarian, model="offline"),
        models={**settings.models, MODEL: model},
    )


def _replies(turns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the replies of the scripted model in the order in which the turns are played."""
    for turn in _ordered(turns):
        if "tool" in turn:
            yield {"text": "Let me look that up.", "tools": [{**turn["tool"], "call_id": "call-1"}], "metered": True}
        yield {"text": turn["reply"].strip(), "metered": True, "hang": bool(turn.get("cut"))}


def _ordered(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns of the main branch, then those of the others."""
    return [*(turn for turn in turns if "branch" not in turn), *(turn for turn in turns if "branch" in turn)]


async def _play_main(client: Client, engine: Engine, script: dict[str, Any]) -> None:
    thread = await client.threads.create(NewSession(external_id=MAIN))
    branches: dict[int, str] = {}
    for number, turn in enumerate(_ordered(script["turn"])):
        branch = None
        if "branch" in turn:
            after = turn["branch"]["after"]
            if after not in branches:
                branches[after] = (await client.threads.fork(thread.thread_id, at=after)).branch_id
            branch = branches[after]
        await client.conversations.ask(thread.thread_id, turn["say"], branch_id=branch, model=MODEL, may_ask_back=False)
        await engine.job_runner.drain(DRAIN_SECONDS)  # so that the next prompt is the same on every machine
        if number == 1:
            for fact in PINS:
                await client.pins.add(thread.thread_id, fact)
        if number == FOLDED_AFTER:
            await client.threads.commit(thread.thread_id)
            await client.folds.fold(thread.thread_id)
    known = {memory.content for memory in await client.memories.list()}
    for fact in MEMORIES:
        if fact not in known:
            await client.memories.add(fact)


async def _import_logbook(client: Client, logbook: dict[str, Any], turns: int, folder: Path) -> None:
    path = folder / "logbook.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for message in _logbook(logbook, turns):
            file.write(json.dumps(message, ensure_ascii=False) + "\n")
    await client.imports.load(path)


def _logbook(logbook: dict[str, Any], turns: int) -> Iterator[dict[str, Any]]:
    """Write entries that differ in place, work, weather and figures."""
    stations, works, notes = logbook["stations"], logbook["works"], logbook["notes"]
    between = min(timedelta(hours=HOURS_BETWEEN), timedelta(days=365 * MOST_YEARS) / turns)
    for day in range(turns):
        moment = LAST_DAY - between * (turns - 1 - day)
        where, what, note = stations[day % len(stations)], works[day * 5 % len(works)], notes[day * 7 % len(notes)]
        entry = f"Entry {day + 1}: at {where} we {what}; {note}."
        volts, degrees = 3.2 + day % 9 / 50, 2 + day % 130 / 10
        reply = f"Logged entry {day + 1}. Battery **{volts:.2f} V**, water **{degrees:.1f} °C**."
        if day % 10 == 9:
            rows = "\n".join(
                f"| {station} | {(day * 3 + place) % 17 / 2:.1f} m/s |" for place, station in enumerate(stations)
            )
            reply += f"\n\n| station | wind |\n| --- | ---: |\n{rows}"
        for role, content in (("user", entry), ("assistant", reply)):
            yield {"role": role, "content": content, "thread_id": LOGBOOK, "created_at": moment.isoformat()}


async def _play_other(client: Client, engine: Engine, other: dict[str, Any], name: str) -> None:
    thread = await client.threads.create(NewSession(external_id=name))
    for turn in other["turn"]:
        if turn.get("pending"):
            await engine.job_runner.stop(drain_seconds=DRAIN_SECONDS)
        if not turn.get("cut"):
            await client.conversations.ask(thread.thread_id, turn["say"], model=MODEL, may_ask_back=False)
            continue
        missing = len("".join(turn["reply"].split()))
        async for stamped in client.conversations.send(thread.thread_id, turn["say"], model=MODEL, may_ask_back=False):
            if isinstance(stamped.event, Delta):
                missing -= len("".join(stamped.event.text.split()))
            if missing <= 0:
                break  # closing the engine now leaves the answer as a crash would
    if other["turn"][-1].get("pending"):
        await _give_up_commit(engine)


async def _give_up_commit(engine: Engine) -> None:
    """Give up the job that commits the newest turn, so that the turn stays pending until a person commits it."""
    worker = engine.worker_lease.worker.id
    await engine.job_runner.stop()  # which returns the job to the queue
    job = await engine.store.jobs.claim(worker, {"summarize_turn"})
    assert job is not None  # noqa: S101  the runner ended all others and was stopped before the turn
    await engine.store.jobs.give_up(job.id, worker, error=LEFT_PENDING)
