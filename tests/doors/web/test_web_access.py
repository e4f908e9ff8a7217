"""The web page in a real browser: accessibility, keyboard, phone."""

from __future__ import annotations

import pytest
from axe_core_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

from tests.doors.server import Server
from tests.doors.web.browser import BrowserThread, WebPage, needs_browser

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


PANELS = ("context", "branches", "usage", "pins", "memories")


@pytest.mark.parametrize(
    ("width", "theme", "panels"),
    [
        (1280, "light", ("context",)),
        pytest.param(1280, "light", PANELS, marks=pytest.mark.proof),
        pytest.param(390, "dark", PANELS, marks=pytest.mark.proof),
        pytest.param(1280, "dark", PANELS, marks=pytest.mark.proof),
        pytest.param(390, "light", PANELS, marks=pytest.mark.proof),
    ],
)
def test_no_rule_of_accessibility_is_broken(
    chromium: BrowserThread, served: Server, width: int, theme: str, panels: tuple[str, ...]
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": theme, "reduced_motion": "reduce"}
    with chromium.window(served, **options) as web:
        web.open().ask("Show me a table", 1, "Here it is", "talk")
        web.turn(1).focus()
        found = check(web, "chat")
        for name in panels:
            web.panel(name)
            web.wait("document.querySelector('#panel .panel-body')?.childElementCount")
            found += check(web, name, "#panel")
            web.page.locator("#panel > header button").click()
        if width > 1000:
            web.page.click("#open-settings")
            web.page.locator("dialog").wait_for()
            found += check(web, "settings", "dialog")
        assert found == []


def check(web: WebPage, where: str, part: str = "html") -> list[str]:
    """Name the rules of axe-core that a part of the page breaks."""
    if not web.page.evaluate("'axe' in window"):
        web.page.evaluate(Axe().axe_script)
    run = "part => axe.run(part, {resultTypes: ['violations']}).then((found) => found.violations)"
    broken = web.page.evaluate(run, part)
    return [f"{where}: {rule['id']}: {node['html'][:120]}" for rule in broken for node in rule["nodes"]]


def test_the_keyboard_reaches_everything(web: WebPage) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.turn(2).focus()
    web.page.keyboard.press("k")
    expect(web.turn(1)).to_be_focused()
    web.page.keyboard.press("e")
    expect(web.turn(1).locator("textarea")).to_be_focused()
    web.page.keyboard.press("Escape")
    expect(web.turn(1)).to_be_focused()
    web.page.keyboard.press("w")
    expect(web.page.locator("#panel .ok")).to_contain_text("Exactly")
    web.page.keyboard.press("Escape")
    expect(web.page.locator("#panel")).to_be_hidden()
    web.page.keyboard.press("?")
    expect(web.page.locator("dialog .keys")).to_be_visible()
    web.page.keyboard.press("Escape")
    expect(web.page.locator("dialog")).to_have_count(0)
    web.page.keyboard.press("i")
    expect(web.page.locator("#input")).to_be_focused()


def test_the_page_fits_a_phone(chromium: BrowserThread, served: Server) -> None:
    viewport = {"width": 390, "height": 780}
    with chromium.window(served, viewport=viewport, has_touch=True, is_mobile=True, color_scheme="dark") as web:
        web.open().ask("Show me a table", 1, "Here it is", "talk")
        assert web.page.evaluate("document.documentElement.scrollWidth") <= 390
        expect(web.page.locator("#query")).to_be_hidden()
        web.page.click("#menu")
        expect(web.page.locator("#query")).to_be_visible()
        web.page.click("#new")
        expect(web.page.locator("#query")).to_be_hidden()
