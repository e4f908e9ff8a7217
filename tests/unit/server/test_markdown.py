"""Any Markdown becomes HTML that does nothing, in bounded time."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.server.web.highlighting import highlight
from contextinfinity.server.web.markdown import ATTRIBUTES, MAX_CHARS, TAGS, render
from tests.cases import each
from tests.sizes import sized

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "![x](javascript:alert(1))",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](  javascript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n[x]",
    '[x](https://a.b "onmouseover=alert(1) x=\\"")',
    '```"><script>alert(1)</script>\ncode\n```',
    "```html\n<script>alert(1)</script>\n```",
    "| <svg onload=alert(1)> | b |\n|---|---|\n| <iframe src=x> | 2 |",
    "<style>*{display:none}</style>",
    "<a href=x style=position:fixed>x</a>",
    "<form action=/logout><button>x</button></form>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "[x](/logout)",
    "[x](//evil.example)",
)


class Tags(HTMLParser):
    """Reads the tags and attributes of a page as a browser would."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check(html: str) -> None:
    parser = Tags()
    parser.feed(html)
    for tag, attributes in parser.found:
        assert tag in TAGS, html
        assert set(attributes) <= {*ATTRIBUTES.get(tag, ()), "rel", "target"}, html
        if (address := attributes.get("href")) is not None:
            assert address.lower().startswith(("http://", "https://", "mailto:")), html
            assert attributes["rel"] == "noopener noreferrer nofollow"


@pytest.mark.req("WEB-1")
@each("text", HOSTILE)
def test_hostile_markdown_becomes_text_and_harmless_links(text: str) -> None:
    check(render(text))
    check(render(f"> - {text}\n\n## {text}"))


@pytest.mark.req("WEB-1")
@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40)), max_size=6).map("\n".join))
def test_no_text_becomes_anything_but_the_allowed_tags(text: str) -> None:
    check(render(text))


@pytest.mark.req("WEB-1")
@given(st.text(alphabet="ab\"'`/*#<>-!\\\n 1", max_size=200), st.sampled_from(["python", "js", "sql", "html", "php"]))
def test_highlighted_code_is_the_code(code: str, language: str) -> None:
    class Text(HTMLParser):
        said = ""

        def handle_data(self, data: str) -> None:
            self.said += data

    parser = Text()
    parser.feed(highlight(code, language))
    parser.close()
    assert parser.said == code


@pytest.mark.parametrize("piece", ['"', "\\", "/*", "<!--", "a ", "\n", "`", "${", "--", "'''"])
def test_the_time_to_highlight_grows_with_the_code_and_not_with_its_square(piece: str) -> None:
    def seconds(size: int) -> float:
        code = (piece * size)[:size]
        begun = process_time()
        highlight(code, "php")
        return process_time() - begun

    small, large = sized(5_000, 20_000), sized(40_000, 160_000)
    assert seconds(large) < 30 * seconds(small) + 0.1


def test_cells_keep_their_alignment_and_tasks_have_boxes() -> None:
    assert '<td align="right">2</td>' in render("| a | b |\n|---|--:|\n| 1 | 2 |")
    tasks = render("- [ ] open\n- [x] **done**\n- [x](https://a.b)\n- [ ]")
    assert re.findall(r"<li.*", tasks) == [
        '<li class="task">☐ open</li>',
        '<li class="task">☑ <strong>done</strong></li>',
        '<li><a href="https://a.b" target="_blank" rel="noopener noreferrer nofollow">x</a></li>',
        "<li>[ ]</li>",
    ]


def test_a_text_that_is_too_long_to_parse_is_shown_as_it_is() -> None:
    text = "<b>*a*</b>" * (MAX_CHARS // 10 + 1)
    assert render(text) == f"<pre>{text.replace('<', '&lt;').replace('>', '&gt;')}</pre>"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("See https://a.example/x_y?b=1&c=2.", ["https://a.example/x_y?b=1&amp;c=2"]),
        ("(http://a.example/b), **https://c.example**", ["http://a.example/b", "https://c.example"]),
        ("https://a.example/B_(c)", ["https://a.example/B_(c)"]),
        ('https://a.example"onclick=x', ["https://a.example"]),
        ("`https://a.example` ftp://a.example //a.example javascript:x a.example https://", []),
        ("[https://a.example](https://b.example)", ["https://b.example"]),
    ],
)
def test_a_bare_address_is_a_link_without_opener(text: str, addresses: list[str]) -> None:
    links = re.findall(r'<a href="([^"]*)" target="_blank" rel="noopener noreferrer nofollow">', render(text))
    assert links == addresses
    assert render(text).count("<a") == len(addresses)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert render("a \ud800 b") == "<p>a ? b</p>\n"
