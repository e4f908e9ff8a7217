"""The model's window as a drawn bar: what each section took, what is reserved, what is free."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from contextinfinity.domain.plan import Plan
from contextinfinity.tui.turn_view import Look

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
