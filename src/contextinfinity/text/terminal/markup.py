"""Render Markdown nodes as styled lines of a limited width.

Lines have no hidden link targets, no backgrounds and nothing else that could clash with a user's colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from contextinfinity.text.terminal.markdown_pieces import LISTS

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

NARROWEST = 8
INDENT = "  "
MOST_COLOURED = 50_000
"""The number of characters up to which code is highlighted; more is too slow to repeat with each new line."""

_INLINE = {"em": "italic", "strong": "bold", "s": "strike", "code_inline": "cyan"}


@dataclass(frozen=True)
class Column:
    """The column in which lines are drawn: ``plain`` uses no frames, for screen readers and simple terminals."""

    console: Console
    width: int
    plain: bool = False

    def narrower(self, by: int) -> Column:
        """Return the column that is left beside a prefix."""
        return replace(self, width=max(self.width - by, NARROWEST))


def lines_of(node: SyntaxTreeNode, column: Column) -> list[Text]:
    """Render a node as lines."""
    column = column.narrower(0)
    match node.type:
        case "fence" | "code_block":
            return [line for row in code_rows(node, column) for line in row]
        case "heading":
            return _wrapped(_inline(node, "bold underline" if node.tag == "h1" else "bold"), column)
        case "hr":
            return [Text("---" if column.plain else "─" * min(column.width, 40), style="dim")]
        case "blockquote":
            bar = Text("> " if column.plain else "│ ", style="dim")
            return _prefixed(bar, bar, _blocks(node, column.narrower(len(bar))))
        case "bullet_list" | "ordered_list":
            return [line for item in node.children for line in lines_of(item, column)]
        case "list_item":
            return _item(node, column)
        case "table":
            return _table(node, column)
    return _wrapped(_inline(node), column)


def code_rows(node: SyntaxTreeNode, column: Column) -> Iterator[list[Text]]:
    """Yield code as rows: a row holds the screen lines of one line of code."""
    from rich.syntax import Syntax

    code = node.content.removesuffix("\n").expandtabs(4)
    language = node.info.split()[0] if node.info.strip() else "text"
    if len(code) > MOST_COLOURED:
        language = "text"
    coloured = Syntax(code, language, theme="ansi_dark", background_color="default").highlight(code)
    coloured.rstrip()
    for line in coloured.split("\n", allow_blank=True)[: code.count("\n") + 1]:
        yield _prefixed(Text(INDENT), Text(INDENT), _wrapped(line, column.narrower(len(INDENT))))


def _wrapped(text: Text, column: Column) -> list[Text]:
    return list(text.wrap(column.console, column.width, overflow="fold")) or [Text()]


def _prefixed(first: Text, others: Text, lines: list[Text]) -> list[Text]:
    """Prefix each line."""
    return [Text.assemble(others if place else first, line) for place, line in enumerate(lines)]


def _blocks(node: SyntaxTreeNode, column: Column) -> list[Text]:
    """Render the child blocks with an empty line between them, except before a list inside an item."""
    lines: list[Text] = []
    for child in node.children:
        if lines and not (node.type == "list_item" and child.type in LISTS):
            lines.append(Text())
        lines.extend(lines_of(child, column))
    return lines


def _item(node: SyntaxTreeNode, column: Column) -> list[Text]:
    numbered = node.parent is not None and node.parent.type == "ordered_list"
    mark = f"{node.info}{node.markup} " if numbered else "- " if column.plain else "• "
    lines = _blocks(node, column.narrower(len(mark))) or [Text()]
    return _prefixed(Text(mark, style="cyan"), Text(" " * len(mark)), lines)


def _table(node: SyntaxTreeNode, column: Column) -> list[Text]:
    from rich import box
    from rich.table import Table

    frame = None if column.plain else box.SIMPLE_HEAD
    table = Table(box=frame, pad_edge=False, show_edge=False, border_style="dim", header_style="bold")
    rows = [row.children for part in node.children for row in part.children]
    for cell in rows[0]:
        side = str(cell.attrs.get("style", "")).removeprefix("text-align:")
        table.add_column(
            _inline(cell), justify="right" if side == "right" else "center" if side == "center" else "left"
        )
    for row in rows[1:]:
        table.add_row(*map(_inline, row))
    console = column.console
    drawn = console.render_lines(table, console.options.update(width=column.width), pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in line)) for line in drawn]


def _inline(node: SyntaxTreeNode, style: str = "") -> Text:
    """Render inline content."""
    text = Text(style=style)
    for child in node.children:
        match child.type:
            case "inline":
                text.append_text(_inline(child))
            case "softbreak" | "hardbreak":
                text.append("\n")  # line breaks of a model are intended
            case "em" | "strong" | "s":
                text.append_text(_inline(child, _INLINE[child.type]))
            case "link":
                text.append_text(_link(child))
            case "text" | "code_inline":
                text.append(child.content, _INLINE.get(child.type, ""))
    return text


def _link(node: SyntaxTreeNode) -> Text:
    """Render a link with its target."""
    text, target = _inline(node, "underline"), str(node.attrs.get("href", ""))
    return text if text.plain == target else Text.assemble(text, (f" ({target})", "dim"))
