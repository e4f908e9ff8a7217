"""A real browser on the web page, as tests use it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Locator, Page, Playwright, expect, sync_playwright

from tests.doors.server import Server

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
NO_BROWSER = "No chromium is installed; on Debian: apt-get install chromium."
SECONDS = 90
"""How long a state may take to come, on the busiest machine; the time-out of a whole test is longer."""
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-extensions", "--disable-component-update", "--mute-audio", "--no-first-run"),
    # Fewer processes: a fifth less CPU.
    *("--in-process-gpu", "--disable-software-rasterizer", "--renderer-process-limit=1"),
)
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}

TOASTS = """addEventListener("DOMContentLoaded", () => {
  window.toasts = [];
  new MutationObserver((changes) => {
    for (const change of changes) for (const added of change.addedNodes) window.toasts.push(added.textContent);
  }).observe(document.getElementById("toasts"), { childList: true });
})"""

Result = TypeVar("Result")

needs_browser = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
expect.set_options(timeout=SECONDS * 1000)


class WebPage:
    """One tab on the page. What goes wrong in its scripts, and what its policy forbids, is in ``errors``."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.set_default_timeout(SECONDS * 1000)
        page.add_init_script(TOASTS)
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
        self.page.evaluate("window.toasts.length = 0")
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
        expect(row.locator(".answer:not(.running)")).to_contain_text(text)
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

    def toasted(self, *texts: str) -> None:
        """Wait until the page has shown a toast with these texts; after a few seconds a toast is gone."""
        self.page.wait_for_function("texts => toasts.some((toast) => texts.every((t) => toast.includes(t)))", arg=texts)

    def wait(self, condition: str) -> None:
        """Wait until a condition of the page's script holds."""
        self.page.wait_for_function(f"() => {condition}")


class BrowserThread:
    """One browser for all tests of a worker, and the thread on which Playwright and the tests that use it run.

    Playwright's synchronous API keeps an event loop running on its thread. On the main thread no asyncio test could
    follow, and the time-out of a test, a signal, would be raised inside that loop: every later call would then wait for
    ever. Here a time-out is raised in the main thread alone. It kills the browser, so that the calls of the test end,
    and the next test starts another.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "browser")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._pid = 0
        self._tab: WebPage | None = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Run work on the thread and return its result."""
        future = self._executor.submit(work)
        try:
            return future.result()
        except BaseException:
            self._tab = None  # a test that failed may leave anything in it
            if not future.done():
                self.kill()
                wait([future], SECONDS)
            raise

    def kill(self) -> None:
        """Kill the browser."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._pid = 0

    @property
    def browser(self) -> Browser:
        """The browser, started if none runs."""
        if self._browser is None or not self._browser.is_connected():
            self._playwright = self._playwright or sync_playwright().start()
            self._browser = launched(self._playwright)
            self._tab = None
            processes = self._browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
            self._pid = next(one["id"] for one in processes if one["type"] == "browser")
        return self._browser

    def tab(self, server: Server) -> WebPage:
        """Load the page in the tab that all tests share; nothing that an earlier test stored is left."""
        browser = self.browser
        if self._tab is None:
            for left in browser.contexts:
                left.close()
            self._tab = WebPage(browser.new_context(**DESKTOP).new_page(), server.url)
        tab = self._tab
        tab.errors.clear()
        tab.page.unroute_all()
        if tab.page.url.startswith(tab.url):
            tab.page.evaluate("localStorage.clear(); sessionStorage.clear();")
        return tab.open()

    def window(self, server: Server, **options: Any) -> AbstractContextManager[WebPage]:
        """Open a window with cookies and storage of its own; its scripts must not fail."""
        return window(self.browser, server, **options)

    def close(self) -> None:
        """End the browser."""
        if self._browser is not None and self._browser.is_connected():
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()


def launched(playwright: Playwright) -> Browser:
    """Start a browser."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=SECONDS * 1000)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser outside of tests."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
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
