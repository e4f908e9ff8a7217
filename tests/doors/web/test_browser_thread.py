"""A test of the page that takes too long fails alone: the browser ends, and the next test has another one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.doors.web.browser import BrowserThread, needs_browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), pytest.mark.proof, needs_browser]


class TookTooLong(Exception):
    """Represents the time-out of a test, which is raised by a signal in the main thread."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGUSR1, ring)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("alarm")
def test_a_time_out_inside_the_browser_does_not_break_the_tests_after_it() -> None:
    thread, main = BrowserThread(), threading.main_thread().ident
    assert main is not None

    def hang() -> None:
        page = thread.browser.new_page()
        threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGUSR1)).start()
        page.evaluate("new Promise(() => {})")

    with pytest.raises(TookTooLong):
        thread.run(hang)
    assert thread.run(lambda: thread.browser.new_page().evaluate("6 * 7")) == 42
    thread.run(thread.close)
