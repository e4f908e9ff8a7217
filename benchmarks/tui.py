"""How quickly the terminal workbench reacts: ``python -m benchmarks.tui [TURNS]``.

Three figures: from the start of the app to a conversation on the screen; from a key press to the drawn screen in a
conversation of 10,000 turns; frames and memory while 5,000 tokens stream in.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from contextinfinity.cli.command_options import CommonOptions
from contextinfinity.cli.demo.demo_player import play
from contextinfinity.cli.engine_thread import opening
from contextinfinity.domain.events import Delta, Durability, StepStarted
from contextinfinity.settings import load_settings
from contextinfinity.tui.live_turn import LiveTurn
from contextinfinity.tui.transcript import Transcript
from contextinfinity.tui.workbench_app import Start, WorkbenchApp

KEYS = ("pageup", "pagedown", "a", "backspace", "pageup", "ctrl+home", "pagedown", "b")
ROUNDS = 25
TOKENS = 5000


async def measure(data_dir: Path) -> None:
    options = CommonOptions(config=None, data_dir=data_dir, as_json=False)
    began = perf_counter()
    with opening(options) as (client, begin):
        app = WorkbenchApp(client, begin, Start(session="demo-harbour-log"))
        async with app.run_test(size=(140, 45)) as pilot:
            transcript = app.query_one(Transcript)
            while not transcript.turns:
                await pilot.pause(0.001)
            print(f"start to conversation  {1000 * (perf_counter() - began):8.0f} ms")
            print(f"turns                  {transcript.turns:8,}")
            times = []
            for key in KEYS * ROUNDS:
                pressed = perf_counter()
                await pilot.press(key)
                times.append(1000 * (perf_counter() - pressed))
            ordered = sorted(times)
            print(f"key to screen, median  {statistics.median(ordered):8.1f} ms")
            print(f"key to screen, p95     {ordered[int(0.95 * len(ordered))]:8.1f} ms")
            await stream(app, transcript)


async def stream(app: WorkbenchApp, transcript: Transcript) -> None:
    """Draw an answer of many tokens, frame by frame, and print how long a frame takes early and late."""
    live = LiveTurn("Tell me everything.", app.console, app.look)
    live.take(StepStarted(step_id="s", step_index=0, provider="scripted", model="demo"))
    transcript.show_live(live)
    frames, sizes = [], []
    tracemalloc.start()
    for number, token in enumerate(_tokens()):
        live.take(Delta(text=token))
        if number % 10 == 9:
            live.take(Durability(displayed=live.displayed, durable=live.displayed // 2))
            drawn = perf_counter()
            transcript._draw_live()
            frames.append(1000 * (perf_counter() - drawn))
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    tenth = len(frames) // 10
    print(f"frame, first tenth     {statistics.mean(frames[:tenth]):8.2f} ms")
    print(f"frame, last tenth      {statistics.mean(frames[-tenth:]):8.2f} ms (worst {max(frames):.1f})")
    print(f"memory for the answer  {(sizes[-1] - sizes[0]) / 1e6:8.2f} MB")
    transcript.show_live(None)


def _tokens() -> Iterator[str]:
    for number in range(TOKENS):
        if number % 200 == 199:
            yield "\n\n```python\nprint('step')\n```\n\n"
        else:
            yield f"word{number % 97} " if number % 40 else "\n\n"


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        (data_dir / "config.toml").write_text(
            '[general]\ndefault_model = "demo"\n[models.demo]\nprovider = "scripted"\n', encoding="utf-8"
        )
        asyncio.run(play(load_settings(data_dir=data_dir).settings, turns, print))
        asyncio.run(measure(data_dir))


if __name__ == "__main__":
    main()
