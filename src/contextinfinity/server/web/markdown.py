"""Render markdown to sanitised HTML.

Any text, hostile or not, becomes HTML with a fixed list of tags and attributes, without scripts, styles, event
handlers, images or ids; links lead to http, https or mailto only and open without a referrer. An image becomes a link,
because loading it would tell its host that the text was read. A bare http or https address becomes a link.

The work is bounded: a text above ``MAX_CHARS``, or with a paragraph above ``MAX_BLOCK_CHARS``, is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from contextinfinity.server.web.highlighting import highlight

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


MAX_CHARS = 100_000

MAX_BLOCK_CHARS = 20_000
"""Inline parsing of one paragraph takes quadratic time for some inputs."""

TAGS = (
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
)

ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    **{tag: {"class"} for tag in ("code", "li", "span")},
    **{tag: {"align"} for tag in ("td", "th")},
}

SCHEMES = frozenset({"http", "https", "mailto"})

BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
"""The start of a task in a list, and the box that is shown."""

ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`]+")
"""A bare address, with the punctuation that may follow it."""


def render(text: str) -> str:
    """Return a text as safe HTML; blank text is an empty string."""
    import nh3

    text = text.encode("utf-8", "replace").decode("utf-8")  # a JSON body may hold half a surrogate pair
    if len(text) > MAX_CHARS or any(len(block) > MAX_BLOCK_CHARS for block in text.split("\n\n")):
        return f"<pre>{escape(text)}</pre>"
    made = _parser().render(text)
    return nh3.clean(
        made,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "highlight": _highlight, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    parser.core.ruler.push("bare_addresses", _link_addresses)
    parser.core.ruler.push("cells_and_tasks", _mark_cells_and_tasks)
    return parser


def _mark_cells_and_tasks(state: StateCore) -> None:
    """Give the cells of a table their alignment by an attribute, because styles are removed, and tasks their boxes."""
    item: Token | None = None
    for token in state.tokens:
        if (style := token.attrs.pop("style", None)) is not None:
            token.attrSet("align", str(style).removeprefix("text-align:"))
        if item is not None and token.type == "inline" and token.children:
            first = token.children[0]
            if (box := BOXES.get(first.content[:4])) is not None:
                first.content = box + first.content[4:]
                item.attrSet("class", "task")
        if token.type != "paragraph_open":
            item = token if token.type == "list_item_open" else None


def _link_addresses(state: StateCore) -> None:
    """Turn bare addresses in text into links; text inside links and code stays."""
    for block in state.tokens:
        if block.children and "://" in block.content:
            made: list[Token] = []
            depth = 0
            for token in block.children:
                depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
                made += _split_at_addresses(token) if token.type == "text" and not depth else [token]
            block.children = made


def _split_at_addresses(token: Token) -> list[Token]:
    from markdown_it.token import Token

    made: list[Token] = []
    end = 0
    for found in ADDRESS.finditer(token.content):
        address = _without_punctuation(found.group())
        made += [
            Token("text", "", 0, content=token.content[end : found.start()]),
            Token("link_open", "a", 1, attrs={"href": address}),
            Token("text", "", 0, content=address),
            Token("link_close", "a", -1),
        ]
        end = found.start() + len(address)
    return [*made, Token("text", "", 0, content=token.content[end:])]


def _without_punctuation(address: str) -> str:
    """Cut off what ends the sentence, and a closing bracket that was opened before the address."""
    address = address.rstrip(".,;:!?*_~|")
    while address.endswith((")", "]")) and "(" not in address and "[" not in address:
        address = address[:-1].rstrip(".,;:!?")
    return address


def _image(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render an image as a link to it."""
    token = tokens[index]
    label = self.renderInlineAsText(token.children, options, env) or "image"
    return f'<a href="{escape(str(token.attrGet("src") or ""))}">{escape(label)} ↗</a>'


def _highlight(code: str, language: str, attributes: str) -> str:
    return highlight(code, language)
