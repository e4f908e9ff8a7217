"""Markdown that is still being written, cut where it is finished.

In goes the text so far; out come its pieces in order: blocks, and of a list its items, so that a long list need not
wait for its end. Only the last piece can still change, so all others may be printed for good. Nothing is left out on
purpose: markup that a terminal has no use for (HTML, images, link definitions) stands there as it was written.
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
# A last line that holds only marks so far: what they mean shows with the next sign.
_ONLY_MARKS = re.compile(r"[ \t>]*(?:[-+*=_#`~|:.\d)\] \t\[]{1,80}|\|[^\n]*)\Z")
_CODE_SPAN = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True, kw_only=True)
class MarkdownPiece:
    """A block, or an item of a list (``goes_on``: one before it came from the same list)."""

    node: SyntaxTreeNode
    begins: int
    """Where it begins in the text."""
    goes_on: bool = False


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    return reader.disable(["image", "reference", "autolink", "html_block", "html_inline"])


def pieces_of(text: str) -> list[MarkdownPiece]:
    """Cut a text into its pieces."""
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
    """Leave out a last line that consists of marks only, as far as it has come, and a table of which only that has."""
    cut = text.rfind("\n") + 1
    if not _ONLY_MARKS.match(text, cut):
        return text
    before = text.rfind("\n", 0, max(cut - 1, 0)) + 1
    is_head = text.startswith("|", before) and (before == 0 or text.endswith("\n\n", 0, before))
    return text[: before if is_head else cut]


def with_marks_closed(text: str) -> str:
    """Close what was opened in the last lines of a piece, so that it looks as it will when its end has come."""
    rest = _CODE_SPAN.sub("", text[text.rfind("\n\n") + 1 :])
    if "`" in rest:
        return text + "`" if not rest.endswith("`") else text.rstrip("`")
    if rest.count("**") % 2:
        return text.rstrip("*") if rest.endswith("**") else text.removesuffix("*") + "**"
    return text
