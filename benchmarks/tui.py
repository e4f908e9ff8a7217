"""The terminal workbench beside an empty Textual app, both in a pseudo-terminal: start, keys, and a streamed answer.

Wall times depend on what else the machine does, so the processor time of the process is given beside them.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import pty
import select
import shutil
import signal
import statistics
import struct
import sys
import termios
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, thread_time
from types import TracebackType
from typing import Self
from unittest.mock import patch

from textual.app import App, ComposeResult
from textual.widgets import Static

from benchmarks.harness import Bench, Row
from contextinfinity.cli.command_options import CommonOptions
from contextinfinity.cli.demo.demo_command import CONFIG
from contextinfinity.cli.demo.demo_player import LOGBOOK, play
from contextinfinity.cli.engine_thread import opening
from contextinfinity.client.local import LocalClient
from contextinfinity.domain.events import Delta, StepStarted
from contextinfinity.settings import STATIC, load_settings
from contextinfinity.tui.live_turn import LiveTurn
from contextinfinity.tui.transcript import Transcript
from contextinfinity.tui.turn_scroll import FRAME_SECONDS
from contextinfinity.tui.workbench_app import Start, WorkbenchApp
from contextinfinity.wiring import open_engine

TURNS = 10_000
TOKENS = 5_000
TOKENS_A_FRAME = 10
TOKEN_SECONDS = 0.001
"""The pause before each streamed token: faster than any vendor sends them."""
ANSWERS = 3
MOST_STARTS = 5
ROUNDS_A_START = 2
"""How often all keys are pressed after a start, at most."""
SIZE = (45, 140)
KEYS = (b"a", b"\x7f", b"\x1b[5~", b"\x1b[6~")
"""A letter, backspace, page up, page down."""
QUIET_SECONDS = 0.2
SETTLED = f"""{CONFIG}
[compaction]
enabled = false

[retrieval]
embedding_model = "{STATIC}"
"""
"""Nothing works beside the workbench once the index is complete, which does not take long with this model."""
EMPTY_APP = """\
from textual.app import App
from textual.widgets import TextArea
class Empty(App):
    def compose(self):
        yield TextArea("ready")
Empty().run()
"""


async def run(bench: Bench) -> list[Row]:
    """Fill a data_dir with a long conversation and measure the workbench on it."""
    turns = min(TURNS, bench.scale.ledgers[-1])
    with bench.scratch() as folder:
        imported, data_dir = folder / "imported", folder / "settled"
        imported.mkdir()
        (imported / "config.toml").write_text(CONFIG, encoding="utf-8")
        await play(load_settings(data_dir=imported).settings, turns, lambda _: None)
        shutil.copytree(imported, data_dir)
        (data_dir / "config.toml").write_text(SETTLED, encoding="utf-8")
        await _settle(data_dir)
        rounds = min(ROUNDS_A_START, bench.scale.reads)
        sides: dict[str, list[Terminal]] = {"ours": [], "floor": [], "folding": []}
        for _ in range(min(bench.scale.starts, MOST_STARTS)):
            with Terminal([sys.executable, "-c", EMPTY_APP]) as empty:
                empty.wait_for("ready")
                empty.press_keys(rounds)
                sides["floor"].append(empty)
            with _opened(data_dir, turns) as ours:
                ours.press_keys(rounds)
                sides["ours"].append(ours)
        with _opened(imported, turns) as folding:
            folding.press_keys(rounds)
            sides["folding"].append(folding)
        return [*_start_rows(sides), *_key_rows(sides, turns), *await _stream_rows(data_dir)]


async def _settle(data_dir: Path) -> None:
    """Complete the search index, which is left to do after an import."""
    engine = open_engine(load_settings(data_dir=data_dir).settings)
    async with LocalClient(engine) as client:
        await client.past.complete_index()


@contextmanager
def _opened(data_dir: Path, turns: int) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "contextinfinity", "tui", "--data-dir", str(data_dir), "--session", LOGBOOK]
    with Terminal(command) as opened:
        opened.wait_for("ContextInfinity")
        opened.wait_for(f"{turns}")
        yield opened


class Terminal:
    """A program in a pseudo-terminal of 140 by 45."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.seen: list[tuple[float, float]] = []
        """(seconds since the start, processor seconds) at which the texts waited for were shown."""
        self.keys: list[tuple[float, float]] = []
        """(seconds to the first output, processor seconds until it was quiet) of each key."""

    def __enter__(self) -> Self:
        self._began = perf_counter()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve(self._command[0], self._command, {**os.environ, "TERM": "xterm-256color"})  # noqa: S606
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.kill(self._pid, signal.SIGTERM)
        while self._read(30.0):
            pass
        os.close(self._terminal)
        os.waitpid(self._pid, 0)

    def wait_for(self, text: str) -> None:
        """Read until a text was shown."""
        shown = b""
        while text.encode() not in shown:
            more = self._read(60.0)
            assert more, f"{self._command} ended before it showed {text}: {shown[-500:]!r}"
            shown += more
        self.seen.append((perf_counter() - self._began, self._cpu()))

    def press_keys(self, rounds: int) -> None:
        """Press keys one by one, each when nothing is drawn any more."""
        self._rest()
        for key in KEYS * rounds:
            cpu, pressed = self._cpu(), perf_counter()
            os.write(self._terminal, key)
            if self._read(0.5):  # a page key at the end of the text draws nothing
                seconds = perf_counter() - pressed
                self._rest()
                self.keys.append((seconds, self._cpu() - cpu))

    def _rest(self) -> None:
        while self._read(QUIET_SECONDS):
            pass

    def _read(self, seconds: float) -> bytes:
        try:
            return os.read(self._terminal, 65536) if select.select([self._terminal], [], [], seconds)[0] else b""
        except OSError:  # it has ended
            return b""

    def _cpu(self) -> float:
        tasks = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _start_rows(sides: dict[str, list[Terminal]]) -> Iterator[Row]:
    empty = _figures([terminal.seen[0] for terminal in sides["floor"]])
    for place, what in enumerate(("its screen is drawn", "the conversation is shown")):
        ours = _figures([terminal.seen[place] for terminal in sides["ours"]])
        yield _row(f"start of cix tui until {what}", ours, empty, 1000)


