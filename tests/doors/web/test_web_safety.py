"""The web page in a real browser against hostile content and other users; import and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.doors.server import Server
from tests.doors.web.browser import BrowserThread, WebPage, needs_browser
from tests.doors.web.conftest import HOSTILE, Guarded
from tests.doors.web.test_web_live import another

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


def log_in(web: WebPage, token: str, user: str) -> None:
    """Log in where the page asks for a token."""
    web.page.fill("#token", token)
    web.page.press("#token", "Enter")
    expect(web.page.locator("#user")).to_have_text(user)


def test_each_user_logs_in_and_sees_only_their_own(chromium: BrowserThread, guarded: Guarded) -> None:
    with chromium.window(guarded.server) as web:
        web.page.goto(web.url)
        web.page.fill("#token", "cix_wrong")
        web.page.press("#token", "Enter")
        expect(web.page.locator("dialog .wrong")).not_to_be_empty()
        log_in(web, guarded.ann["token"], "ann")
        web.ask("How is the weather?", 1, "Let me see.", "talk")
        assert web.page.evaluate("document.cookie") == ""
        assert "cix_" not in web.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
        web.page.reload()
        web.answered(1, "Let me see.").locator("details.tool summary").first.click()
        expect(web.turn(1).locator("details.tool pre").first).to_contain_text("<b>Paris")
        web.page.fill("#input", "A draft of Ann's")
        web.page.click("#open-settings")
        web.page.get_by_text("Log out ann").click()
        log_in(web, guarded.bob["token"], "bob")  # the address still names Ann's conversation
        web.toasted("no such conversation")
        expect(web.page.locator("#threads .none")).to_have_text("No conversations yet.")
        expect(web.page.locator("article")).to_have_count(0)
        assert "Ann" not in web.page.evaluate("document.getElementById('input').value + JSON.stringify(sessionStorage)")


def test_a_tab_that_shows_a_user_who_logged_out_shows_and_sends_nothing_of_theirs(
    chromium: BrowserThread, guarded: Guarded
) -> None:
    with chromium.window(guarded.server) as web:
        web.page.goto(web.url)
        log_in(web, guarded.ann["token"], "ann")
        web.ask("Show me a table", 1, "Here it is", "talk")
        with another(web) as tab:
            expect(tab.open().page.locator("#threads")).to_contain_text("Show me a table")
            tab.page.fill("#input", "Ann's secret")
            web.page.click("#open-settings")
            web.page.get_by_text("Log out ann").click()
            expect(tab.page.locator("#token")).to_be_visible()
            expect(tab.page.locator("#app")).to_be_hidden()
            log_in(web, guarded.bob["token"], "bob")
            expect(tab.page.locator("#user")).to_have_text("bob")
            expect(tab.page.locator("#threads .none")).to_have_text("No conversations yet.")
            assert tab.page.evaluate("document.getElementById('input').value") == ""


SWITCHED = """(token) => {
  const headers = { "content-type": "application/json" };
  fetch("/login", { method: "POST", headers, body: JSON.stringify({ token }) }).then(() => {
    document.getElementById("input").value = "Ann's secret";
    document.getElementById("composer").requestSubmit();
  });
}"""
"""Send a message right after the browser has got the cookie of another user; no other tab tells the page."""


def test_a_page_of_one_user_does_not_act_for_another_with_their_cookie(
    chromium: BrowserThread, guarded: Guarded
) -> None:
    with chromium.window(guarded.server) as web:
        web.page.goto(web.url)
        log_in(web, guarded.ann["token"], "ann")
        web.page.evaluate(SWITCHED, guarded.bob["token"])
        expect(web.page.locator("#user")).to_have_text("bob")
        expect(web.page.locator("#threads .none")).to_have_text("No conversations yet.")
        bob = {"Authorization": f"Bearer {guarded.bob['token']}"}
        assert guarded.server.http.get("/threads", headers=bob).json()["threads"] == []


EVIL = """async (target) => {
  const tried = (what) => what.then(() => "sent", () => "refused");
  const body = '{"content": "Owned."}', plain = { "content-type": "text/plain" };
  const json = { "content-type": "application/json" };
  const socket = new Promise((resolve) => {
    const opened = new WebSocket(target.replace("http", "ws") + "/rpc");
    opened.onopen = () => resolve("opened");
    opened.onerror = () => resolve("refused");
  });
  const image = new Promise((resolve) => {
    const made = new Image();
    made.onload = () => resolve("shown");
    made.onerror = () => resolve("refused");
    made.src = target + "/web/1/icon.svg";
  });
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.src = target;
  const form = document.createElement("form");
  Object.assign(form, { action: target + "/memories", method: "post", enctype: "text/plain", target: "into" });
  const field = Object.assign(document.createElement("input"), { name: '{"content": "Owned.", "a": "', value: '"}' });
  document.body.append(Object.assign(document.createElement("iframe"), { name: "into" }), form);
  form.append(field);
  form.submit();
  await fetch(target + "/memories", { method: "POST", mode: "no-cors", body, headers: plain, credentials: "include" });
  return {
    read: await tried(fetch(target + "/threads", { credentials: "include" })),
    json: await tried(fetch(target + "/memories", { method: "POST", body, headers: json })),
    socket: await socket, image: await image,
  };
}"""


@pytest.mark.req("SAFE-10")
def test_a_page_of_another_site_in_the_same_browser_changes_and_reads_nothing(web: WebPage, served: Server) -> None:
    page = web.page.context.new_page()
    page.goto(f"{served.url.replace('127.0.0.1', 'localhost')}/healthz")  # any page of another host of this machine
    assert page.evaluate(EVIL, served.url) == dict.fromkeys(("read", "json", "socket", "image"), "refused")
    page.wait_for_load_state("networkidle")
    page.close()
    assert "Owned" not in served.http.get("/memories", params={"limit": 500}).text


SAMPLES = Path(__file__).parents[2] / "samples" / "exports"
DROP = """([name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


def drop(web: WebPage, name: str, text: str) -> None:
    """Drop an export on the page and choose to import it."""
    web.page.evaluate(DROP, [name, text])
    web.page.locator("dialog").get_by_role("button", name="Import").click()
    web.toasted(name, "messages added")


@pytest.mark.req("CLI-3")
@pytest.mark.parametrize(("vendor", "title"), [("chatgpt", "title"), ("claude", "name")])
def test_an_export_dropped_on_the_page_is_imported_and_its_title_is_text(
    web: WebPage, served: Server, vendor: str, title: str
) -> None:
    name = f"{vendor}_conversations.json"
    hostile = f"<img src=x onerror=\"document.title='owned'\"> {vendor}"
    given = json.loads((SAMPLES / name).read_text())
    drop(web, name, json.dumps([{**given[0], title: hostile}, *given[1:]]))
    link = web.page.locator("#threads a", has_text=f"'owned'\"> {vendor}")
    expect(link.locator(".name")).to_have_text(hostile)
    link.click()
    expect(web.page.locator("#title")).to_have_text(hostile)
    expect(web.turn(1).locator(".said")).not_to_be_empty()
    assert web.page.evaluate("document.querySelectorAll('img[onerror]').length") == 0
    web.page.click("#open-settings")
    with web.page.expect_download() as saved:
        web.page.get_by_text("Export this as Markdown").click()
    assert web.turn(1).locator(".said").inner_text() in saved.value.path().read_text()
    with web.page.expect_download() as saved:
        web.page.get_by_text("Export this", exact=True).click()
    web.page.keyboard.press("Escape")
    drop(web, "again.jsonl", saved.value.path().read_text())
    web.toasted("again.jsonl", "1 conversation, 0 messages")


def test_a_file_that_holds_no_conversation_is_refused_with_its_name(web: WebPage) -> None:
    web.page.evaluate(DROP, ["wrong.json", "[1"])
    web.page.locator("dialog").get_by_role("button", name="Import").click()
    web.toasted("wrong.json: ")


@pytest.mark.parametrize("name", ["..", "%", "%2e%2e%2flogin", "<img src=x onerror=alert(1)>"])
def test_an_address_that_names_no_conversation_leads_to_an_empty_page(web: WebPage, name: str) -> None:
    web.page.evaluate("(name) => { location.hash = `#/t/${name}`; }", name)
    web.toasted("There is no such conversation.")
    web.wait("location.hash === '#/'")


INJECTED = """() => [...document.querySelectorAll("body *")].filter((one) =>
  one.matches("script, style, base, iframe, object, embed, form[action], [srcdoc], [style*=url]") ||
  [...one.attributes].some((attribute) => attribute.name.startsWith("on")) ||
  (one.hasAttribute("href") && !/^(#|[/](threads|export|memories)|https?:|mailto:)/.test(one.getAttribute("href")))
).map((one) => one.outerHTML.slice(0, 200))"""
"""Find elements that no script of the page makes."""


def test_hostile_content_stays_text_everywhere(web: WebPage, served: Server) -> None:
    requests: list[str] = []
    web.page.on("request", lambda request: requests.append(request.url))
    web.ask(HOSTILE, 1, "document.title", "hostile")
    thread = web.thread
    title = served.http.patch(f"/threads/{thread}", json={"title": HOSTILE})
    assert title.status_code == 200
    web.act(1, "pin")
    served.post("/memories", {"content": f"The user said {HOSTILE}"})
    web.page.reload()
    web.answered(1, "document.title")
    for name in ("context", "branches", "usage", "pins", "memories"):
        expect(web.panel(name).locator("h2")).to_be_visible()
        expect(web.page.locator("#panel .panel-body")).not_to_be_empty()
    web.page.fill("#query", "owned onerror")
    expect(web.page.locator("#threads a.hit").first).to_contain_text("script")
    web.wait("document.querySelector('.memories li')")
    assert "owned" not in web.page.evaluate("document.title").partition("–")[2]
    assert web.page.evaluate(INJECTED) == []
    assert [url for url in requests if not url.startswith((served.url, "data:", "blob:"))] == []
