"""Streams of the web page in a real browser: reloads, lost connections, a killed server, two tabs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.doors.server import Server
from tests.doors.web.browser import BrowserThread, WebPage, needs_browser
from tests.doors.web.conftest import COUNTED
from tests.doors.web.network import Network

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


@pytest.mark.req("STREAM-3")
def test_a_stream_survives_a_reload_and_can_be_stopped(web: WebPage) -> None:
    web.say("Go on", "hangs")
    expect(web.turn(1).locator(".answer.running > p")).to_have_text("one two three")
    expect(web.turn(1).locator("p .tail")).to_have_count(1)  # new text goes on in the last paragraph
    web.page.reload()
    expect(web.turn(1).locator(".answer.running")).to_contain_text("one two three")
    web.page.click("#stop")
    web.answered(1, "one two three")
    expect(web.turn(1).locator(".ending")).to_have_text("stopped")


@pytest.mark.req("STREAM-3")
def test_a_stream_survives_a_lost_network(chromium: BrowserThread, served: Server) -> None:
    network = Network(served.url)
    with chromium.window(served) as web:
        web.url = network.url
        web.open().say("Count", "counts")
        running = web.turn(1).locator(".answer.running")
        expect(running).to_contain_text("2 3 4")
        network.cut()
        expect(web.page.locator("#connection")).to_have_text("reconnecting…")
        network.repair()
        expect(running).to_have_text(" ".join(map(str, range(COUNTED))))  # no number is missing, none is there twice
        expect(web.page.locator("#connection")).to_be_empty()
        web.page.click("#stop")
        web.answered(1, f"{COUNTED - 1}")
    network.close()


@pytest.mark.req("STREAM-3")
def test_a_killed_server_loses_nothing_and_a_message_sent_meanwhile_arrives_once(web: WebPage, served: Server) -> None:
    web.say("Go on", "hangs")
    expect(web.turn(1).locator(".answer.running")).to_contain_text("one two three")
    thread = web.thread
    served.stop(signal.SIGKILL)
    expect(web.page.locator("#connection")).to_have_text("reconnecting…")
    web.say("And a table?", "talk")
    served.start()
    web.answered(1, "one two three")
    expect(web.turn(1).locator(".ending")).to_contain_text("cut off")
    web.answered(2, "Here it is")
    expect(web.page.locator("#connection")).to_be_empty()
    assert served.said(thread) == ["Go on", "And a table?"]


def test_a_message_that_a_reload_interrupts_is_sent_once(web: WebPage, served: Server) -> None:
    arrived: list[int] = []
    # The server answers, and the browser never receives the answer.
    web.page.route("**/messages/stream?*", lambda route: arrived.append(route.fetch().status), times=1)
    with web.page.expect_request("**/messages/stream?*"):
        web.say("Is there a ferry to Ithaca?", "talk")
    web.wait("sessionStorage.getItem('cix-unsent') !== null")
    while not arrived:
        web.page.title()
    web.page.reload()
    web.answered(1, "at noon")
    threads = served.http.get("/threads").json()["threads"]
    assert [one["thread_id"] for one in threads if "Ithaca" in one["said"]] == [web.thread]
    assert served.said(web.thread) == ["Is there a ferry to Ithaca?"]


def test_two_tabs_show_the_same_conversation(web: WebPage) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    with another(web) as tab:
        tab.open(f"#/t/{web.thread}")
        tab.answered(1, "Here it is")
        web.say("Go on", "hangs")
        expect(tab.turn(2).locator(".answer.running")).to_contain_text("one two three")
        tab.page.click("#stop")
        web.answered(2, "one two three")
        tab.answered(2, "one two three")


@contextmanager
def another(web: WebPage) -> Iterator[WebPage]:
    """Open another tab of the same browser."""
    tab = WebPage(web.page.context.new_page(), web.url)
    yield tab
    tab.page.close()
    assert tab.errors == []
