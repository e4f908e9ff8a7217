"""Every panel as a picture, at the smallest screen and at a large one.

The pictures are in ``tests/samples/tui``; ``CIX_WRITE_PICTURES=1 pytest tests/doors/tui`` writes them again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.tui_pictures import PLACES
from contextinfinity.tui.workbench_keys import PANELS
from tests.doors.tui.workbench import steady, workbench

pytestmark = pytest.mark.xdist_group("tui")

PICTURES = Path(__file__).parents[2] / "samples" / "tui"


@pytest.mark.req("TUI-1", "TUI-2")
@pytest.mark.parametrize("size", [(80, 24), (140, 45)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_panel_looks_as_its_picture(example: Path, size: tuple[int, int]) -> None:
    different: dict[str, str] = {}

    async def compare(name: str) -> None:
        path = PICTURES / f"{name}-{size[0]}x{size[1]}.txt"
        await bench.settled()
        if os.environ.get("CIX_WRITE_PICTURES"):
            await bench.pilot.pause(0.5)
            path.write_text(steady(bench.picture()), encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8")
        with suppress(TimeoutError):
            await bench.until(lambda: different or steady(bench.picture()) == expected)
        if steady(bench.picture()) != expected:
            different[name] = bench.picture()

    async def go_to(name: str, seq: int | None = None) -> None:
        here = bench.app.conversation
        await bench.app.go_to((await here.call(here.client.threads.get(name))).thread_id, seq=seq)

    async with workbench(example, size=size, session="demo-weather-buoy") as bench:
        await compare("chat")
        for entry in PANELS:
            await go_to(*PLACES.get(entry.name, ("demo-weather-buoy",)))
            await bench.app.action_panel(entry.name)
            await compare(entry.name)
        await bench.press("escape", "f1")
        await compare("keys")
    assert not different, "\n\n".join(f"{name}:\n{picture}" for name, picture in different.items())