def _key_rows(sides: dict[str, list[Terminal]], turns: int) -> Iterator[Row]:
    ours, empty = (_figures([key for one in sides[side] for key in one.keys]) for side in ("ours", "floor"))
    yield _row(f"key press until the screen changes, {turns:,} turns", ours, empty, 50)
    folding = _figures(sides["folding"][0].keys)
    yield _row("  right after an import, while turns are folded and indexed", folding, empty, 50)


def _figures(times: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the median and the 95th percentile of the wall times and the median of the processor times, in ms."""
    wall = sorted(1000 * seconds for seconds, _ in times)
    return statistics.median(wall), wall[int(0.95 * len(wall))], 1000 * statistics.median(cpu for _, cpu in times)


def _row(what: str, ours: tuple[float, float, float], floor: tuple[float, float, float], limit: int) -> Row:
    return Row(
        what=what,
        target=f"≤ {limit} ms",
        result="{:.0f} ms (p95 {:.0f}), CPU {:.0f} ms".format(*ours),
        baseline="an empty app: {:.0f} ms (p95 {:.0f}), CPU {:.0f} ms".format(*floor),
        ratio=ours[0] / floor[0],
        met=ours[0] <= limit,
        values={"ours_ms": ours[0], "ours_p95_ms": ours[1], "cpu_ms": ours[2], "floor_ms": floor[0]},
    )


async def _stream_rows(data_dir: Path) -> list[Row]:
    script, config = data_dir / "long.json", data_dir / "config.toml"
    script.write_text(json.dumps([{"pieces": [*_tokens()], "delay": TOKEN_SECONDS}]), encoding="utf-8")
    config.write_text(f'{SETTLED}\n[models.long]\nprovider = "scripted"\npath = "{script}"\n', encoding="utf-8")
    options = CommonOptions(config=None, data_dir=data_dir, as_json=False)
    with opening(options) as (open_client, begin), _frames() as frames:
        app = WorkbenchApp(open_client, begin, Start(session="new", model="long"))
        async with app.run_test(size=(SIZE[1], SIZE[0])) as pilot:
            while not app.is_ready:
                await pilot.pause(0.01)
            grown = _growth(app)
            frames.clear()
            gc.freeze()  # as the command does
            app.answers.send("Tell me everything.")
            while app.answers.live is not None:
                await pilot.pause(0.05)
    gaps, costs = [gap for gap, _ in frames], [cost for _, cost in frames]
    empty = await _empty_gaps(len(frames))
    tenth = max(len(frames) // 10, 1)
    early, late = statistics.median(costs[:tenth]), statistics.median(costs[-tenth:])
    dropped = _dropped(gaps)
    return [
        Row(
            what=f"dropped frames, {TOKENS:,} tokens streamed",
            target="0",
            result=f"{dropped} of {len(frames)}; {_between(gaps)}",
            baseline=f"an empty app: {_dropped(empty)}; {_between(empty)}",
            ratio=statistics.median(gaps) / statistics.median(empty),
            met=not dropped,
            values={
                "dropped": float(dropped),
                "longest_gap_ms": max(gaps),
                "floor_dropped": float(_dropped(empty)),
                "floor_longest_gap_ms": max(empty),
            },
        ),
        Row(
            what="  CPU of a frame at the end, screen thread",
            target="≤ 50 ms, as at its start",
            result=f"{late:.1f} ms, {early:.1f} at the start, {max(costs):.1f} the longest",
            met=max(costs) <= 50,
            values={"early_ms": early, "late_ms": late, "longest_ms": max(costs)},
        ),
        Row(
            what=f"  memory kept for each of {ANSWERS} further such answers",
            target="≤ 0.02 MB",
            result=f"{grown / 1e6:.3f} MB",
            met=grown <= 20_000,
            values={"left_bytes": grown},
        ),
    ]


def _dropped(gaps: list[float]) -> int:
    return sum(gap > 2000 * FRAME_SECONDS for gap in gaps)


def _between(gaps: list[float]) -> str:
    return f"between two frames {statistics.median(gaps):.0f} ms, at most {max(gaps):.0f}"


class EmptyFrames(App[None]):
    """An app with one line, drawn at the rate of an answer while tokens come at theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self._said = ""
        self._last = 0.0

    def compose(self) -> ComposeResult:
        """Show the line."""
        yield Static(markup=False)

    def on_mount(self) -> None:
        """Begin to draw and to take tokens."""
        self.set_interval(FRAME_SECONDS, self._draw)
        self.run_worker(self._take_tokens())

    async def _take_tokens(self) -> None:
        while True:
            for self._said in _tokens():
                await asyncio.sleep(TOKEN_SECONDS)

    def _draw(self) -> None:
        now = perf_counter()
        if self._last:
            self.gaps.append(1000 * (now - self._last))
        self._last = now
        self.query_one(Static).update(self._said)


async def _empty_gaps(frames: int) -> list[float]:
    """Return ms between two frames of an empty app, for as many frames."""
    app = EmptyFrames()
    async with app.run_test(size=(SIZE[1], SIZE[0])) as pilot:
        while len(app.gaps) < frames:
            await pilot.pause(FRAME_SECONDS)
    return app.gaps[:frames]


@contextmanager
def _frames() -> Iterator[list[tuple[float, float]]]:
    """Record ms since the frame before and processor ms of each frame of an answer."""
    frames, draw, last = list[tuple[float, float]](), Transcript._draw_live, 0.0

    def measured(transcript: Transcript) -> None:
        nonlocal last
        began, is_answer = thread_time(), transcript._live is not None and transcript._live.displayed > 0
        draw(transcript)
        if is_answer:
            frames.append((1000 * (perf_counter() - last), 1000 * (thread_time() - began)))
        last = perf_counter()

    with patch.object(Transcript, "_draw_live", measured):
        yield frames


def _growth(app: WorkbenchApp) -> float:
    """Draw further answers on the screen and return how many bytes the screen keeps of each."""
    _draw_answer(app)  # fills the caches of Rich and Textual
    tracemalloc.start()
    _draw_answer(app)
    before = _kept_by_the_screen()
    for _ in range(ANSWERS):
        _draw_answer(app)
    grown = _kept_by_the_screen() - before
    tracemalloc.stop()
    return grown / ANSWERS


def _kept_by_the_screen() -> int:
    """Return the bytes that were allocated by the workbench, Rich and Textual; the engine works beside them."""
    gc.collect()
    screen = [tracemalloc.Filter(True, f"*/{part}/*") for part in ("tui", "terminal", "rich", "textual", "markdown_it")]
    traced = tracemalloc.take_snapshot().filter_traces(screen)
    return sum(trace.size for trace in traced.traces)


def _draw_answer(app: WorkbenchApp) -> None:
    live = LiveTurn("Tell me everything.", app.console, app.look)
    live.take(StepStarted(step_id="s", step_index=0, provider="scripted", model="demo"))
    app.transcript.show_live(live)
    for number, token in enumerate(_tokens()):
        live.take(Delta(text=token))
        if number % TOKENS_A_FRAME == TOKENS_A_FRAME - 1:
            app.transcript._draw_live()
    app.transcript.show_live(None)


def _tokens() -> Iterator[str]:
    for number in range(TOKENS):
        if number % 200 == 199:
            yield "\n\n```python\nprint('step')\n```\n\n"
        else:
            yield f"word{number % 97} " if number % 40 else "\n\n"
