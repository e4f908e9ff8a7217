"""``ConversationMemory`` beside openai-agents' ``SQLiteSession``: an exchange of 1 KB stored, and 20 exchanges read.

Both are called by turns, from a program without an event loop of its own, on files in one folder.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from benchmarks.content import ANSWER, QUESTION
from benchmarks.harness import Bench, Row, Series
from benchmarks.words import text
from contextinfinity import ConversationMemory

READ = 20
STORE_RATIO, HISTORY_RATIO = 1.5, 1.0


async def run(bench: Bench) -> list[Row]:
    """Measure in a thread: both have loops of their own."""
    with bench.scratch() as folder:
        return await asyncio.to_thread(_compare, folder, bench.scale.blocks * bench.scale.exchanges)


def _compare(folder: Path, calls: int) -> list[Row]:
    from agents.memory import SQLiteSession

    rng, loop = random.Random(8), asyncio.new_event_loop()
    stored, read, peer_stored, peer_read = Series(), Series(), Series(), Series()
    peer = SQLiteSession("bench", str(folder / "peer.db"))
    with ConversationMemory(folder) as memory:
        session_id = memory.create_session("bench")
        for number in range(calls + READ):
            if number == READ:
                for series in (stored, read, peer_stored, peer_read):
                    series.seconds.clear()  # until then the history was short, and modules were loaded
            query, response = text(rng, QUESTION), text(rng, ANSWER)
            with stored.timed():
                memory.store_turn(session_id, "bench", query, response)
            with read.timed():
                memory.get_session_history(session_id, READ)
            with peer_stored.timed():
                said = [{"role": "user", "content": query}, {"role": "assistant", "content": response}]
                loop.run_until_complete(peer.add_items(said))  # type: ignore[arg-type]
            with peer_read.timed():
                loop.run_until_complete(peer.get_items(2 * READ))
    peer.close()
    loop.close()
    return [
        _row("store_turn", stored, peer_stored, STORE_RATIO),
        _row(f"get_session_history of {READ}", read, peer_read, HISTORY_RATIO),
    ]


def _row(what: str, ours: Series, peer: Series, limit: float) -> Row:
    ratio = ours.p50 / peer.p50
    return Row(
        what=f"ConversationMemory.{what}",
        target=f"≤ {limit:g} × openai-agents' SQLiteSession",
        result=str(ours),
        baseline=str(peer),
        ratio=ratio,
        met=ratio <= limit,
        values={"p50_ms": ours.p50, "peer_p50_ms": peer.p50, "ratio": ratio},
    )
