"""The request of a turn: sections and tokens, retrieved passages, and what was left out with the reason.

A bar shows the model's window: what each section took, what is reserved, what is free.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from contextinfinity.domain.plan import LeftOut, Plan
from contextinfinity.text.plurals import counted, covered_turns
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.tui.live_turn import Look, tokens
from contextinfinity.tui.panels.panel import STEP_KEYS, TextPanel

if TYPE_CHECKING:
    from contextinfinity.client.contract import Explained

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green")
RESERVED, FREE = "▒", "·"


def colour_of(place: int) -> str:
    """Return the colour of the section at a place."""
    return COLOURS[place % len(COLOURS)]


@dataclass(frozen=True)
class BudgetBar:
    """The bar, as wide as there is room, and a line of figures below it; in the plain form only the figures."""

    plan: Plan
    look: Look

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the bar for the width at hand."""
        budget, used = self.plan.budget, self.plan.tokens
        limit = budget.model_limit if budget is not None else max(used, 1)
        reserved = budget.response_reserve + budget.safety_margin if budget is not None else 0
        if not self.look.plain:
            cells = [(section.tokens, "█", colour_of(place)) for place, section in enumerate(self.plan.sections)]
            cells += [(max(limit - used - reserved, 0), FREE, "dim"), (reserved, RESERVED, "dim")]
            shares = _shares([tokens for tokens, *_ in cells], options.max_width)
            yield Text.assemble(*((sign * count, style) for count, (_, sign, style) in zip(shares, cells, strict=True)))
        figures = f"{used:,} of {limit:,} tokens ({100 * used / limit:.1f}%), {reserved:,} kept for the answer"
        yield Text(figures, style="" if self.look.plain else "dim")


def _shares(amounts: list[int], width: int) -> list[int]:
    """Share out cells in proportion; what is not nothing gets at least one."""
    total = max(sum(amounts), 1)
    shares = [max(round(width * amount / total), 1) if amount else 0 for amount in amounts]
    while sum(shares) > width:
        shares[shares.index(max(shares))] -= 1
    while sum(shares) < width and any(shares):
        shares[shares.index(max(shares))] += 1
    return shares


QUOTE = 240
UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f-]{22}\b")


class ContextPanel(TextPanel):
    """The request of the selected turn, explained."""

    NAME = "context"
    TITLE = "Context: what the model saw"
    KEYS = "j and k: the next or the previous turn"
    BINDINGS = STEP_KEYS

    async def load(self) -> None:
        """Read and show the plan of the selected turn's last request."""
        turn = await self.conversation.turn()
        if turn is None:
            return self.show_nothing("This conversation has no answered turns yet.")
        if turn.outcome is not None and not turn.model:
            return self.show_nothing(f"No model was asked in turn {turn.turn_seq}: it was imported, or failed before.")
        explained = await self.conversation.call(self.conversation.client.conversations.explain(turn.turn_id))
        return self.show(explained_view(explained, turn.turn_seq, self.look))


def explained_view(explained: Explained, seq: int, look: Look) -> Group:
    """Draw the account of one request."""
    plan = explained.plan
    parts: list[RenderableType] = [
        Text(f"Turn {seq}, request {explained.step_index + 1}, {explained.provider} {explained.model}"),
        BudgetBar(plan, look),
        Text(),
        _sections(explained, look),
        Text(),
        Text(_facts(explained), style="dim"),
    ]
    if plan.contextualised:
        parts.append(_titled("Made explicit", printable(plan.contextualised)))
    if plan.left_out:
        parts.append(_titled("Left out", "\n".join(map(_left, plan.left_out))))
    for quoted in explained.quoted:
        whose = f"turn {quoted.turn_seq}" if quoted.turn_seq else "another conversation"
        parts.append(_titled(f"Artifact, score {quoted.score:.2f}, {quoted.role}, {whose}", _short(quoted.text)))
    parts.extend(_titled("Shrunk", printable(step)) for step in plan.shrink_steps)
    parts.extend(_titled("Deleted since", printable(what)) for what in explained.removed)
    return Group(*parts)


def _sections(explained: Explained, look: Look) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("section", overflow="fold")
    table.add_column("tokens", justify="right")
    table.add_column("from", overflow="fold")
    for place, section in enumerate(explained.plan.sections):
        mark = Text() if look.plain else Text("█ ", style=colour_of(place))
        table.add_row(Text.assemble(mark, section.name), f"{section.tokens:,}", covered_turns(section))
    table.add_row(Text("all", style="bold"), Text(f"{explained.plan.tokens:,}", style="bold"), "")
    return table


def _facts(explained: Explained) -> str:
    share = 100 * explained.shared_bytes / explained.total_bytes if explained.total_bytes else 0
    cost = "; cost unknown" if explained.usage.cost is None else ""
    facts = [
        f"Prefix reuse: {share:.0f}% of {explained.total_bytes:,} bytes repeat the request before",
        f"Used: {tokens(explained.usage) or 'no tokens reported'}{cost}",
        "Rebuilt: identical to what was sent" if explained.matches else "Rebuilt: NOT what was sent",
    ]
    if explained.plan.route is not None:
        facts.append(f"Route: {printable(explained.plan.route.reason)}")
    if explained.plan.epoch_reason:
        facts.append(f"New prompt front: {printable(explained.plan.epoch_reason)}")
    return "\n".join(facts)


def _titled(title: str, text: str) -> Text:
    return Text.assemble("\n", (title, "bold"), "\n", text)


def _left(left: LeftOut) -> str:
    size = f" ({counted(left.tokens, 'token')})" if left.tokens else ""
    what = UUID.sub(r"\1", left.what)
    return printable(f"{what}{size}: {left.reason}")


def _short(text: str) -> str:
    words = " ".join(printable(text).split())
    return words if len(words) <= QUOTE else f"{words[:QUOTE]}…"
