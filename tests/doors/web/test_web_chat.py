"""The web page in a real browser: chat, branches, search, memories, what the model saw, attachments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.doors.server import Server
from tests.doors.web.browser import WebPage, needs_browser

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.timeout(600), needs_browser]


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
    web.ask("Thanks", 13, "Certainly", "talk")
    expect(panel.locator(".ok")).to_have_text("Folded.")
    panel.get_by_text("Undo the last fold").click()
    expect(panel.locator(".ok")).to_have_text("Undone: the summary before is back.")


def test_home_leads_to_the_first_turn_after_scrolling_up(web: WebPage, served: Server) -> None:
    said = "What was said about the harbour and the ships in it. " * 40
    lines = [{"role": role, "content": f"{n}: {said}"} for n in range(300) for role in ("user", "assistant")]
    file = "\n".join(map(json.dumps, lines)).encode()
    thread = served.http.post("/import", content=file).json()["sessions"][0]["thread_id"]
    web.page.goto(f"{web.url}/#/t/{thread}")
    web.answered(300, "harbour")
    web.page.focus("#scroll")
    web.page.mouse.move(600, 400)
    for _ in range(20):
        web.page.mouse.wheel(0, -900)
    web.page.keyboard.press("Home")
    expect(web.turn(1)).to_be_in_viewport()


def test_everything_said_is_found_from_the_search_box(web: WebPage) -> None:
    web.ask("My parrot is called Quetzal", 1, "Certainly", "talk")
    web.ask("Thanks", 2, "Certainly", "talk")
    web.page.click("#new")
    expect(web.page.locator("#title")).to_have_text("New conversation")  # the box has the focus now
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


def test_tool_calls_that_wait_for_results_are_shown_after_a_reload(web: WebPage) -> None:
    web.ask("How is the weather?", 1, "Let me see.", "talk")
    expect(web.turn(1).locator("details.tool")).to_contain_text("weather")
    web.page.reload()
    web.answered(1, "Let me see.")
    web.turn(1).locator("details.tool summary").click()
    expect(web.turn(1).locator("details.tool pre")).to_contain_text("<b>Paris")


def test_tool_calls_of_an_imported_conversation_are_shown(web: WebPage, served: Server) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    lines = [
        {"role": "user", "content": "How is the weather in Oslo?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Snow <b>everywhere"},
        {"role": "assistant", "content": "It snows."},
    ]
    file = "\n".join(map(json.dumps, lines)).encode()
    thread = served.http.post("/import", content=file).json()["sessions"][0]["thread_id"]
    web.page.goto(f"{web.url}/#/t/{thread}")
    web.answered(2, "It snows.")
    for seq, name, said in (
        (1, "Tool weather", '"city": "Oslo"'),
        (2, "Result of a tool · done", "Snow <b>everywhere"),
    ):
        tool = web.turn(seq).locator("details.tool")
        expect(tool.locator("summary")).to_have_text(name)
        tool.locator("summary").click()
        expect(tool.locator("pre")).to_contain_text(said)
    expect(web.page.locator("#title")).to_have_text("How is the weather in Oslo?")


def test_of_a_long_message_the_beginning_is_shown(web: WebPage) -> None:
    web.ask("\n".join(["A long list"] * 40), 1, "Certainly", "talk")
    said, more = web.turn(1).locator(".said"), web.turn(1).locator(".more")
    height = "(one) => one.getBoundingClientRect().height"
    assert said.evaluate(height) < 310
    more.click()
    expect(more).to_have_text("Show less")
    assert said.evaluate(height) > 800


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


def test_the_versions_of_an_answer_are_stepped_through(web: WebPage) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    web.act(1, "edit")
    web.turn(1).locator("textarea").fill("Is there a ferry?")
    web.turn(1).locator("textarea").press("Control+Enter")
    web.answered(1, "at noon")
    pager = web.turn(1).locator(".pager")
    expect(pager).to_contain_text("2 / 2")
    pager.get_by_label("Older version").click()
    web.answered(1, "Here it is")
    expect(pager).to_contain_text("1 / 2")
    expect(pager.get_by_label("Older version")).to_be_disabled()
    expect(web.page.locator("#branch")).to_contain_text("not active")
    pager.get_by_label("Newer version").click()
    web.answered(1, "at noon")


def test_a_conversation_is_renamed_and_deleted(web: WebPage, served: Server) -> None:
    web.ask("Show me a table", 1, "Here it is", "talk")
    thread = web.thread
    web.page.click("#rename")
    web.page.get_by_label("Title").fill("Tables & chairs")
    web.page.get_by_label("Title").press("Enter")
    expect(web.page.locator("#title")).to_have_text("Tables & chairs")
    expect(web.page.locator("#threads a[aria-current] .name")).to_have_text("Tables & chairs")
    web.page.click("#rename")
    web.page.get_by_text("Delete…").click()
    web.page.locator("dialog .danger").click()
    expect(web.page.locator("#empty")).to_be_visible()
    assert served.http.get(f"/threads/{thread}").status_code == 404


def test_the_code_of_an_answer_is_copied(web: WebPage) -> None:
    web.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    web.ask("Show me a table", 1, "Here it is", "talk").locator(".code .copy").click()
    web.toasted("Copied.")
    assert web.page.evaluate("navigator.clipboard.readText()") == "return 1\n"
