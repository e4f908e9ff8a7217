"""The web page in a real browser: chat, streams that survive, branches, search, what the model saw, hostile content."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.doors.browser import WebPage, browsing, needs_browser, server_in, window
from tests.doors.cix import Cix
from tests.doors.server import Server

pytestmark = [
    pytest.mark.req("WEB-1"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.timeout(300),  # a time-out inside Playwright breaks the event loop of the tests that follow
    needs_browser,
]

MODELS = """\
[models.talk]
provider = "scripted"
path = "talk.json"
[models.hostile]
provider = "scripted"
path = "hostile.json"
"""
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "[x](javascript:document.title='owned') ![p](https://evil.example/p.png)"
)
TALK = {
    "loop": True,
    "replies": [
        {
            "when": "table",
            "text": "Here it **is**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nreturn 1\n```",
            "usage": {"input_tokens": 900, "output_tokens": 40, "cached_tokens": 600, "cost": 0.002},
        },
        {"when": "ferry", "text": "The ferry leaves at noon."},
        "Certainly.",
    ],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that the tests of the page share."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "talk.json").write_text(json.dumps(TALK))
    (folder / "hostile.json").write_text(json.dumps({"loop": True, "replies": [HOSTILE]}))
    made = server_in(folder, MODELS)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The window that the tests share: files of the page are loaded once."""
    made = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def web(context: BrowserContext, served: Server) -> Iterator[WebPage]:
    opened = WebPage(context.new_page(), served.url)
    yield opened.open()
    opened.page.evaluate("localStorage.clear()")
    opened.page.close()
    assert opened.errors == []


@contextmanager
def another(web: WebPage) -> Iterator[WebPage]:
    """Open another tab of the same browser."""
    tab = WebPage(web.page.context.new_page(), web.url)
    yield tab
    assert tab.errors == []


def test_a_message_is_answered_and_its_markdown_rendered(web: WebPage) -> None:
    row = web.ask("Show me a table", 1, "Here it is", "talk")
    assert row.locator("table td").all_inner_texts() == ["1", "2"]
    assert row.locator("code .k").all_inner_texts() == ["return"]
    expect(row.locator(".facts")).to_contain_text("900 in · 40 out · 67% cached")
    expect(web.page.locator("#threads a[aria-current]")).to_contain_text("Show me a table")
    web.ask("Is there a ferry?", 2, "at noon", "talk")
    web.page.reload()
    web.answered(2, "at noon")
    assert web.turn(1).locator(".said").inner_text() == "Show me a table"


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


