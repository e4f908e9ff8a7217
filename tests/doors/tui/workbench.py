"""The workbench as tests use it: the real app and a real engine, driven through Textual's pilot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from contextinfinity.cli.command_options import CommonOptions
from contextinfinity.cli.engine_thread import opening
from contextinfinity.tui.transcript import Transcript
from contextinfinity.tui.workbench_app import Start, WorkbenchApp

SECONDS = 30.0
MESSAGE_HOPS = 3
"""A key reaches a widget, which posts a message to its panel, which posts one to the app."""
CHANGING = (
    (re.compile(r"(?<![0-9a-f])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8}(?![0-9a-f])"), "#"),
    (re.compile(r" +[\d,]+\.\d+ ms"), "#"),
    (re.compile(r"\d"), "#"),
    (re.compile(r"(?<=[█▒·])[█▒·]|[█▒·](?=[█▒·])"), "█"),
    (re.compile(r"[▁▂▃▄▅▆▇](?=│)"), " "),
)
"""What differs from run to run or with every change of a prompt: ids, times, figures, the shares of the bar, and where
the scroll bar of a conversation is, which depends on the turns that were drawn so far."""


class Workbench:
    """A running workbench: its app, and what a person does with it."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, each when the one before was handled.

        The pilot's own ``press`` waits until the process is idle, up to a second while jobs of the engine run.
        """
        for key in keys:
            name = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
            self.app.post_message(events.Key(name, key if len(key) == 1 else None))
            await self.handled()

    async def type(self, text: str) -> None:
        """Insert a text into the focused widget at once: drawing the screen for each character takes time."""
        self.app.post_message(events.Paste(text))
        await self.handled()

    async def click(self, x: int, y: int, times: int = 1) -> None:
        """Click at a place of the screen."""
        await self.pilot.click(offset=(x, y), times=times)
        await self.handled()

    async def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal."""
        await self.pilot.resize_terminal(width, height)
        await self.handled()

    async def handled(self) -> None:
        """Wait until all messages were handled, and those that they caused."""
        for _ in range(MESSAGE_HOPS):
            await self.pilot._wait_for_screen()
            self.app.screen._on_timer_update()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a state."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.pilot.pause(0.01)

    @property
    def notices(self) -> str:
        """What was announced so far; the screen shows a notice for some seconds only."""
        return "\n".join(notice.message for notice in self.app._notifications)

    async def sees(self, *texts: str) -> None:
        """Wait until all texts are on the screen or were announced."""
        try:
            await self.until(lambda: all(text in self.picture() + self.notices for text in texts))
        except TimeoutError:
            raise AssertionError(f"{texts} is not in\n{self.picture()}") from None

    async def settled(self) -> None:
        """Wait until nothing is read or drawn any more."""
        busy = ("begin", "go", "load", "pages", "operation", "sidebar")
        await self.handled()
        await self.until(lambda: not [w for w in self.app.workers if w.group in busy and not w.is_finished])
        await self.handled()

    def picture(self) -> str:
        """Return the screen as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"

    def row(self, text: str) -> int:
        """Return the first row of the screen that holds a text."""
        return next(row for row, line in enumerate(self.picture().splitlines()) if text in line)

    def header(self, name: str) -> int:
        """Return the figure after a name in the header."""
        found = re.search(rf"{name} (\d+)", self.picture())
        assert found is not None
        return int(found.group(1))

    def brightness(self) -> float:
        """Return the mean brightness of the backgrounds on the screen, from 0 to 1."""
        strips = self.app.screen._compositor.render_strips()
        colours = [part.style.bgcolor for strip in strips for part in strip if part.style and part.style.bgcolor]
        shades = [sum(colour.get_truecolor()) / 765 for colour in colours]
        return sum(shades) / len(shades)

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        return self.app.query_one(Transcript)


@asynccontextmanager
async def workbench(
    data_dir: Path,
    *,
    size: tuple[int, int] = (80, 24),
    server: str | None = None,
    **start: Any,
) -> AsyncIterator[Workbench]:
    """Run a workbench on a data_dir, or with a server."""
    options = CommonOptions(config=None, data_dir=data_dir, as_json=False, server=server)
    with opening(options) as (open_client, begin):
        app = WorkbenchApp(open_client, begin, Start(**start))
        app.NOTIFICATION_TIMEOUT = 600.0  # type: ignore[misc]  # Textual reads it from the instance
        async with app.run_test(size=size) as pilot:
            bench = Workbench(app, pilot)
            await bench.until(lambda: app.is_ready or app.failure)
            assert app.failure or not app.conversation.is_opening, "a message sent now would be left behind"
            await bench.settled()
            yield bench


def steady(picture: str) -> str:
    """Replace what differs from run to run by signs of the same width."""
    for pattern, sign in CHANGING:
        picture = pattern.sub(partial(_masked, sign), picture)
    return picture


def _masked(sign: str, found: re.Match[str]) -> str:
    return sign * len(found.group())
