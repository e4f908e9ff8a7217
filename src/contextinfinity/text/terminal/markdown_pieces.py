"""Split Markdown that is still being streamed into finished pieces.

A piece is a block or, in a list, an item, so that a long list can be shown before it ends. Only the last piece can
still change; all others can be printed. Nothing is omitted: markup without a terminal form (HTML, images, link
definitions) is kept as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

LISTS = ("bullet_list", "ordered_list")
# An unfinished last line of markup characters only: the next character decides their meaning.
_ONLY_MARKS = re.compile(r"[ \t>]*(?:[-+*=_#`~|:.\d)\] \t\[]{1,80}|\|[^\n]*)\Z")
_CODE_SPAN = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True, kw_only=True)
class MarkdownPiece:
    """A block, or an item of a list (``goes_on``: an earlier piece came from the same list)."""

    node: SyntaxTreeNode
    begins: int
    """Its offset in the text."""
    goes_on: bool = False


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    return reader.disable(["image", "reference", "autolink", "html_block", "html_inline"])


def pieces_of(text: str) -> list[MarkdownPiece]:
    """Split a text into its pieces."""
    from markdown_it.tree import SyntaxTreeNode

    begins = _line_begins(text)
    pieces: list[MarkdownPiece] = []
    for block in SyntaxTreeNode(_reader().parse(text)).children:
        nodes = block.children if block.type in LISTS else [block]
        for place, node in enumerate(nodes):
            first = node.map[0] if node.map else 0
            pieces.append(MarkdownPiece(node=node, begins=begins[first], goes_on=place > 0))
    return pieces


def _line_begins(text: str) -> list[int]:
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    return begins


def without_bare_marks(text: str) -> str:
    """Remove an unfinished last line of markup characters only, and a table that has only its head so far."""
    cut = text.rfind("\n") + 1
    if not _ONLY_MARKS.match(text, cut):
        return text
    before = text.rfind("\n", 0, max(cut - 1, 0)) + 1
    is_head = text.startswith("|", before) and (before == 0 or text.endswith("\n\n", 0, before))
    return text[: before if is_head else cut]


def with_marks_closed(text: str) -> str:
    """Close markup that is open in the last lines of a piece, so that it looks as it will when it is finished."""
    rest = _CODE_SPAN.sub("", text[text.rfind("\n\n") + 1 :])
    if "`" in rest:
        return text + "`" if not rest.endswith("`") else text.rstrip("`")
    if rest.count("**") % 2:
        return text.rstrip("*") if rest.endswith("**") else text.removesuffix("*") + "**"
    return text
