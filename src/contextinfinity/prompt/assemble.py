"""From what was said to what the model sees.

In go the system text, the earlier turns and the turn to be answered; out come a prompt and the plan that
accounts for it. For now the earlier turns are the newest that fit a fixed bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.domain.plan import LeftOut, Plan, PlanSection
from contextinfinity.domain.prompt import Prompt
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.render import render, render_turn
from contextinfinity.text.tokens import estimate, estimate_message

VERBATIM_TOKENS = 24_000

SYSTEM = "You are a helpful assistant."


class Assembled(Struct, frozen=True, kw_only=True):
    """What will be sent, and why it is what it is."""

    prompt: Prompt
    plan: Plan


def assemble(system: str | None, earlier: Sequence[Turn], turn: Turn) -> Assembled:
    """Put the prompt of a turn together."""
    system = system or SYSTEM
    shown = newest_that_fit([*earlier, turn])
    messages = render(shown, turn)
    sections = (
        PlanSection(name="system", tokens=estimate(system)),
        PlanSection(name="turns", tokens=sum(map(estimate_message, messages)), source=_range(shown)),
        PlanSection(name="message", tokens=estimate_message(turn.user_message), source=turn.turn_seq),
    )
    missing = tuple(
        LeftOut(what=f"turn {left.turn_seq}", reason="beyond the verbatim bound")
        for left in earlier[: len(earlier) - len(shown)]
    )
    prompt = Prompt(system=(system,), messages=(*messages, turn.user_message))
    return Assembled(prompt=prompt, plan=Plan(sections=sections, left_out=missing))


def newest_that_fit(turns: Sequence[Turn], bound: int = VERBATIM_TOKENS) -> list[Turn]:
    """Give the newest of the turns before the last that stay within the bound together, oldest first."""
    kept: list[Turn] = []
    for place in range(len(turns) - 2, -1, -1):
        bound -= sum(map(estimate_message, render_turn(turns[place], turns[place + 1])))
        if bound < 0:
            break
        kept.append(turns[place])
    return kept[::-1]


def _range(turns: Sequence[Turn]) -> list[int] | None:
    return [turns[0].turn_seq, turns[-1].turn_seq] if turns else None