def test_a_message_is_edited_on_a_branch_and_the_old_line_stays(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.act(1, "edit")
    web.turn(1).locator("textarea").fill("Is there a ferry?")
    web.turn(1).locator(".editor .primary").click()
    web.answered(1, "at noon")
    expect(web.turn(2)).to_have_count(0)
    web.act(1, "regenerate")
    expect(web.page.locator("#branch")).to_contain_text("branch 3 · 3 branches")
    web.answered(1, "at noon")
    panel = web.panel("branches")
    expect(panel.locator(".graph .node")).to_have_count(3)
    expect(panel.locator(".graph path.lane")).to_have_count(3)
    panel.locator(".graph .node").first.press("Enter")
    web.answered(2, "Certainly")
    expect(web.page.locator("#branch")).to_contain_text("main · 3 branches · not active")
    panel.get_by_role("button", name="Go on here").first.click()
    expect(web.page.locator("#branch")).to_have_text("main · 3 branches")
    assert served.said(web.thread) == ["Show me a table", "Thanks"]


def test_a_conversation_is_rolled_back_and_forked(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.act(1, "rollback")
    web.page.locator("dialog .primary").click()
    expect(web.turn(2)).to_have_count(0)
    expect(web.page.locator("#branch")).to_have_text("branch 2 · 2 branches")
    web.ask("Is there a ferry?", 2, "at noon", "talk")
    web.act(1, "fork")
    expect(web.page.locator("#branch")).to_have_text("branch 3 · 3 branches")
    assert served.said(web.thread) == ["Show me a table"]


def test_facts_are_pinned_and_folds_previewed(web: WebPage) -> None:
    web.ask("The code word is pelican", 1, "Certainly", "talk")
    web.act(1, "pin")
    panel = web.panel("pins")
    expect(panel.locator("ol li")).to_contain_text("The code word is pelican")
    panel.get_by_label("A fact to pin").fill("Never use tabs")
    panel.get_by_label("A fact to pin").press("Enter")
    expect(panel.locator("ol li")).to_have_count(2)
    panel.get_by_label("Unpin The code word is pelican").click()
    expect(panel.locator("ol li")).to_have_count(1)
    panel.get_by_text("Preview", exact=True).click()
    expect(panel).to_contain_text("Nothing can be folded yet.")


def test_a_fold_is_previewed_made_and_undone_on_the_page(web: WebPage, served: Server) -> None:
    said = "What was said about the harbour and the ships in it. " * 40
    lines = [{"role": role, "content": f"{n}: {said}"} for n in range(12) for role in ("user", "assistant")]
    file = "\n".join(map(json.dumps, lines)).encode()
    thread = served.http.post("/import", content=file).json()["sessions"][0]["thread_id"]
    assert served.http.post(f"/threads/{thread}/commit").json()["pending"] == 0
    web.page.goto(f"{web.url}/#/t/{thread}")
    web.answered(12, "harbour")
    panel = web.panel("pins")
    panel.get_by_text("Preview", exact=True).click()
    expect(panel.locator(".ok")).to_have_text("Preview: nothing has changed yet.")
    preview = panel.locator("details", has_text="New summary").locator("pre").inner_text()
    panel.get_by_text("Fold now").click()
    expect(panel.locator(".ok")).to_have_text("Folded.")
    assert panel.locator("details", has_text="New summary").locator("pre").inner_text() == preview
    panel.get_by_text("Undo the last fold").click()
    expect(panel.locator(".ok")).to_have_text("Undone: the summary before is back.")


def test_everything_said_is_found_from_the_search_box(web: WebPage) -> None:
    web.ask("My parrot is called Quetzal", 1, "Certainly", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.page.click("#new")
    web.page.press("#input", "Escape")
    web.page.keyboard.press("/")
    web.page.keyboard.type("quetzal")
    hit = web.page.locator("#threads a.hit").first
    expect(hit.locator("mark")).to_have_text("Quetzal")
    hit.click()
    expect(web.turn(1)).to_be_focused()
    expect(web.turn(1).locator(".said")).to_have_text("My parrot is called Quetzal")


def test_what_the_model_saw_is_shown_and_compared(web: WebPage) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Is there a ferry?", 2, "at noon", "talk")
    web.act(2, "inspect")
    panel = web.page.locator("#panel")
    expect(panel.locator(".ok")).to_contain_text("Exactly what was sent")
    assert "of 128,000 tokens used" in str(panel.locator(".budget").first.get_attribute("aria-label"))
    expect(panel.locator(".legend")).to_contain_text("reserved for the answer")
    expect(panel.locator("details.user").last).to_contain_text("Is there a ferry?")
    panel.get_by_label("Compare with turn").fill("1")
    panel.get_by_label("Compare with turn").press("Enter")
    expect(panel.locator(".compare")).to_contain_text("turn 1")
    expect(panel.locator("pre.plus").last).to_contain_text("Is there a ferry?")
    web.panel("usage")
    expect(panel.locator(".plot").first).to_have_attribute("aria-label", "Tokens per turn, at most 940")


def test_memories_are_kept_edited_and_forgotten(web: WebPage) -> None:
    panel = web.panel("memories")
    panel.get_by_label("A fact to remember").fill("The user likes gooseberries.")
    panel.get_by_label("A fact to remember").press("Enter")
    item = panel.locator(".memories li", has_text="gooseberries")
    item.get_by_text("Edit", exact=True).click()
    web.page.locator("dialog input").fill("The user likes quinces.")
    web.page.locator("dialog .primary").click()
    item = panel.locator(".memories li", has_text="quinces")
    item.get_by_text("Forget", exact=True).click()
    web.page.locator("dialog .danger").click()
    expect(item).to_have_count(0)


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


def test_images_and_files_are_attached(web: WebPage) -> None:
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6364f8cf500f0003860180"
        "5a347d6b0000000049454e44ae426082"
    )
    files: list[Any] = [
        {"name": "pixel.png", "mimeType": "image/png", "buffer": pixel},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Buy quinces."},
    ]
    web.page.set_input_files("#files", files)
    expect(web.page.locator("#attachments li")).to_have_count(2)
    web.ask("What is this?", 1, "Certainly", "talk")
    web.page.reload()
    row = web.answered(1, "Certainly")
    expect(row.locator(".said")).to_contain_text("notes.txt:\nBuy quinces.")
    web.wait("document.querySelector('.pictures img')?.naturalWidth === 1")


def test_each_user_logs_in_and_sees_only_their_own(browser: Browser, tmp_path: Path) -> None:
    server, cix = server_in(tmp_path), Cix(tmp_path)
    tokens = {user: cix.json("token", "create", "--user", user)["token"] for user in ("ann", "bob")}
    try:
        with window(browser, server) as ann, window(browser, server) as bob:
            for user, web in (("ann", ann), ("bob", bob)):
                web.page.goto(web.url)
                web.page.fill("#token", "cix_wrong")
                web.page.press("#token", "Enter")
                expect(web.page.locator("dialog .wrong")).not_to_be_empty()
                web.page.fill("#token", tokens[user])
                web.page.press("#token", "Enter")
                expect(web.page.locator("#user")).to_have_text(user)
            ann.ask("My secret is a heron", 1, "heron")
            assert ann.page.evaluate("document.cookie") == ""
            assert "cix_" not in ann.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
            bob.page.goto(f"{bob.url}/#/t/{ann.thread}")
            expect(bob.page.locator(".toast")).to_contain_text("no such conversation")
            expect(bob.page.locator("#threads .none")).to_have_text("No conversations yet.")
            ann.page.click("#open-settings")
            ann.page.get_by_text("Log out ann").click()
            expect(ann.page.locator("#token")).to_be_visible()
    finally:
        server.stop()


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
    with held(web, "**/fork"):
        web.act(1, "regenerate")
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    web.answered(1, "Here it is")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_sent_during_a_rollback_follows_the_turn_rolled_back_to(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.act(1, "rollback")
    with held(web, "**/rollback"):
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
    with held(web, "**/branches"):
        panel.get_by_role("button", name="Go on here").click()
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_sent_before_the_first_one_is_accepted_follows_it(web: WebPage, served: Server) -> None:
    with held(web, "**/messages/stream"):
        web.say("Show me a table", "talk")
        web.say("Is there a ferry?")
    web.answered(2, "at noon")
    assert served.said(web.thread) == ["Show me a table", "Is there a ferry?"]


def test_a_message_behind_an_operation_that_failed_goes_back_to_the_box(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.page.route("**/fork", lambda route: route.fulfill(status=409, json={"detail": "Not now."}), times=1)
    web.page.evaluate("""() => {
      document.querySelector("[data-act=fork]").click();
      document.getElementById("input").value = "Is there a ferry?";
      document.getElementById("composer").requestSubmit();
    }""")
    expect(web.page.locator(".toast.error").last).to_contain_text("Not sent: Not now.")
    expect(web.page.locator("#input")).to_have_value("Is there a ferry?")
    assert served.said(web.thread) == ["Show me a table"]


SAMPLES = Path(__file__).parents[1] / "samples" / "exports"
DROP = """([name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


def drop(web: WebPage, name: str, text: str) -> None:
    """Drop an export on the page and choose to import it."""
    web.page.evaluate(DROP, [name, text])
    web.page.locator("dialog").get_by_role("button", name="Import").click()
    expect(web.page.locator(".toast", has_text=name)).to_contain_text("messages added")


@pytest.mark.req("SAFE-10")
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
    expect(web.page.locator(".toast", has_text="again.jsonl")).to_contain_text(re.compile("1 conversation, 0 messages"))


def test_a_file_that_holds_no_conversation_is_refused_with_its_name(web: WebPage) -> None:
    web.page.evaluate(DROP, ["wrong.json", "[1"])
    web.page.locator("dialog").get_by_role("button", name="Import").click()
    expect(web.page.locator(".toast.error")).to_contain_text("wrong.json: ")


@pytest.mark.req("SAFE-10")
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
    assert (
        web.page.evaluate(
            "document.querySelectorAll('#app script, #app img[onerror], #app [href^=\"javascript\"]').length"
        )
        == 0
    )
    assert [url for url in requests if not url.startswith((served.url, "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1280, "light"),
        pytest.param(390, "dark", marks=pytest.mark.proof),
        pytest.param(1280, "dark", marks=pytest.mark.proof),
        pytest.param(390, "light", marks=pytest.mark.proof),
    ],
)
def test_no_rule_of_accessibility_is_broken(browser: Browser, served: Server, width: int, theme: str) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": theme, "reduced_motion": "reduce"}
    with window(browser, served, **options) as web:
        web.open().ask("Show me a table", 1, "Here it is", "talk")
        web.turn(1).focus()
        found = check(web, "chat")
        for name in ("context", "branches", "usage", "pins", "memories"):
            web.panel(name)
            web.wait("document.querySelector('#panel .panel-body')?.childElementCount")
            found += check(web, name)
            web.page.locator("#panel > header button").click()
        if width > 1000:
            web.page.click("#open-settings")
            found += check(web, "settings")
        assert found == []


def check(web: WebPage, where: str) -> list[str]:
    """Name the rules of axe-core that what is shown breaks."""
    broken = Axe().run(web.page)["violations"]
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


def test_the_page_fits_a_phone(browser: Browser, served: Server) -> None:
    viewport = {"width": 390, "height": 780}
    with window(browser, served, viewport=viewport, has_touch=True, is_mobile=True, color_scheme="dark") as web:
        web.open().ask("Show me a table", 1, "Here it is", "talk")
        assert web.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert check(web, "chat") == []
        expect(web.page.locator("#query")).to_be_hidden()
        web.page.click("#menu")
        expect(web.page.locator("#query")).to_be_visible()
        web.page.click("#new")
        expect(web.page.locator("#query")).to_be_hidden()
