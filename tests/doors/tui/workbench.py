"""The workbench as tests use it: the real app and a real engine, driven through Textual's pilot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from contextinfinity.cli.command_options import CommonOptions
from contextinfinity.cli.engine_thread import opening
from contextinfinity.tui.transcript import Transcript
from contextinfinity.tui.workbench_app import Start, WorkbenchApp

SECONDS = 30.0
CHANGING = (
    (re.compile(r"(?<![0-9a-f])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8}(?![0-9a-f])"), "#"),
    (re.compile(r" +[\d,]+\.\d+ ms"), "#"),
    (re.compile(r"\d"), "#"),
    (re.compile(r"(?<=[█▒·])[█▒·]|[█▒·](?=[█▒·])"), "█"),
)
"""What differs from run to run or with every change of a prompt: ids, times, figures and the shares of the bar."""


class Workbench:
    """A running workbench: its app, and what a person does with it."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Type a text into what has the keyboard."""
        await self.pilot.press(*text)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a state."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.pilot.pause(0.01)

    async def sees(self, *texts: str) -> None:
        """Wait until all texts are on the screen."""
        try:
            await self.until(lambda: all(text in self.picture() for text in texts))
        except TimeoutError:
            raise AssertionError(f"{texts} is not in\n{self.picture()}") from None

    async def settled(self) -> None:
        """Wait until nothing is read or drawn any more."""
        busy = ("begin", "load", "pages", "operation", "sidebar")
        await self.until(lambda: not [w for w in self.app.workers if w.group in busy and not w.is_finished])
        await self.pilot.pause()

    def picture(self) -> str:
        """Return the screen as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        return self.app.query_one(Transcript)


@asynccontextmanager
async def workbench(
    data_dir: Path, *, size: tuple[int, int] = (80, 24), server: str | None = None, **start: Any
) -> AsyncIterator[Workbench]:
    """Run a workbench on a data_dir, or with a server."""
    options = CommonOptions(config=None, data_dir=data_dir, as_json=False, server=server)
    with opening(options) as (client, begin):
        app = WorkbenchApp(client, begin, Start(**start))
        async with app.run_test(size=size) as pilot:
            bench = Workbench(app, pilot)
            await bench.until(lambda: app.is_ready or app.failure)
            await bench.settled()
            yield bench


def steady(picture: str) -> str:
    """Replace what differs from run to run by signs of the same width."""
    for pattern, sign in CHANGING:
        picture = pattern.sub(partial(_masked, sign), picture)
    return picture


def _masked(sign: str, found: re.Match[str]) -> str:
    return sign * len(found.group())
