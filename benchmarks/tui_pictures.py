"""Draw the pictures of the manual: ``make screenshots`` writes them into docs/pictures."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from contextinfinity.cli.command_options import CommonOptions
from contextinfinity.cli.demo.demo_command import CONFIG
from contextinfinity.cli.demo.demo_player import play
from contextinfinity.cli.engine_thread import opening
from contextinfinity.settings import load_settings
from contextinfinity.tui.workbench_app import Start, WorkbenchApp
from contextinfinity.tui.workbench_keys import PANELS

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SIZE = (140, 40)
FONT = re.compile(r"@font-face \{.*?\}\s*", re.S)
"""Where Textual's pictures would fetch a font from; any monospaced one does."""
PLACES: dict[str, tuple[str, int]] = {
    "context": ("demo-weather-buoy", 13),
    "steps": ("demo-weather-buoy", 7),
    "pending": ("demo-other-3", 2),
}
"""Where the panels have most to show: what was left out, a tool call, and a turn that waits for its commit."""
VARYING = {
    re.compile(r"terminal-\d+"): "terminal-1",
    re.compile(r"\b\d\d:\d\d\b"): "09:00",
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8}\b"): "5c1e4fa0",
}
"""What differs from run to run, and its replacement in the pictures, which is as long."""


async def draw(data_dir: Path) -> None:
    """Open every panel once and save the screen."""
    options = CommonOptions(config=None, data_dir=data_dir, as_json=False)
    PICTURES.mkdir(exist_ok=True)
    with opening(options) as (open_client, begin):
        app = WorkbenchApp(open_client, begin, Start(session="demo-weather-buoy"))
        async with app.run_test(size=SIZE) as pilot:
            while not app.is_ready or [worker for worker in app.workers if worker.group == "begin"]:
                await pilot.pause(0.05)
            for entry in PANELS:
                name, *seq = PLACES.get(entry.name, ("demo-weather-buoy",))
                here = app.conversation
                thread = await here.call(here.client.threads.get(name))
                await app.go_to(thread.thread_id, seq=seq[0] if seq else None)
                await app.action_panel(entry.name)
                await pilot.pause()
                while [one for one in app.workers if one.group in ("load", "pages") and not one.is_finished]:
                    await pilot.pause(0.05)
                await pilot.pause()
                path = PICTURES / f"tui-{entry.name}.svg"
                drawn = FONT.sub("", app.export_screenshot(title="cix tui"))
                for varying, fixed in VARYING.items():
                    drawn = varying.sub(fixed, drawn)
                if not path.exists() or _without_figures(path.read_text(encoding="utf-8")) != _without_figures(drawn):
                    path.write_text(drawn, encoding="utf-8")
                print(path)


def _without_figures(picture: str) -> str:
    """Leave out the digits: durations and scores alone do not make a new picture."""
    return re.sub(r"\d+", "", picture)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        (data_dir / "config.toml").write_text(CONFIG, encoding="utf-8")
        asyncio.run(play(load_settings(data_dir=data_dir).settings, 300, print))
        asyncio.run(draw(data_dir))


if __name__ == "__main__":
    main()
