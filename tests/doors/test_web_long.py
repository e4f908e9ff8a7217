"""The web page with a conversation of 10,000 turns: first paint, the size of the document, frames while scrolling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.browser import browsing, needs_browser, server_in, window
from tests.doors.cix import Cix

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.proof, needs_browser]

TURNS = 10_000
FIRST_PAINT_MS = 500
FRAME_MS = 16
SCROLL = """async (steps) => {
  const scroll = document.getElementById("scroll"), frames = [];
  performance.clearMeasures("feed-draw");
  let last = performance.now();
  for (let step = 0; step < steps; step++) {
    scroll.scrollTop -= 220;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  const script = performance.getEntriesByName("feed-draw").map((entry) => entry.duration);
  const share = (all) => all.sort((a, b) => a - b)[Math.floor(0.95 * all.length)] ?? 0;
  const rows = document.querySelectorAll("article").length;
  return { script: share(script), frame: share(frames), drawn: script.length, rows };
}"""


def written(path: Path, turns: int) -> Path:
    """Write a file of messages to import."""
    lines = []
    for number in range(turns):
        lines.append({"role": "user", "content": f"Question {number}: what about the harbour?"})
        lines.append({"role": "assistant", "content": f"Answer {number}.\n\n- **one**\n- two\n\n`code {number}`" * 2})
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.timeout(600)
def test_a_long_conversation_is_shown_at_once_and_scrolls_with_few_rows(tmp_path: Path) -> None:
    server, cix = server_in(tmp_path), Cix(tmp_path)
    try:
        thread = cix.json("import", str(written(tmp_path / "long.jsonl", TURNS)))["sessions"][0]["thread_id"]
        with browsing() as browser, window(browser, server, viewport={"width": 1280, "height": 800}) as web:
            web.open(f"#/t/{thread}").answered(TURNS, f"Answer {TURNS - 1}.")
            web.page.reload()
            web.answered(TURNS, f"Answer {TURNS - 1}.")
            paint = web.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            seen = web.page.evaluate(SCROLL, 400)
            print(f"first paint {paint:.0f} ms; {seen}")  # noqa: T201
            assert paint <= FIRST_PAINT_MS
            assert seen["drawn"] > 0
            assert seen["rows"] < 40
            assert seen["script"] <= FRAME_MS
            web.page.evaluate("document.getElementById('scroll').scrollTop = 0")
            web.answered(1, "Answer 0.")
            assert web.page.evaluate("document.querySelectorAll('article').length") < 40
    finally:
        server.stop()
