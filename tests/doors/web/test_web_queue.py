"""Messages sent in a real browser while branches change arrive where their sender saw them go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Route, expect

from tests.doors.server import Server
from tests.doors.web.browser import WebPage, needs_browser

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


@contextmanager
def held(web: WebPage, pattern: str) -> Iterator[None]:
    """Hold the first POST to an address until the block is over."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        if waiting or route.request.method != "POST":
            route.continue_()
        else:
            waiting.append(route)

    web.page.route(pattern, hold)
    yield
    while not waiting:
        web.page.title()
    waiting[0].continue_()


def test_a_message_sent_while_a_branch_is_made_follows_on_that_branch(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    with held(web, "**/fork?*"):
        web.act(1, "regenerate")
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    web.answered(1, "Here it is")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_sent_during_a_rollback_follows_the_turn_rolled_back_to(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.act(1, "rollback")
    with held(web, "**/rollback?*"):
        web.page.locator("dialog .primary").click()
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_sent_during_a_switch_of_branches_goes_to_the_new_one(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.act(1, "fork")
    expect(web.page.locator("#branch")).to_contain_text("branch 2 · 2 branches")
    web.ask("Thanks", 2, "Certainly", "talk")
    panel = web.panel("branches")
    with held(web, "**/branches?*"):
        panel.get_by_role("button", name="Go on here").click()
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_sent_before_the_first_one_is_accepted_follows_it(web: WebPage, served: Server) -> None:
    with held(web, "**/messages/stream?*"):
        web.say("Show me a table", "talk")
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_behind_an_operation_that_failed_goes_back_to_the_box(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.page.route("**/fork?*", lambda route: route.fulfill(status=409, json={"detail": "Not now."}), times=1)
    web.page.evaluate("""() => {
      document.querySelector("[data-act=fork]").click();
      document.getElementById("input").value = "Is there a ferry?";
      document.getElementById("composer").requestSubmit();
    }""")
    web.toasted("Not sent: Not now.")
    expect(web.page.locator("#input")).to_have_value("Is there a ferry?")
    assert served.said(web.thread) == ["Show me a table"]
