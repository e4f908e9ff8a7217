"""Streams of the web page in a real browser: reloads, lost connections, a killed server, two tabs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.doors.server import Server
from tests.doors.web.browser import WebPage, needs_browser

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


@pytest.mark.req("STREAM-3")
def test_a_stream_survives_a_reload_and_can_be_stopped(web: WebPage) -> None:
    web.say("Go on", "hangs")
    expect(web.turn(1).locator(".answer.running")).to_contain_text("one two three")
    web.page.reload()
    expect(web.turn(1).locator(".answer.running")).to_contain_text("one two three")
    web.page.click("#stop")
    web.answered(1, "one two three")
    expect(web.turn(1).locator(".ending")).to_have_text("stopped")


@pytest.mark.req("STREAM-3")
def test_a_stream_survives_a_lost_network(web: WebPage) -> None:
    web.say("Go on", "hangs")
    expect(web.turn(1).locator(".answer.running")).to_contain_text("one two three")
    web.page.context.set_offline(True)
    web.page.route("**/stream", lambda route: route.abort())
    turn = web.page.evaluate("fetch(location.pathname).catch(() => 'away')")
    assert turn == "away"
    web.page.unroute("**/stream")
    web.page.context.set_offline(False)
    web.page.click("#stop")
    web.answered(1, "one two three")
    assert web.turn(1).locator(".answer").inner_text().count("three") == 1


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
    # The server answers, and the browser never hears of it.
    web.page.route("**/messages/stream", lambda route: arrived.append(route.fetch().status), times=1)
    with web.page.expect_request("**/messages/stream"):
        web.say("Is there a ferry?", "talk")
    web.wait("sessionStorage.getItem('cix-unsent') !== null")
    while not arrived:
        web.page.title()
    web.page.reload()
    web.answered(1, "at noon")
    assert served.said(web.thread) == ["Is there a ferry?"]


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
