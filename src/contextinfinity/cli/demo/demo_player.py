"""Plays the example conversations of ``conversation.toml`` into a data_dir, through the engine like any conversation.

A scripted model answers. What it makes: a long conversation with tables, code, a tool call, decisions, pins, memories,
two side branches and a fold; a logbook of many turns, imported; short conversations, of which the last was cut off.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.events import Delta
from contextinfinity.domain.session import NewSession
from contextinfinity.errors import NotFound
from contextinfinity.settings import ModelSettings
from contextinfinity.wiring import open_engine

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client
    from contextinfinity.settings import Settings

MODEL = "demo"
WINDOW = 8192
"""The window of the demo's model: small, so that the conversation has to be folded."""
PRICE_INPUT, PRICE_CACHED, PRICE_OUTPUT = 0.4, 0.1, 1.6
"""What a million tokens of the demo's model would cost, in dollars."""
MAIN, LOGBOOK = "demo-weather-buoy", "demo-harbour-log"
FOLDED_AFTER = 11
"""The turn, counted from 0, after which the example is folded: later turns are left for a preview."""
FIRST_DAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PINS = ("The whole buoy costs at most 450 EUR.", "Answers for the class use metric units.")
MEMORIES = ("Ingrid teaches physics at the school in Tornby.", "Ingrid prefers short answers with a table.")

Progress = Callable[[str], None]


async def play(settings: Settings, turns: int, progress: Progress) -> bool:
    """Fill the data_dir of the settings; return False if the example is in it already."""
    script = tomllib.loads((Path(__file__).parent / "conversation.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        replies = Path(folder) / "replies.json"
        replies.write_text(json.dumps({"replies": list(_replies(script))}), encoding="utf-8")
        engine = open_engine(_playing(settings, replies))
        engine.tools.add(tide_table)
        client = LocalClient(engine)
        await client.__aenter__()
        try:
            if await _is_there(client):
                return False
            progress(f"{script['title']}: {len(script['turn'])} turns on three branches")
            await _play_main(client, script)
            progress(f"{script['logbook']['title']}: {turns} turns")
            await _import_logbook(client, script["logbook"], turns, Path(folder))
            for number, other in enumerate(script["other"]):
                progress(other["title"])
                await _play_other(client, other, f"demo-other-{number + 1}")
        finally:
            await client.close(answer_seconds=0.0)
    return True


def tide_table(harbour: str, day: str) -> str:
    """Return the times of low water at a harbour."""
    return f"{harbour}, {day}: low water 06:42 (0.3 m) and 19:05 (0.4 m)"


def _playing(settings: Settings, replies: Path) -> Settings:
    """Return the settings the example is played with: its own model, and summaries by rule."""
    model = ModelSettings(provider="scripted", path=str(replies), context_limit=WINDOW, tools=True)
    return replace(
        settings,
        general=replace(settings.general, default_model=MODEL),
        tools=replace(settings.tools, mode="enabled"),
        librarian=replace(settings.librarian, model="offline"),
        models={**settings.models, MODEL: model},
    )


def _replies(script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the replies of the scripted model in the order in which the turns are played."""
    turns = [*_ordered(script["turn"]), *(turn for other in script["other"] for turn in other["turn"])]
    for number, turn in enumerate(turns):
        read = 700 + 90 * (number % 40)
        cached, written = read * 3 // 4, len(turn["reply"]) // 4
        cost = ((read - cached) * PRICE_INPUT + cached * PRICE_CACHED + written * PRICE_OUTPUT) / 1e6
        usage = {"input_tokens": read, "cached_tokens": cached, "output_tokens": written, "cost": cost}
        if "tool" in turn:
            yield {"text": "Let me look that up.", "tools": [{**turn["tool"], "call_id": "call-1"}], "usage": usage}
        yield {"text": turn["reply"].strip(), "usage": usage, "hang": bool(turn.get("cut"))}


def _ordered(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns of the main branch, then those of the others."""
    return [*(turn for turn in turns if "branch" not in turn), *(turn for turn in turns if "branch" in turn)]


async def _is_there(client: Client) -> bool:
    try:
        await client.threads.get(MAIN)
    except NotFound:
        return False
    return True


async def _play_main(client: Client, script: dict[str, Any]) -> None:
    thread = await client.threads.create(NewSession(external_id=MAIN, title=script["title"]))
    branches: dict[int, str] = {}
    for number, turn in enumerate(_ordered(script["turn"])):
        branch = None
        if "branch" in turn:
            after = turn["branch"]["after"]
            if after not in branches:
                branches[after] = (await client.threads.fork(thread.thread_id, at=after)).branch_id
            branch = branches[after]
        await client.conversations.ask(thread.thread_id, turn["say"], branch_id=branch, model=MODEL, may_ask_back=False)
        if number == 1:
            for fact in PINS:
                await client.pins.add(thread.thread_id, fact)
        if number == FOLDED_AFTER:
            await client.threads.commit(thread.thread_id)
            await client.folds.fold(thread.thread_id)
    for fact in MEMORIES:
        await client.memories.add(fact)


async def _import_logbook(client: Client, logbook: dict[str, Any], turns: int, folder: Path) -> None:
    path = folder / "logbook.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for message in _logbook(logbook, turns):
            file.write(json.dumps(message, ensure_ascii=False) + "\n")
    imported = await client.imports.load(path)
    await client.threads.rename(imported.sessions[0].thread_id, logbook["title"])


def _logbook(logbook: dict[str, Any], turns: int) -> Iterator[dict[str, Any]]:
    """Write entries that differ in place, work, weather and figures."""
    stations, works, notes = logbook["stations"], logbook["works"], logbook["notes"]
    for day in range(turns):
        moment = FIRST_DAY + timedelta(hours=6 * day)
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


async def _play_other(client: Client, other: dict[str, Any], name: str) -> None:
    thread = await client.threads.create(NewSession(external_id=name, title=other["title"]))
    for turn in other["turn"]:
        if not turn.get("cut"):
            await client.conversations.ask(thread.thread_id, turn["say"], model=MODEL, may_ask_back=False)
            continue
        missing = len("".join(turn["reply"].split()))
        async for stamped in client.conversations.send(thread.thread_id, turn["say"], model=MODEL, may_ask_back=False):
            if isinstance(stamped.event, Delta):
                missing -= len("".join(stamped.event.text.split()))
            if missing <= 0:
                break  # closing the engine now leaves the answer as a crash would
