"""A real browser on the web page, as tests use it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Locator, Page, expect, sync_playwright

from tests.doors.server import Server

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
NO_BROWSER = "No chromium is installed; on Debian: apt-get install chromium."
SECONDS = 20
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")

needs_browser = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)


class WebPage:
    """One tab on the page. What goes wrong in its scripts, and what its policy forbids, is in ``errors``."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.set_default_timeout(SECONDS * 1000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("dialog", self._dismiss)

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith("Failed to load resource"):
            self.errors.append(text)

    def _dismiss(self, dialog: Dialog) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, address: str = "") -> WebPage:
        """Load the page and wait until it knows its user."""
        self.page.goto(f"{self.url}/{address}")
        self.page.locator("#user:not(:empty)").wait_for(state="attached")
        return self

    def say(self, text: str, model: str = "") -> None:
        """Send a message."""
        if model:
            self.page.select_option("#model", model)
        self.page.fill("#input", text)
        self.page.press("#input", "Enter")

    def turn(self, seq: int) -> Locator:
        """Find the row of a turn."""
        return self.page.locator(f'article[data-seq="{seq}"]')

    def answered(self, seq: int, text: str) -> Locator:
        """Wait until a turn is over and its answer holds a text."""
        row = self.turn(seq)
        expect(row.locator(".answer:not(.running)")).to_contain_text(text, timeout=SECONDS * 1000)
        expect(row.locator("[data-act=fork]")).to_be_attached(timeout=SECONDS * 1000)
        return row

    def ask(self, text: str, seq: int, answer: str, model: str = "") -> Locator:
        """Send a message and wait for its answer."""
        self.say(text, model)
        return self.answered(seq, answer)

    def act(self, seq: int, name: str) -> None:
        """Press a button of a turn."""
        self.turn(seq).hover()
        self.turn(seq).locator(f"[data-act={name}]").click()

    def panel(self, name: str) -> Locator:
        """Open a panel."""
        self.page.click(f"[data-panel={name}]")
        return self.page.locator("#panel")

    @property
    def thread(self) -> str:
        """The id of the open conversation."""
        self.wait("location.hash.startsWith('#/t/')")
        address: str = self.page.evaluate("location.hash")
        return address.removeprefix("#/t/").partition("?")[0]

    def wait(self, condition: str) -> None:
        """Wait until a condition of the page's script holds."""
        self.page.wait_for_function(f"() => {condition}")


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def window(browser: Browser, server: Server, **options: Any) -> Iterator[WebPage]:
    """Open a window with cookies and storage of its own; its scripts must not fail."""
    context: BrowserContext = browser.new_context(**options)
    opened = WebPage(context.new_page(), server.url)
    try:
        yield opened
        assert opened.errors == []
    finally:
        context.close()


def free_port() -> int:
    """Find a port for a server that is started again at the same address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def server_in(folder: Path, settings: str = "") -> Server:
    """Start a server whose address stays the same when it is restarted."""
    return Server(folder, settings, "--port", str(free_port()))
