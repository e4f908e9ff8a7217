"""The model's window as a drawn bar: what each section took, what is reserved, what is free."""

from __future__ import annotations

from rich.text import Text

from contextinfinity.domain.plan import Plan
from contextinfinity.tui.turn_view import Look

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green")
RESERVED, FREE = "▒", "·"


def colour_of(place: int) -> str:
    """Return the colour of the section at a place."""
    return COLOURS[place % len(COLOURS)]


def budget_bar(plan: Plan, width: int, look: Look) -> Text:
    """Draw the bar and a line of figures below it; in the plain form only the figures."""
    limit = plan.budget.model_limit if plan.budget is not None else max(plan.tokens, 1)
    reserved = plan.budget.response_reserve + plan.budget.safety_margin if plan.budget is not None else 0
    used = plan.tokens
    figures = f"{used:,} of {limit:,} tokens ({100 * used / limit:.1f}%), {reserved:,} kept for the answer"
    if look.plain:
        return Text(figures)
    bar = Text()
    cells = [(section.tokens, "█", colour_of(place)) for place, section in enumerate(plan.sections)]
    cells += [(max(limit - used - reserved, 0), FREE, "dim"), (reserved, RESERVED, "dim")]
    for count, (_, sign, style) in zip(_shares([tokens for tokens, *_ in cells], width), cells, strict=True):
        bar.append(sign * count, style)
    return Text.assemble(bar, "\n", (figures, "dim"))


def _shares(amounts: list[int], width: int) -> list[int]:
    """Share out cells in proportion; what is not nothing gets at least one."""
    total = max(sum(amounts), 1)
    shares = [max(round(width * amount / total), 1) if amount else 0 for amount in amounts]
    while sum(shares) > width:
        shares[shares.index(max(shares))] -= 1
    while sum(shares) < width and any(shares):
        shares[shares.index(max(shares))] += 1
    return shares
